"""Loads a ladder declaration by path and checks it against itself and the .cu files beside it."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from .arguments import SCALARS
from .errors import DeclarationError, RooflineError
from .floats import FLOATS
from .ladder import ELEMENT, QUANTITIES, Array, Ladder, Launch, Limit, Rung, Shape
from .launch import VECTORS

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, "float64", "bool", *INTEGERS)
ALIGNMENTS = (*VECTORS, 64, 128, 256)


def load(path: Path) -> Ladder:
    """Execute the file at ``path`` and return its ``LADDER``, checked.

    It is loaded by path and under a name of its own, never by ``import kernels``: a package of that name exists. It may
    import modules that lie beside it.
    Errors: :class:`DeclarationError` with the file and the entry at fault.
    """
    path = path.resolve()
    if not path.is_file():
        raise DeclarationError(
            f"there is no ladder declaration at {path}; correct roofline_ladder in pytest's configuration, or --ladder"
        )
    name = "_roofline_ladder_" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
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
    ladder = getattr(module, "LADDER", None)
    if not isinstance(ladder, Ladder):
        raise DeclarationError(
            f"{path} must bind LADDER to a pytest_roofline.ladder.Ladder, found {type(ladder).__name__}"
        )
    ladder = dataclasses.replace(ladder, root=path.parent)
    check(ladder)
    return ladder


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Lets a declaration import the modules beside it, which another ladder's of the same name must not find loaded."""
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


def check(ladder: Ladder) -> None:
    """Raise :class:`DeclarationError` on the first contradiction in ``ladder``."""
    if not ladder.rungs:
        raise DeclarationError("the ladder has no rungs")
    _check_tuples(ladder)
    names = [rung.name for rung in ladder.rungs]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"rung names must be unique, doubled: {', '.join(doubled)}")
    for rung in ladder.rungs:
        _check_rung(ladder, rung)
    for stage in ladder.stages:
        loose_shapes = [s for shapes in stage.shapes.values() for s in shapes if not isinstance(s, Shape)]
        if loose_shapes:
            raise DeclarationError(f"stage {stage.name!r} has {loose_shapes[0]!r} for a shape; write Shape(M, N)")
        if unknown := sorted(set(stage.shapes) - set(ladder.operators)):
            raise DeclarationError(f"stage {stage.name!r} names operators that no rung has: {', '.join(unknown)}")
    if unknown := sorted(set(ladder.rules) - set(ladder.operators)):
        raise DeclarationError(f"rules are for operators that no rung has: {', '.join(unknown)}")
    if uncalled := sorted(name for name, rule in ladder.rules.items() if not callable(rule)):
        raise DeclarationError(f"rules are functions of a shape and a card; not so: {', '.join(uncalled)}")
    found = (path.relative_to(ladder.root) for path in ladder.root.rglob("*.cu"))
    on_disk = {path.as_posix() for path in found if not _is_foreign(path)}
    declared = {source for rung in ladder.rungs for source in rung.sources()}
    if missing := sorted(declared - on_disk):
        raise DeclarationError(f"declared, but not there under {ladder.root}: {', '.join(missing)}")
    if loose := sorted(on_disk - declared):
        raise DeclarationError(f"without an entry in the declaration, so never checked: {', '.join(loose)}")


def _check_array(rung: Rung, array: Array) -> None:
    if not array.dims or not {*array.dims} <= {"M", "N"}:
        _fail(rung, f"array {array.name!r} has dims {array.dims!r}; each is M or N, and there is at least one")
    if array.dtype not in (ELEMENT, *DTYPES):
        _fail(rung, f"array {array.name!r} has dtype {array.dtype!r}, allowed are {', '.join((ELEMENT, *DTYPES))}")
    if array in rung.operator.inputs and array.dtype in INTEGERS and array.high - array.low < 2:
        _fail(
            rung,
            f"input {array.name!r} is {array.dtype} in [{array.low}, {array.high}): all values would be the same, "
            "and a kernel that ignores it would pass; widen the range",
        )


def _is_foreign(path: Path) -> bool:
    """Whether ``path`` lies in a hidden folder or among installed packages, as below a repository's root."""
    return any(part.startswith(".") or part == "site-packages" for part in path.parts)


def _check_tuples(ladder: Ladder) -> None:
    """A missing comma makes one thing of a tuple of one; found here, before anything walks over it."""
    _require_tuples("the ladder", ladder, ("rungs", "stages"))
    for stage in ladder.stages:
        for name, shapes in stage.shapes.items():
            _require_tuple(f"stage {stage.name!r}, {name}", shapes)
    for rung in ladder.rungs:
        _require_tuples(f"rung {rung.name!r}", rung, ("launches", "limits", "scratch", "predictions", "dtypes"))
        for limit in rung.limits:
            _require_tuple(f"rung {rung.name!r}, limit on {limit.dim!r}: one_of", limit.one_of)
        _require_tuples(f"operator {rung.operator.name!r}", rung.operator, ("inputs", "outputs", "scalars"))
        for launch in rung.launches:
            tuples = ("args", "reads", "writes", "block", "defines")
            _require_tuples(f"rung {rung.name!r}, {launch.kernel}", launch, tuples)
        for array in (*rung.operator.inputs, *rung.operator.outputs, *rung.scratch):
            _require_tuple(f"rung {rung.name!r}, array {array.name!r}: dims", array.dims)


def _require_tuples(what: str, holder: object, fields: tuple[str, ...]) -> None:
    for field in fields:
        _require_tuple(f"{what}: {field}", getattr(holder, field))


