"""What generic tests are run on, from a declaration, by the name of their argument. One set for every backend.

Ids read as variant-shape: "n3-8x1000".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Variant
from ..run.case import Case
from ..run.device import NOT_CHECKED
from .shapes import boundary_shapes, huge_shape, ragged_shape, refused_shapes, typed_shapes

NO_HUGE = (
    f"{NOT_CHECKED}: offsets past 2^31 elements: no extent can be made so large alone, for outputs along it depend on "
    "each other or a limit forbids it"
)


def _named(cases: Iterable[Case]) -> dict[str, Case]:
    return {case.id: case for case in cases}


def _workload_cases(suite: Suite, runs: bool) -> Iterator[tuple[Variant, Shape]]:
    for name in suite.workloads:
        for operator in suite.operators.values():
            for shape in suite.workload(name, operator):
                for variant in suite.family(operator):
                    if (not variant.broken_limit(shape)) == runs:
                        yield variant, shape


def _refused(pairs: Iterable[tuple[Variant, Shape]]) -> dict[str, tuple[Variant, Shape]]:
    return {f"{variant.name}-{shape}": (variant, shape) for variant, shape in pairs}


def answer_cases(suite: Suite) -> dict[str, Case]:
    """Every variant at every boundary shape, and at fewer for each further type."""
    return _named(
        Case(variant, shape, suite)
        for variant in suite
        for shape in [*boundary_shapes(suite, variant), *typed_shapes(suite, variant)]
    )


def huge_cases(suite: Suite) -> dict[str, Case]:
    """Every variant past 2^32 elements, where its limits allow."""
    shapes = ((variant, huge_shape(suite, variant)) for variant in suite)
    return _named(Case(variant, shape, suite) for variant, shape in shapes if shape is not None)


def sanitize_cases(suite: Suite) -> dict[str, Case]:
    """Every variant at a small ragged shape."""
    shapes = ((variant, ragged_shape(suite, variant)) for variant in suite)
    return _named(Case(variant, shape, suite) for variant, shape in shapes if shape is not None)


@dataclass(frozen=True)
class Missing:
    """In place of a case that there is not; a test is skipped with ``why``."""

    why: str


def _huge_or_why(suite: Suite) -> dict[str, Any]:
    """The huge cases, and of each variant without one that nothing past 2^31 elements is looked at."""
    cases = huge_cases(suite)
    found = {case.variant.name for case in cases.values()}
    return cases | {variant.name: Missing(NO_HUGE) for variant in suite if variant.name not in found}


# Argument name of a test function -> its values by id.
PARAMETERS: Mapping[str, Callable[[Suite], dict[str, Any]]] = {
    "variant": lambda suite: {variant.name: variant for variant in suite},
    "case": answer_cases,
    "refused_case": lambda suite: _refused((v, s) for v in suite for s in refused_shapes(suite, v)),
    "huge_case": _huge_or_why,
    "sanitize_case": sanitize_cases,
    "perf_case": lambda suite: _named(Case(v, s, suite) for v, s in _workload_cases(suite, runs=True)),
    "refused_perf_case": lambda suite: _refused(_workload_cases(suite, runs=False)),
}

# What a test that has no case is skipped with.
WHY_NONE: Mapping[str, str] = {
    "refused_case": "no shape is refused: no variant has a limit",
    "perf_case": "no shape is timed: the suite has no workloads",
    "refused_perf_case": "every variant runs every shape of the workloads",
}


def parameters(name: str, suite: Suite) -> dict[str, Any]:
    """Values of the argument ``name`` by id, each a case or :class:`Missing`; there is one at least."""
    return PARAMETERS[name](suite) or {"none": Missing(WHY_NONE.get(name, "no cases"))}


def names_of(argnames: str | Sequence[str]) -> list[str]:
    """The argument names of a parametrize mark, given as "a, b" or as a sequence."""
    return [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)


def group_of(params: Mapping[str, Any]) -> str | None:
    """The benchmark group of a perf case: "rmsnorm 8192x3584"."""
    case = params.get("perf_case")
    return f"{case.variant.operator.name} {case.shape}" if isinstance(case, Case) else None
