"""Lists of cases drawn from the declaration; one set for every backend. Ids read as variant-MxN: n3-64x1000."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..declare.launch import INT32_MAX
from ..declare.suite import Limit, Shape, Suite, Variant, lacking
from ..hardware.dtypes import dtype_of
from ..hardware.gpus import Gpu

WARP = 32
RAGGED = 1000  # 3 * 256 + 232: the last trip of a loop over 256 threads has idle ones
ROWS = 64
FEW_ROWS = 8
WIDE = 2**16  # columns from which two rows are enough
PAST_INT32 = 2**31
ALLOCATABLE = 2**20  # a limit beyond this many columns is tested from above only, where nothing is allocated

SPECIMEN_ROWS = 4096  # more than a gpu needs to be full
# Odd, vectors of four, the longest row in a block's registers, then rows in shared memory over ever larger clusters.
SPECIMEN_COLUMNS = (1001, 1004, 8192, 16384, 65536, 152064, 262143)
# What few rows get, rows that just fit the gpu, arrays that just fit an L2 cache, and such as are far beyond any; then
# long rows of pairs, and the longest.
SPECIMENS_BESIDE = ((32, 152064), (300, 30000), (2048, 3584), (2**16, 4096), (3000, 42818), (943, 2**19))
# A third type is as wide as the second, and only its conversions are others.
SPECIMENS_OF_MORE_TYPES = ((SPECIMEN_ROWS, 1004), (SPECIMEN_ROWS, 65536))
Case = tuple[Variant, Shape]


def boundary_columns(suite: Suite, variant: Variant) -> list[int]:
    """Columns below, at and above a warp, a block and every limit of the family, in elements and in whole vectors."""
    found = {1, RAGGED, RAGGED + 1, variant.operator.default_shape.N}
    first = (variant.operator.inputs or variant.operator.outputs)[0]
    itemsize = dtype_of(first.at(variant.operator.default_shape).dtype).itemsize
    for one in suite.family(variant.operator):
        for launch in one.launches:
            vector = max(1, launch.vector // itemsize)  # elements of one access
            found.add(vector)
            for width in (WARP * vector, launch.threads * vector):
                found |= {width - vector, width, width + vector}
        for limit in one.limits:
            if limit.at_most is not None and limit.at_most <= ALLOCATABLE:
                found |= {limit.at_most + step for step in (-4, -1, 0, 1)}
    return sorted(n for n in found if n > 0)


def boundary_shapes(suite: Suite, variant: Variant) -> list[Shape]:
    """Boundary columns with few rows, the usual shapes with more, one row, row counts around 65536, other types."""
    shapes = [Shape(FEW_ROWS if n <= WIDE else 2, n) for n in boundary_columns(suite, variant)]
    default = variant.operator.default_shape.N
    shapes += [Shape(ROWS, RAGGED), Shape(ROWS, default), Shape(1, default)]
    shapes += [Shape(65536, WARP + 4), Shape(70000, WARP + 4)]  # mlx#2267: the last row must be right
    # Vectors of every width, and rows too long for a block's registers.
    narrow = (1, RAGGED, RAGGED + 1, RAGGED + 2, RAGGED + 4, default, 8192, 8193, 65537)
    return shapes + [Shape(FEW_ROWS, n, dtype) for dtype in variant.dtypes[1:] for n in narrow]


def specimens(suite: Suite, variant: Variant, gpu: Gpu) -> list[tuple[Variant, Shape]]:
    """The variant fixed for some shapes on ``gpu``, one for each way in which it is compiled: widths, types, rows."""
    shapes = {shape for workload in suite.workloads for shape in workload.shapes.get(variant.operator.name, ())}
    sizes = (*((SPECIMEN_ROWS, n) for n in SPECIMEN_COLUMNS), *SPECIMENS_BESIDE)
    every = {dtype: sizes if dtype in variant.dtypes[:2] else SPECIMENS_OF_MORE_TYPES for dtype in variant.dtypes}
    shapes |= {Shape(m, n, dtype) for dtype, wanted in every.items() for m, n in wanted}
    found: dict[object, tuple[Variant, Shape]] = {}
    for shape in [variant.operator.default_shape, *sorted(shapes)]:
        if variant.broken_limit(shape) is None:
            fixed = variant.at(shape, gpu)
            if not lacking(variant, shape, gpu):
                found.setdefault(tuple(launch.defines for launch in fixed.launches), (fixed, shape))
    return list(found.values())


def refused_shapes(variant: Variant) -> list[Shape]:
    """For each limit on N a shape just past it, where such a shape can be."""
    past = [_past(limit) for limit in variant.limits if limit.dim == "N"]
    return [Shape(FEW_ROWS, columns) for columns in past if columns <= INT32_MAX]


def _past(limit: Limit) -> int:
    return limit.at_most + 1 if limit.at_most is not None else limit.multiple_of + 1


def _past_int32(variant: Variant) -> Shape:
    """A shape of over 2^31 elements that the variant runs, as wide as its limits allow."""
    bounds = [limit.at_most for limit in variant.limits if limit.at_most and limit.at_most <= ALLOCATABLE]
    columns = min([8192, *bounds])
    multiples = [limit.multiple_of for limit in variant.limits if limit.dim == "N"]
    columns -= columns % math.lcm(*multiples)
    return Shape(PAST_INT32 // columns + 9, columns) if columns else Shape(1, 1)


def _named(cases: Iterable[Case]) -> dict[str, Case]:
    return {f"{variant.name}-{shape}": (variant, shape) for variant, shape in cases}


def _workload_cases(suite: Suite, runs: bool) -> dict[str, Case]:
    return _named(
        (variant, shape)
        for workload in suite.workloads
        for operator, shapes in workload.shapes.items()
        for shape in shapes
        for variant in suite.family(suite.operators[operator])
        if (variant.broken_limit(shape) is None) == runs
    )


# Argument name of a test function -> its values by id.
PARAMETERS: Mapping[str, Callable[[Suite], dict[str, Any]]] = {
    "variant": lambda suite: {variant.name: variant for variant in suite.variants},
    "variant_shape": lambda suite: _named(
        (variant, shape)
        for variant in suite.variants
        for shape in boundary_shapes(suite, variant)
        if variant.broken_limit(shape) is None
    ),
    "refused_shape": lambda suite: _named(
        (variant, shape) for variant in suite.variants for shape in refused_shapes(variant)
    ),
    "huge_shape": lambda suite: _named(
        (variant, _past_int32(variant))
        for variant in suite.variants
        if variant.broken_limit(_past_int32(variant)) is None and _past_int32(variant).M > 1
    ),
    "perf_case": lambda suite: _workload_cases(suite, runs=True),
    "refused_perf_case": lambda suite: _workload_cases(suite, runs=False),
}


def names_of(argnames: str | Sequence[str]) -> list[str]:
    """The argument names of a parametrize mark, given as "a, b" or as a sequence."""
    return [name.strip() for name in argnames.split(",")] if isinstance(argnames, str) else list(argnames)


def group_of(params: Mapping[str, Any]) -> str | None:
    """The benchmark group of a perf case: "rmsnorm 8192x3584"."""
    if "perf_case" not in params:
        return None
    variant, shape = params["perf_case"]
    return f"{variant.operator.name} {shape}"
