"""Loads a suite declaration by path and checks it against itself and the .cu files beside it."""

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

from ..errors import DeclarationError, RooflineError
from ..hardware.dtypes import FLOATS
from ..run.arguments import SCALARS
from .launch import VECTORS
from .suite import ELEMENT, QUANTITIES, Array, Launch, Limit, Shape, Suite, Variant

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, "float64", "bool", *INTEGERS)
ALIGNMENTS = (*VECTORS, 64, 128, 256)


def load(path: Path) -> Suite:
    """Execute the file at ``path`` and return its ``SUITE``, checked.

    It is loaded by path and under a name of its own, never by ``import kernels``: a package of that name exists. It may
    import modules that lie beside it.
    Errors: :class:`DeclarationError` with the file and the entry at fault.
    """
    path = path.resolve()
    if not path.is_file():
        raise DeclarationError(
            f"there is no suite declaration at {path}; correct roofline_suite in pytest's configuration, or --suite"
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
        raise DeclarationError(
            f"{path} must bind SUITE to a pytest_roofline.declare.suite.Suite, found {type(suite).__name__}"
        )
    suite = dataclasses.replace(suite, root=path.parent)
    check(suite)
    return suite


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


def check(suite: Suite) -> None:
    """Raise :class:`DeclarationError` on the first contradiction in ``suite``."""
    if not suite.variants:
        raise DeclarationError("the suite has no variants")
    _check_tuples(suite)
    names = [variant.name for variant in suite.variants]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"variant names must be unique, doubled: {', '.join(doubled)}")
    for variant in suite.variants:
        _check_variant(suite, variant)
    for workload in suite.workloads:
        loose_shapes = [s for shapes in workload.shapes.values() for s in shapes if not isinstance(s, Shape)]
        if loose_shapes:
            raise DeclarationError(f"workload {workload.name!r} has {loose_shapes[0]!r} for a shape; write Shape(M, N)")
        if unknown := sorted(set(workload.shapes) - set(suite.operators)):
            raise DeclarationError(
                f"workload {workload.name!r} names operators that no variant has: {', '.join(unknown)}"
            )
    if unknown := sorted(set(suite.rules) - set(suite.operators)):
        raise DeclarationError(f"rules are for operators that no variant has: {', '.join(unknown)}")
    if uncalled := sorted(name for name, rule in suite.rules.items() if not callable(rule)):
        raise DeclarationError(f"rules are functions of a shape and a gpu; not so: {', '.join(uncalled)}")
    found = (path.relative_to(suite.root) for path in suite.root.rglob("*.cu"))
    on_disk = {path.as_posix() for path in found if not _is_foreign(path)}
    declared = {source for variant in suite.variants for source in variant.sources()}
    if missing := sorted(declared - on_disk):
        raise DeclarationError(f"declared, but not there under {suite.root}: {', '.join(missing)}")
    if loose := sorted(on_disk - declared):
        raise DeclarationError(f"without an entry in the declaration, so never checked: {', '.join(loose)}")


def _check_array(variant: Variant, array: Array) -> None:
    if not array.dims or not {*array.dims} <= {"M", "N"}:
        _fail(variant, f"array {array.name!r} has dims {array.dims!r}; each is M or N, and there is at least one")
    if array.dtype not in (ELEMENT, *DTYPES):
        _fail(variant, f"array {array.name!r} has dtype {array.dtype!r}, allowed are {', '.join((ELEMENT, *DTYPES))}")
    if array in variant.operator.inputs and array.dtype in INTEGERS and array.high - array.low < 2:
        _fail(
            variant,
            f"input {array.name!r} is {array.dtype} in [{array.low}, {array.high}): all values would be the same, "
            "and a kernel that ignores it would pass; widen the range",
        )


def _is_foreign(path: Path) -> bool:
    """Whether ``path`` lies in a hidden folder or among installed packages, as below a repository's root."""
    return any(part.startswith(".") or part == "site-packages" for part in path.parts)


def _check_tuples(suite: Suite) -> None:
    """A missing comma makes one thing of a tuple of one; found here, before anything walks over it."""
    _require_tuples("the ladder", suite, ("variants", "workloads"))
    for workload in suite.workloads:
        for name, shapes in workload.shapes.items():
            _require_tuple(f"workload {workload.name!r}, {name}", shapes)
    for variant in suite.variants:
        _require_tuples(
            f"variant {variant.name!r}", variant, ("launches", "limits", "scratch", "predictions", "dtypes")
        )
        for limit in variant.limits:
            _require_tuple(f"variant {variant.name!r}, limit on {limit.dim!r}: one_of", limit.one_of)
        _require_tuples(f"operator {variant.operator.name!r}", variant.operator, ("inputs", "outputs", "scalars"))
        for launch in variant.launches:
            tuples = ("args", "reads", "writes", "block", "defines")
            _require_tuples(f"variant {variant.name!r}, {launch.kernel}", launch, tuples)
        for array in (*variant.operator.inputs, *variant.operator.outputs, *variant.scratch):
            _require_tuple(f"variant {variant.name!r}, array {array.name!r}: dims", array.dims)


def _require_tuples(what: str, holder: object, fields: tuple[str, ...]) -> None:
    for field in fields:
        _require_tuple(f"{what}: {field}", getattr(holder, field))


