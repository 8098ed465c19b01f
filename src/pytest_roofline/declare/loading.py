"""Loads a suite by path and holds it against the files beside it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from ..errors import DeclarationError, RooflineError
from .suite import Suite


def load(path: Path | str) -> Suite:
    """Execute the file at ``path`` and return its ``SUITE``.

    It is loaded by path and under a name of its own, never by ``import kernels``: a package of that name exists. It may
    import modules that lie beside it.
    Errors: :class:`DeclarationError` with the file and the entry at fault.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise DeclarationError(
            f"there is no suite at {path}; correct roofline_suite in pytest's configuration, or --suite"
        )
    name = "_roofline_suite_" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        with _importing_from(path.parent):
            spec.loader.exec_module(module)
    except RooflineError:
        raise
    except Exception as error:
        raise DeclarationError(f"{path} can't be executed: {type(error).__name__}: {error}") from error
    suite = getattr(module, "SUITE", None)
    if not isinstance(suite, Suite):
        raise DeclarationError(f"{path} must bind SUITE to a pytest_roofline.Suite, found {type(suite).__name__}")
    suite = suite.at(path)
    if missing := sorted({s for variant in suite for s in variant.sources() if not (suite.root / s).is_file()}):
        raise DeclarationError(f"declared, but not there under {suite.root}: {', '.join(missing)}")
    return suite


def undeclared(suite: Suite) -> list[str]:
    """The .cu files below the declaration that no variant names and ``exclude`` does not: they are never checked."""
    mine = [path for path in _sources(suite.root) if not any(path.match(p) for p in suite.exclude)]
    declared = {source for variant in suite for source in variant.sources()}
    return sorted(path.as_posix() for path in mine if path.as_posix() not in declared)


def _sources(root: Path) -> Iterator[Path]:
    """The .cu files below ``root``, from there; environments beside a project's sources are not walked through."""
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not _is_foreign(Path(name))]
        mine = [name for name in files if name.endswith(".cu") and not _is_foreign(Path(name))]
        yield from (Path(folder, name).relative_to(root) for name in mine)


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Lets a declaration import the modules beside it, which another suite's of the same name must not find loaded."""
    beside = {one.stem for one in folder.glob("*.py")} | {one.parent.name for one in folder.glob("*/__init__.py")}
    beside -= sys.stdlib_module_names

    def named() -> list[str]:
        """Loaded modules that would be taken for those beside; an installed package is not one, whatever its name."""
        tops = {name for name in beside if name in sys.modules and not _is_installed(sys.modules[name])}
        return [name for name in sys.modules if name.partition(".")[0] in tops]

    before = {name: sys.modules.pop(name) for name in named()}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(str(folder))
        for name in named():
            del sys.modules[name]
        sys.modules.update(before)


def _is_installed(module: ModuleType) -> bool:
    return _is_foreign(Path(getattr(module, "__file__", None) or ""))


def _is_foreign(path: Path) -> bool:
    """Whether ``path`` lies in a hidden folder or among installed packages, as below a repository's root."""
    return any(part.startswith(".") or part == "site-packages" for part in path.parts)
