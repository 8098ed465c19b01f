"""Loads a ladder declaration by path and checks it against itself and the .cu files beside it."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import sys
from pathlib import Path

from .errors import DeclarationError, RooflineError
from .ladder import Ladder, Rung

CTYPES = ("float", "double", "int", "long long")


def load(path: Path) -> Ladder:
    """Execute the file at ``path`` and return its ``LADDER``, checked.

    It is loaded by path and under a name of its own, never by ``import kernels``: a package of that name exists.
    Errors: :class:`DeclarationError` with the file and the entry at fault.
    """
    path = path.resolve()
    if not path.is_file():
        raise DeclarationError(f"there is no ladder declaration at {path}; set the ini key roofline_ladder to its path")
    name = "_roofline_ladder_" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except RooflineError:
        raise
    except Exception as error:
        raise DeclarationError(f"{path} can't be executed: {type(error).__name__}: {error}") from error
    ladder = getattr(module, "LADDER", None)
    if not isinstance(ladder, Ladder):
        raise DeclarationError(f"{path} must bind LADDER to a pytest_roofline.ladder.Ladder, found {type(ladder).__name__}")
    ladder = dataclasses.replace(ladder, root=path.parent)
    check(ladder)
    return ladder


def check(ladder: Ladder) -> None:
    """Raise :class:`DeclarationError` on the first contradiction in ``ladder``."""
    if not ladder.rungs:
        raise DeclarationError("the ladder has no rungs")
    names = [rung.name for rung in ladder.rungs]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"rung names must be unique, doubled: {', '.join(doubled)}")
    for rung in ladder.rungs:
        _check_rung(ladder, rung)
    for stage in ladder.stages:
        if unknown := sorted(set(stage.shapes) - set(ladder.operators)):
            raise DeclarationError(f"stage {stage.name!r} names operators that no rung has: {', '.join(unknown)}")
    on_disk = {p.relative_to(ladder.root).as_posix() for p in ladder.root.rglob("*.cu")}
    declared = {source for rung in ladder.rungs for source in rung.sources()}
    if missing := sorted(declared - on_disk):
        raise DeclarationError(f"declared, but not there under {ladder.root}: {', '.join(missing)}")
    if loose := sorted(on_disk - declared):
        raise DeclarationError(f"without an entry in the declaration, so never checked: {', '.join(loose)}")


def _check_rung(ladder: Ladder, rung: Rung) -> None:
    def fail(what: str) -> None:
        raise DeclarationError(f"rung {rung.name!r}: {what}")

    if ladder.operators[rung.operator.name] is not rung.operator:
        fail(f"operator name {rung.operator.name!r} stands for two different operators")
    if not rung.launches:
        fail("has no launches")
    arrays = rung.arrays
    if len(arrays) != len(rung.operator.inputs) + len(rung.operator.outputs) + len(rung.scratch):
        fail("two arrays share a name")
    known = {*arrays, *(s.name for s in rung.operator.scalars), "M", "N"}
    for scalar in rung.operator.scalars:
        if scalar.ctype not in CTYPES:
            fail(f"scalar {scalar.name!r} has C type {scalar.ctype!r}, allowed are {', '.join(CTYPES)}")
    for launch in rung.launches:
        if unknown := [name for name in launch.args if name not in known]:
            fail(f"{launch.kernel} takes {', '.join(unknown)}, which is no array, no scalar, not M and not N")
        if stray := [name for name in (*launch.reads, *launch.writes) if name not in launch.args]:
            fail(f"the ledger of {launch.kernel} counts {', '.join(stray)}, which it does not take")
        if not 1 <= launch.threads <= 1024:
            fail(f"{launch.kernel} has a block of {launch.threads} threads, allowed are 1 to 1024")
    taken = {name for launch in rung.launches for name in launch.args}
    if unused := [a.name for a in rung.operator.outputs if a.name not in taken]:
        fail(f"no launch takes the output {', '.join(unused)}")
    for limit in rung.limits:
        if limit.dim not in ("M", "N") or not str(limit):
            fail(f"limit on {limit.dim!r} needs dim M or N and at_most or multiple_of")
    family = [r.name for r in ladder.family(rung.operator)]
    for prediction in rung.predictions:
        if prediction.than not in family:
            fail(f"predicts against {prediction.than!r}; the rungs of {rung.operator.name} are {', '.join(family)}")