def _require_tuple(what: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise DeclarationError(f"{what} is {value!r}, not a tuple; a tuple of one ends in a comma: (one,)")


def _check_variant(suite: Suite, variant: Variant) -> None:
    if suite.operators[variant.operator.name] is not variant.operator:
        _fail(variant, f"operator name {variant.operator.name!r} stands for two different operators")
    _check_operator(variant)
    if not variant.launches:
        _fail(variant, "has no launches")
    if variant.source not in variant.sources():
        _fail(variant, f"no launch is from its source {variant.source}, so the file would never be compiled")
    if variant.alignment not in ALIGNMENTS:
        _fail(variant, f"has alignment = {variant.alignment}, allowed are {', '.join(map(str, ALIGNMENTS))}")
    if not variant.dtypes or not {*variant.dtypes} <= {*FLOATS}:
        _fail(variant, f"has dtypes = {variant.dtypes!r}, allowed are {', '.join(FLOATS)}, and there is at least one")
    for array in variant.arrays.values():
        _check_array(variant, array)
    for launch in variant.launches:
        _check_launch(variant, launch)
    for path in variant.sources():
        if len({one.defines for one in variant.launches if variant.source_of(one) == path and one.tune is None}) > 1:
            _fail(variant, f"{path} is compiled once, and its launches have different macros (defines)")
    _check_ledger(variant)
    _check_limits_and_predictions(suite, variant)


def _check_operator(variant: Variant) -> None:
    operator = variant.operator
    if not operator.outputs:
        _fail(variant, f"operator {operator.name!r} has no outputs")
    if not 0 <= operator.rtol < math.inf:
        _fail(variant, f"operator {operator.name!r} has rtol = {operator.rtol!r}; it is finite and at least 0")
    if not callable(operator.atol) or not callable(operator.reference):
        _fail(
            variant, f"operator {operator.name!r} needs functions for atol (of N) and reference (of arrays and scalars)"
        )
    if operator.rowwise and (loose := [a.name for a in operator.outputs if not a.by_row]):
        _fail(variant, f"{', '.join(loose)} has no rows; give operator {operator.name!r} rowwise=False")
    names = [a.name for a in (*operator.inputs, *operator.outputs, *variant.scratch)]
    names += [s.name for s in operator.scalars] + ["M", "N"]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        _fail(variant, f"arrays, scalars, M and N share names: {', '.join(doubled)}")
    for scalar in operator.scalars:
        if scalar.ctype not in SCALARS:
            _fail(variant, f"scalar {scalar.name!r} has C type {scalar.ctype!r}, allowed are {', '.join(SCALARS)}")


def _check_ledger(variant: Variant) -> None:
    outputs = [a.name for a in variant.operator.outputs]
    taken = {name for launch in variant.launches for name in launch.args}
    if unused := [name for name in outputs if name not in taken]:
        _fail(variant, f"no launch takes the output {', '.join(unused)}")
    written = {name for launch in variant.launches for name in launch.writes}
    if missing := [name for name in outputs if name not in written]:
        _fail(variant, f"the ledger of no launch writes the output {', '.join(missing)}")
    if inputs := [a.name for a in variant.operator.inputs if a.name in written]:
        _fail(variant, f"the ledger writes the input {', '.join(inputs)}; in-place operators are not supported")


def _check_limits_and_predictions(suite: Suite, variant: Variant) -> None:
    for limit in variant.limits:
        number = limit.dim in ("M", "N") and not limit.one_of and limit.multiple_of >= 1 and str(limit)
        types = limit.dim == "dtype" and limit == Limit("dtype", limit.reason, one_of=limit.one_of)
        if not number and not (types and limit.one_of and {*limit.one_of} <= {*FLOATS}):
            _fail(
                variant,
                f"limit on {limit.dim!r} needs dim M or N and at_most or a positive multiple_of, "
                f"or dim dtype and one_of {', '.join(FLOATS)}",
            )
    family = [r.name for r in suite.family(variant.operator)]
    workloads = [workload.name for workload in suite.workloads]
    for prediction in variant.predictions:
        if prediction.quantity not in QUANTITIES:
            _fail(variant, f"predicts {prediction.quantity!r}; what can be predicted is {', '.join(QUANTITIES)}")
        if prediction.workload and prediction.workload not in workloads:
            _fail(variant, f"predicts for workload {prediction.workload!r}; the workloads are {', '.join(workloads)}")
        if prediction.quantity == "speedup" and prediction.than not in family:
            _fail(
                variant,
                f"predicts against {prediction.than!r}; the variants of {variant.operator.name} are {', '.join(family)}",
            )


def _check_launch(variant: Variant, launch: Launch) -> None:
    if fault := launch.fault():
        _fail(variant, fault)
    known = {*variant.arrays, *(s.name for s in variant.operator.scalars), "M", "N"}
    if unknown := [name for name in launch.args if name not in known]:
        _fail(variant, f"{launch.kernel} takes {', '.join(unknown)}, which is no array, no scalar, not M and not N")
    ledger = (*launch.reads, *launch.writes)
    if stray := [name for name in ledger if name not in launch.args]:
        _fail(variant, f"the ledger of {launch.kernel} counts {', '.join(stray)}, which it does not take")
    if scalars := [name for name in ledger if name not in variant.arrays]:
        _fail(variant, f"the ledger of {launch.kernel} counts {', '.join(scalars)}, which is no array")


def _fail(variant: Variant, what: str) -> NoReturn:
    raise DeclarationError(f"variant {variant.name!r}: {what}")
