"""Which declaration a folder's pytest configuration names, for use outside pytest."""

from __future__ import annotations

import configparser
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings it along there
    import tomli as tomllib

from ..errors import UnknownNameError

KEY = "roofline_suite"
# In pytest's own order of precedence; the section that holds pytest's keys, none for TOML.
FILES = (
    ("pytest.toml", ""),
    (".pytest.toml", ""),
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", ""),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)


def declared_in(folder: Path) -> Path | None:
    """The path that the nearest configuration at or above ``folder`` gives roofline_suite; None if none does.

    Errors: :class:`UnknownNameError` for a file that can't be read as what its name says.
    """
    for place in (folder, *folder.parents):
        for name, section in FILES:
            if (place / name).is_file() and (named := _read(place / name, section)):
                return place / named
    return None


def _read(path: Path, section: str) -> str | None:
    try:
        return _value(path.read_text(encoding="utf-8"), section)
    except (OSError, ValueError, configparser.Error) as error:  # TOML and Unicode errors are ValueErrors
        raise UnknownNameError(f"{path} can't be read for {KEY} ({error}); correct it, or name --suite") from error


def _value(text: str, section: str) -> str | None:
    if not section:
        document: dict[str, Any] = tomllib.loads(text)
        pytest_table = document.get("pytest") or document.get("tool", {}).get("pytest", {})
        named = pytest_table.get(KEY) or pytest_table.get("ini_options", {}).get(KEY)
        return str(named) if named else None
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser.get(section, KEY, fallback=None)