def _require_tuple(what: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise DeclarationError(f"{what} is {value!r}, not a tuple; a tuple of one ends in a comma: (one,)")


def _check_rung(ladder: Ladder, rung: Rung) -> None:
    if ladder.operators[rung.operator.name] is not rung.operator:
        _fail(rung, f"operator name {rung.operator.name!r} stands for two different operators")
    _check_operator(rung)
    if not rung.launches:
        _fail(rung, "has no launches")
    if rung.source not in rung.sources():
        _fail(rung, f"no launch is from its source {rung.source}, so the file would never be compiled")
    if rung.alignment not in ALIGNMENTS:
        _fail(rung, f"has alignment = {rung.alignment}, allowed are {', '.join(map(str, ALIGNMENTS))}")
    if not rung.dtypes or not {*rung.dtypes} <= {*FLOATS}:
        _fail(rung, f"has dtypes = {rung.dtypes!r}, allowed are {', '.join(FLOATS)}, and there is at least one")
    for array in rung.arrays.values():
        _check_array(rung, array)
    for launch in rung.launches:
        _check_launch(rung, launch)
    for path in rung.sources():
        if len({one.defines for one in rung.launches if rung.source_of(one) == path and one.tune is None}) > 1:
            _fail(rung, f"{path} is compiled once, and its launches have different macros (defines)")
    _check_ledger(rung)
    _check_limits_and_predictions(ladder, rung)


def _check_operator(rung: Rung) -> None:
    operator = rung.operator
    if not operator.outputs:
        _fail(rung, f"operator {operator.name!r} has no outputs")
    if not 0 <= operator.rtol < math.inf:
        _fail(rung, f"operator {operator.name!r} has rtol = {operator.rtol!r}; it is finite and at least 0")
    if not callable(operator.atol) or not callable(operator.reference):
        _fail(rung, f"operator {operator.name!r} needs functions for atol (of N) and reference (of arrays and scalars)")
    if operator.rowwise and (loose := [a.name for a in operator.outputs if not a.by_row]):
        _fail(rung, f"{', '.join(loose)} has no rows; give operator {operator.name!r} rowwise=False")
    names = [a.name for a in (*operator.inputs, *operator.outputs, *rung.scratch)]
    names += [s.name for s in operator.scalars] + ["M", "N"]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        _fail(rung, f"arrays, scalars, M and N share names: {', '.join(doubled)}")
    for scalar in operator.scalars:
        if scalar.ctype not in SCALARS:
            _fail(rung, f"scalar {scalar.name!r} has C type {scalar.ctype!r}, allowed are {', '.join(SCALARS)}")


def _check_ledger(rung: Rung) -> None:
    outputs = [a.name for a in rung.operator.outputs]
    taken = {name for launch in rung.launches for name in launch.args}
    if unused := [name for name in outputs if name not in taken]:
        _fail(rung, f"no launch takes the output {', '.join(unused)}")
    written = {name for launch in rung.launches for name in launch.writes}
    if missing := [name for name in outputs if name not in written]:
        _fail(rung, f"the ledger of no launch writes the output {', '.join(missing)}")
    if inputs := [a.name for a in rung.operator.inputs if a.name in written]:
        _fail(rung, f"the ledger writes the input {', '.join(inputs)}; in-place operators are not supported")


def _check_limits_and_predictions(ladder: Ladder, rung: Rung) -> None:
    for limit in rung.limits:
        number = limit.dim in ("M", "N") and not limit.one_of and limit.multiple_of >= 1 and str(limit)
        types = limit.dim == "dtype" and limit == Limit("dtype", limit.reason, one_of=limit.one_of)
        if not number and not (types and limit.one_of and {*limit.one_of} <= {*FLOATS}):
            _fail(
                rung,
                f"limit on {limit.dim!r} needs dim M or N and at_most or a positive multiple_of, "
                f"or dim dtype and one_of {', '.join(FLOATS)}",
            )
    family = [r.name for r in ladder.family(rung.operator)]
    stages = [stage.name for stage in ladder.stages]
    for prediction in rung.predictions:
        if prediction.quantity not in QUANTITIES:
            _fail(rung, f"predicts {prediction.quantity!r}; what can be predicted is {', '.join(QUANTITIES)}")
        if prediction.stage and prediction.stage not in stages:
            _fail(rung, f"predicts for stage {prediction.stage!r}; the stages are {', '.join(stages)}")
        if prediction.quantity == "speedup" and prediction.than not in family:
            _fail(
                rung,
                f"predicts against {prediction.than!r}; the rungs of {rung.operator.name} are {', '.join(family)}",
            )


def _check_launch(rung: Rung, launch: Launch) -> None:
    if fault := launch.fault():
        _fail(rung, fault)
    known = {*rung.arrays, *(s.name for s in rung.operator.scalars), "M", "N"}
    if unknown := [name for name in launch.args if name not in known]:
        _fail(rung, f"{launch.kernel} takes {', '.join(unknown)}, which is no array, no scalar, not M and not N")
    ledger = (*launch.reads, *launch.writes)
    if stray := [name for name in ledger if name not in launch.args]:
        _fail(rung, f"the ledger of {launch.kernel} counts {', '.join(stray)}, which it does not take")
    if scalars := [name for name in ledger if name not in rung.arrays]:
        _fail(rung, f"the ledger of {launch.kernel} counts {', '.join(scalars)}, which is no array")


def _fail(rung: Rung, what: str) -> NoReturn:
    raise DeclarationError(f"rung {rung.name!r}: {what}")
