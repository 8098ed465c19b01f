"""Numbers of a declaration at which something changes: of limits, vectors, warps, blocks, and what a block covers.

Nothing is known here of what the extents mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..declare.launch import Launch, dims
from ..declare.limit import numbers_named
from ..declare.operator import Operator
from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Variant
from ..errors import RooflineError
from ..hardware.gpus import gpu_named
from ..hardware.limits import WARP
from ..run.plan import planned

GPU = gpu_named("h200")  # whose configurations the boundaries are taken from
FEW = 8  # of an extent that is not varied
SMALLEST = (1, 2, 3, 5, 7)
RAGGED = (31, 33)  # beside a warp, and no multiple of anything
LONG_RAGGED = (1001, 1000)  # of a contiguous extent: the last trip of a loop over it has idle threads
TYPED = (1, *RAGGED, 1000, 1001, 1002, 1004)  # multiples of 8, 1, 2 and 4: each width of a vector of narrow elements
PROBED = 4096  # extents up to which it is looked for what a block covers


def contiguous(operator: Operator) -> set[str]:
    """Extents along which some array lies contiguous in memory."""
    return {array.dims[-1] for array in operator.arrays if array.dims and isinstance(array.dims[-1], str)}


def limit_numbers(suite: Suite, variant: Variant) -> dict[str, set[int]]:
    """By extent, the numbers that limits of the operator's variants name: every variant meets the others' limits."""
    default = suite.default(variant.operator)
    probes = (default, default.replace(**dict.fromkeys(default.extents, 1)))
    found: dict[str, set[int]] = {name: set() for name in default.extents}
    for one in suite.family(variant.operator):
        for limit in one.limits:
            for name, numbers in numbers_named(limit.condition, probes).items():
                found[name] |= numbers
    return found


def launch_numbers(suite: Suite, variant: Variant) -> tuple[set[int], dict[int, int]]:
    """Of a contiguous extent: elements of a vector, a warp and the extents of blocks; and what many vectors cover.

    The second maps elements of a warp's and a block's vectors to those of one vector. Blocks are those of the variant
    and of its operator's baseline.
    """
    default = suite.default(variant.operator)
    own, first = (_launches(one, default) for one in (variant, suite.baseline(variant)))
    blocks = [_block(launch, default) for launch in (*own, *first)]
    threads = {x for x, y, z in blocks if y == z == 1}  # of a block with more extents each may be along another extent
    single = {WARP, *(n for block in blocks for n in block)}
    many: dict[int, int] = {}
    for elements in {n for launch in own for n in _vectors(variant, launch, default)}:
        single.add(elements)
        many |= {count * elements: elements for count in (WARP, *threads) if elements > 1}
    return {number for number in single if number > 1}, many


def _launches(variant: Variant, shape: Shape) -> tuple[Launch, ...]:
    """The launches as declared, and as they are configured for the shape."""
    try:
        return variant.launches + variant.configured(shape.replace(dtype=variant.dtypes[0]), GPU)
    except RooflineError:
        return variant.launches


def _block(launch: Launch, shape: Shape) -> tuple[int, int, int]:
    try:
        return dims(launch.block(shape) if callable(launch.block) else launch.block) or (1, 1, 1)
    except Exception:  # a block that can't be had for the default shape is told of where it is planned
        return 1, 1, 1


def _vectors(variant: Variant, launch: Launch, shape: Shape) -> set[int]:
    """Elements of the widest access to each array of the launch that has a width."""
    typed = shape.replace(dtype=variant.dtypes[0])
    widths = launch.vector
    if not isinstance(widths, Mapping):
        widths = {} if widths is None else dict.fromkeys((*variant.reads(launch), *variant.writes(launch)), widths)
    return {max(1, width // variant.arrays[name].dtype_at(typed).itemsize) for name, width in widths.items()}


def covered(variant: Variant, base: Shape, name: str) -> int:
    """How much of an extent a block covers: by how much it grows until the grid does; 0 where it has no part in that.

    Taken between the first change and the second, so that a grid of max(1, M // 4) blocks is seen to cover four.
    """
    unlimited = dataclasses.replace(variant, limits=())
    first = _next_change(unlimited, base, name, 1)
    second = _next_change(unlimited, base, name, first) if first else None
    return second - first if first and second else 0


def _next_change(variant: Variant, base: Shape, name: str, start: int) -> int | None:
    """The least value above ``start`` at which a grid is another one, of grids that only grow."""
    grids = _grids(variant, base.replace(**{name: start}))
    below, above = start, start + 1
    while _grids(variant, base.replace(**{name: above})) == grids:
        below, above = above, start + 2 * (above - start)
        if above > PROBED:
            return None
    while above - below > 1:
        middle = (below + above) // 2
        if _grids(variant, base.replace(**{name: middle})) == grids:
            below = middle
        else:
            above = middle
    return above


def _grids(variant: Variant, shape: Shape) -> list[object] | None:
    """The grids at a shape; None where there are none."""
    plan = planned(variant, shape, GPU)
    return [launch.grid for launch in plan.launches] if plan else None


def beside_cover(cover: int) -> set[int]:
    """Values with each remainder of what a block covers that goes wrong by itself: none, 1, 2, 3, and one less."""
    return {cover - 1, cover, *(cover + step for step in (1, 2, 3)), 2 * cover + 1} if cover > 1 else set()


def boundary_values(suite: Suite, variant: Variant, base: Shape, name: str) -> list[int]:
    """Values of one extent at and beside what limits, vectors, warps and blocks make a boundary of."""
    found = {*SMALLEST, *RAGGED, *beside_cover(covered(variant, base, name))}
    for number in limit_numbers(suite, variant)[name]:
        found |= {number - 1, number, number + 1, 2 * number}
    if name in contiguous(variant.operator):
        single, many = launch_numbers(suite, variant)
        found |= {n + step for n in single for step in (-1, 0, 1)}
        found |= {n + step * elements for n, elements in many.items() for step in (-1, 0, 1)}
        last = {n for one in suite.family(variant.operator) for n in launch_numbers(suite, one)[1].values()}
        found |= {n - step for n in limit_numbers(suite, variant)[name] for step in last}
        found |= {*LONG_RAGGED[: 2 if len(base.extents) < 3 else 1], suite.default(variant.operator)[name]}
    elif len(base.extents) < 3:
        found.add(64)
    return sorted(n for n in found if n > 0)
