"""CUDA sources held in memory with every header they include, so that a build is a function of its text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import CompileError

QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


@cache
def _standard_headers() -> dict[str, str]:
    """Small stand-ins for the C headers that NVRTC lacks (float.h, stdint.h, math.h, limits.h, and their C++ names)."""
    folder = Path(__file__).parent / "include"
    headers = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.h"))}
    for name, stem in (("cfloat", "float"), ("cstdint", "stdint"), ("cmath", "math"), ("climits", "limits")):
        headers[name] = headers[f"{stem}.h"]
    return headers


@dataclass(frozen=True)
class Source:
    """A .cu file: ``name`` as it shows in messages, its text, and all headers by the name they are included by."""

    name: str
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Source:
        """Read ``path`` and, recursively, what it includes with quotes.

        Errors: :class:`CompileError` if a file is missing, with who includes it and where it was looked for.
        """
        headers: dict[str, str] = dict(_standard_headers())
        text = _read(path, None)
        _collect(path, text, headers)
        return cls(path.name, text, headers)

    @classmethod
    def of_text(cls, name: str, text: str) -> Source:
        """A source without quoted includes."""
        return cls(name, text, _standard_headers())

    def main_text(self) -> str:
        """The text with a #line on top, so that reports name the file and not NVRTC's default name."""
        return f'#line 1 "{self.name}"\n{self.text}'

    def as_json(self) -> Any:
        return [self.name, self.text, dict(self.headers)]

    def with_volatile_shared(self) -> Source:
        """The same source with every ``__shared__`` declaration volatile.

        The optimiser may delete the racy access of a race that the source has; it may not delete a volatile one.
        """
        return dataclasses.replace(
            self,
            text=_volatile(self.text),
            headers={name: _volatile(text) for name, text in self.headers.items()},
        )

    def replaced(self, old: str, new: str, file: str = "", occurrence: int | None = None) -> Source:
        """This source with ``old`` replaced by ``new`` in its own text, or in the header ``file``.

        ``old`` must occur exactly once, or ``occurrence`` (from 0) says which one is meant; otherwise
        :class:`CompileError`: an edit that no longer applies must not pass for one that was made.
        """
        text = self.headers.get(file, "") if file else self.text
        starts = [m.start() for m in re.finditer(re.escape(old), text)]
        if len(starts) <= (occurrence or 0) or (occurrence is None and len(starts) != 1):
            raise CompileError(
                f"can't replace {old!r} in {file or self.name}: it occurs {len(starts)} times"
                + (", wanted exactly once" if occurrence is None else f", wanted number {occurrence}")
            )
        at = starts[occurrence or 0]
        text = text[:at] + new + text[at + len(old) :]
        if file:
            return dataclasses.replace(self, headers={**self.headers, file: text})
        return dataclasses.replace(self, text=text)


def _read(path: Path, by: Path | None) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        where = f", included by {by}" if by else ""
        raise CompileError(f"can't read {path}{where}: {error}") from error


def _collect(path: Path, text: str, headers: dict[str, str]) -> None:
    for name in QUOTED.findall(text):
        included = path.parent / name
        if not included.is_file() and (name in headers or "/" not in name):
            continue  # a C header, or one of CUDA's own in quotes: NVRTC finds it or says that it can't
        header = _read(included, path)
        if headers.get(name, header) != header:  # NVRTC knows a header by this name alone and would take either
            raise CompileError(
                f'{path} includes "{name}", and another file of that name is included already: rename one'
            )
        if name not in headers:
            headers[name] = header
            _collect(included, header, headers)


def _volatile(text: str) -> str:
    parts, last = [], 0
    for skip in COMMENT_OR_STRING.finditer(text):
        parts += [re.sub(r"\b__shared__\b", "__shared__ volatile", text[last : skip.start()]), skip.group()]
        last = skip.end()
    return "".join(parts) + re.sub(r"\b__shared__\b", "__shared__ volatile", text[last:])
