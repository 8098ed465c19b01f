"""Cases drawn from a declaration: boundary shapes from extents, limits, blocks and vectors. One set for every backend.

Nothing is known here of what the extents mean: a case varies one extent at a time around a small shape, and all of
them together in a fixed random order; only shapes that the limits allow are taken. Ids read as variant-shape.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..declare.launch import dims
from ..declare.limit import numbers_named
from ..declare.operator import Operator
from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.values import independent
from ..declare.variant import Variant
from ..errors import RooflineError
from ..hardware.gpus import gpu_named
from ..hardware.limits import WARP
from ..run.case import Case
from ..run.plan import Plan, PlannedLaunch

GPU = gpu_named("h200")  # whose configurations the boundaries are taken from
FEW = 8  # of an extent that is not varied
SMALLEST = (1, 2, 3, 5, 7)
RAGGED = (31, 33, 1000, 1001)  # primes and their like: the last trip of any loop has idle threads
TYPED = (1, FEW, *RAGGED, 1004, 8192, 8193)  # of a contiguous extent, for types but the first
LARGE_GRID = (65536, 70000)  # past what 16 bits count, and what a grid has in y and z
MANY = 4096  # of an extent from which it is no longer varied for its own sake
ELEMENTS = 2**18  # of the largest array of a case
SAMPLED_ELEMENTS = 2**23  # of the largest array of a case with a large grid, of which some blocks are run
PAST = 2**32  # elements
SERIAL = 1024  # elements of the largest array for each thread of a launch, at most, with a large extent: else it is slow
SHUFFLED = 6  # cases in which all extents vary together
TRIED = 20_000  # shapes that are tried to find one that the limits allow


def base_shape(suite: Suite, variant: Variant) -> Shape | None:
    """A small shape that the variant runs; None where none is found."""
    default = suite.default(variant.operator).replace(dtype=variant.dtypes[0])
    wanted = default.replace(**{name: min(FEW, value) for name, value in default.extents.items()})
    return nearest(suite, variant, wanted)


def nearest(suite: Suite, variant: Variant, wanted: Shape) -> Shape | None:
    """``wanted``, or the shape with the fewest other extents that the variant's limits allow; None if none is found."""
    if not variant.broken_limit(wanted):
        return wanted
    named = limit_numbers(suite, variant)
    default = suite.default(variant.operator)
    lists = []
    for name, value in wanted.extents.items():
        numbers = {n for n in named.get(name, set()) if n <= MANY} | {default[name], *SMALLEST}
        multiples = {n * -(-value // n) for n in numbers}
        below = {n * (value // n) for n in numbers if value >= n}
        near = sorted(numbers | multiples | below, key=lambda n: (abs(n - value), n))
        lists.append([value, *(n for n in near if n != value)])
    combined = sorted(
        itertools.islice(itertools.product(*(range(len(one)) for one in lists)), TRIED), key=lambda at: (sum(at), at)
    )
    for at in combined:
        extents = {name: one[n] for (name, one), n in zip(zip(wanted.extents, lists, strict=True), at, strict=True)}
        if not variant.broken_limit(shape := wanted.replace(**extents)):
            return shape
    return next((s for s in suite.shapes(variant.operator) if not variant.broken_limit(s)), None)


def limit_numbers(suite: Suite, variant: Variant) -> dict[str, set[int]]:
    """By extent, the numbers that limits of the operator's variants name: every variant meets the others' limits."""
    default = suite.default(variant.operator)
    probes = (default, default.replace(**dict.fromkeys(default.extents, 1)))
    found: dict[str, set[int]] = {}
    for one in suite.family(variant.operator):
        for limit in one.limits:
            for name, numbers in numbers_named(limit.condition, probes).items():
                found.setdefault(name, set()).update(numbers)
    return found


def launch_numbers(suite: Suite, variant: Variant) -> set[int]:
    """Elements of a vector, of a warp's and a block's vectors, and a block's extents, of the operator's variants."""
    found: set[int] = set()
    default = suite.default(variant.operator)
    for one in suite.family(variant.operator):
        try:
            launches = one.configured(default.replace(dtype=one.dtypes[0]), GPU)
        except RooflineError:
            continue
        for launch in launches:
            block = dims(launch.block(default) if callable(launch.block) else launch.block) or (1, 1, 1)
            widths = launch.vector.values() if isinstance(launch.vector, Mapping) else (launch.vector or 1,)
            for width in widths:
                elements = max(1, width // 4)
                found |= {elements, WARP * elements, math.prod(block) * elements, *block}
    return {number for number in found if number > 1}


def contiguous(operator: Operator) -> set[str]:
    """Extents along which some array lies contiguous in memory."""
    return {array.dims[-1] for array in operator.arrays if array.dims and isinstance(array.dims[-1], str)}


def boundary_values(suite: Suite, variant: Variant, name: str) -> list[int]:
    """Values of one extent at and beside what limits, vectors, warps and blocks make a boundary of."""
    default = suite.default(variant.operator)[name]
    limits = {n for n in limit_numbers(suite, variant).get(name, set()) if n <= ELEMENTS}
    found = {*SMALLEST, *(n + step for n in limits for step in (-4, -1, 0, 1)), *(2 * n for n in limits)}
    if name in contiguous(variant.operator):
        found |= {n + step for n in launch_numbers(suite, variant) for step in (-1, 0, 1)} | {*RAGGED, default}
        wide = {n for n in launch_numbers(suite, variant) if n % 4 == 0}
        found |= {n + step for n in wide for step in (-4, 4)}
    else:
        found |= {4, 6, 9, *RAGGED[:2], 64}
    return sorted(n for n in found if n > 0)


def boundary_shapes(suite: Suite, variant: Variant) -> list[Shape]:
    """Shapes that the variant runs: one extent at a boundary, then all of them at some; for its first type."""
    base = base_shape(suite, variant)
    if base is None:
        return []
    values = {name: boundary_values(suite, variant, name) for name in base.extents}
    wanted = [base.replace(**{name: value}) for name in values for value in values[name]]
    wanted += _shuffled(base, values)
    wanted += [base.replace(**{name: n}) for name in base.extents for n in LARGE_GRID]
    default = suite.default(variant.operator)
    wanted += [default.replace(**{name: min(default[name], size)}) for name in base.extents for size in (1, 64)]
    return _allowed(variant, wanted)


def _shuffled(base: Shape, values: Mapping[str, Sequence[int]]) -> Iterator[Shape]:
    """All extents at a boundary together: each list in a random order of its own."""
    rng = np.random.default_rng(len(values))
    orders = {name: rng.permutation([n for n in numbers if n <= MANY]) for name, numbers in values.items()}
    for turn in range(SHUFFLED if len(values) > 1 else 0):
        yield base.replace(**{name: int(order[turn % len(order)]) for name, order in orders.items()})


def _allowed(variant: Variant, wanted: Iterable[Shape]) -> list[Shape]:
    """Each once, what the limits allow and is small enough; a large grid may have more elements."""
    found: dict[Shape, None] = {}
    for shape in wanted:
        grown = max(shape.extents.values(), default=1) in LARGE_GRID
        if largest(variant, shape) > (SAMPLED_ELEMENTS if grown else ELEMENTS) or variant.broken_limit(shape):
            continue
        if not grown or is_parallel(variant, shape):
            found[shape] = None
    return list(found)


def is_parallel(variant: Variant, shape: Shape) -> bool:
    """Whether the threads are many beside the elements; else a large extent makes a long loop and no large grid."""
    threads = max((launch.blocks * launch.threads for launch in planned(variant, shape)), default=1)
    return largest(variant, shape) <= SERIAL * threads


def largest(variant: Variant, shape: Shape) -> int:
    """Elements of the largest array; more than anything for a shape at which an array can't be."""
    try:
        return max((math.prod(array.shape(shape)) for array in variant.arrays.values()), default=0)
    except RooflineError:
        return 2**63


def typed_shapes(suite: Suite, variant: Variant) -> list[Shape]:
    """Fewer shapes for each further type: its vectors are others, and what is done with them."""
    shapes = boundary_shapes(suite, variant)
    wide = contiguous(variant.operator)
    chosen = [
        shape
        for shape in shapes
        if all(
            value in (1, FEW, *RAGGED, 1004, 8192, 8193) or name not in wide for name, value in shape.extents.items()
        )
        and max(shape.extents.values(), default=1) not in LARGE_GRID
    ]
    return [shape.replace(dtype=dtype) for dtype in variant.dtypes[1:] for shape in chosen]


def refused_shapes(suite: Suite, variant: Variant) -> list[Shape]:
    """For each limit a shape just past it, where one is found."""
    base = base_shape(suite, variant)
    if base is None:
        return []
    named = limit_numbers(suite, variant)
    found = []
    for limit in variant.limits:
        past = (
            base.replace(**{name: number + step})
            for name, numbers in named.items()
            for number in sorted(numbers)
            for step in (1, -1)
            if number + step > 0
        )
        found += list(itertools.islice((s for s in past if variant.broken_limit(s) == limit.reason), 1))
    return list(dict.fromkeys(found))


def huge_shape(suite: Suite, variant: Variant) -> Shape | None:
    """A shape with an array of over 2^32 elements that the variant runs, grown along an independent extent.

    Of several, the extent that makes the most blocks: each has little to do then, and some of them can be run.
    """
    start = nearest(suite, variant, suite.default(variant.operator).replace(dtype=variant.dtypes[0]))
    grown = [] if start is None else [_grown(variant, start, name) for name in independent(variant.operator)]
    blocks = {
        shape: max((launch.blocks for launch in planned(variant, shape)), default=0)
        for shape in grown
        if not variant.broken_limit(shape)
    }
    most = max(blocks, key=lambda shape: blocks[shape], default=None)
    return most if most and blocks[most] else None


def _grown(variant: Variant, start: Shape, name: str) -> Shape:
    """``start`` with one extent so large that an array with it has over 2^32 elements."""
    sizes = [math.prod(a.shape(start)) // start[name] for a in variant.operator.arrays if name in a.dims]
    return start.replace(**{name: PAST // max(1, *sizes) + 9})


def planned(variant: Variant, shape: Shape) -> tuple[PlannedLaunch, ...]:
    """The launches of the variant at a shape; none where it is refused."""
    try:
        return Plan(Case(variant, shape), GPU).launches
    except RooflineError:
        return ()


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
    """Every variant at a small ragged shape: few of what blocks share out, and loops over the rest go round as they do.

    Few are the independent extents, of which more make more blocks; a contiguous one is cut to a ragged number.
    """
    found = []
    for variant in suite:
        operator, default = variant.operator, suite.default(variant.operator)
        few = {*independent(operator)} - contiguous(operator)
        ragged = {name: min(default[name], FEW if name in few else RAGGED[2]) for name in default.extents}
        shape = nearest(suite, variant, default.replace(dtype=variant.dtypes[0], **ragged))
        if shape is not None:
            found.append(Case(variant, shape, suite))
    return _named(found)


# Argument name of a test function -> its values by id.
PARAMETERS: Mapping[str, Callable[[Suite], dict[str, Any]]] = {
    "variant": lambda suite: {variant.name: variant for variant in suite},
    "case": answer_cases,
    "refused_case": lambda suite: _refused((v, s) for v in suite for s in refused_shapes(suite, v)),
    "huge_case": huge_cases,
    "sanitize_case": sanitize_cases,
    "perf_case": lambda suite: _named(Case(v, s, suite) for v, s in _workload_cases(suite, runs=True)),
    "refused_perf_case": lambda suite: _refused(_workload_cases(suite, runs=False)),
}


def names_of(argnames: str | Sequence[str]) -> list[str]:
    """The argument names of a parametrize mark, given as "a, b" or as a sequence."""
    return [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)


def group_of(params: Mapping[str, Any]) -> str | None:
    """The benchmark group of a perf case: "rmsnorm 8192x3584"."""
    case = params.get("perf_case")
    return f"{case.variant.operator.name} {case.shape}" if isinstance(case, Case) else None
