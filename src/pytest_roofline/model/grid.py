"""What all blocks of a grid touch, from what some of them did: at a steady distance from block to block."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..hardware.limits import Dim3
from ..sim.isa.floats import Array
from ..sim.observe.traffic import Touch
from .l2 import whole_grid

MOST = 2**26  # accesses by blocks of the grid that are kept, at most: 16 bytes each


def joined(lists: Sequence[Sequence[Touch]]) -> list[Touch] | None:
    """The accesses of several launches of other blocks as those of one; None if they are not the same ones."""
    if len({len(one) for one in lists}) > 1:
        return None
    return [
        Touch(
            np.concatenate([one.blocks for one in same]),
            np.concatenate([one.first for one in same]),
            np.concatenate([one.end for one in same]),
            same[0].write,
        )
        for same in zip(*lists, strict=True)
    ]


def every_block(touched: Sequence[Touch], grid: Dim3, units: int) -> tuple[Touch, ...] | None:
    """What the blocks of the first ``units`` of equal parts of the grid touch, from those of some units.

    None where that is not at a steady distance, in the number of the block or in its index along x, y and z; and where
    it would be too much to keep.
    """
    blocks = math.prod(grid)
    if not touched:
        return ()
    if blocks * len(touched) > MOST:
        return None
    each = max(1, blocks // units)
    found = _by_unit(touched, units, each)
    return _by_index(touched, grid) if found is None else found


def _by_unit(touched: Sequence[Touch], units: int, each: int) -> tuple[Touch, ...] | None:
    """Blocks of one rank are at a steady distance from unit to unit, whatever lies between those of a unit."""
    if each == 1:
        return whole_grid(touched, units)
    found: list[Touch] = []
    for one in touched:
        for rank in range(each):
            here = one.blocks % each == rank
            part = Touch(one.blocks[here] // each, one.first[here], one.end[here], one.write)
            if not len(part.blocks):
                continue
            whole = whole_grid([part], units)
            if whole is None:
                return None
            found += [even.spread(rank, each) for even in whole]
    return tuple(found)


def _by_index(touched: Sequence[Touch], grid: Dim3) -> tuple[Touch, ...] | None:
    """Tiles of a matrix: a steady distance along each of x, y and z."""
    seen, every = touched[0].blocks, np.arange(math.prod(grid))
    if any(len(one.blocks) != len(seen) or (one.blocks != seen).any() for one in touched):
        return None
    at, places = _indices(seen, grid), _indices(every, grid)
    if len(seen) <= at.shape[1] or np.linalg.matrix_rank(at) < at.shape[1]:
        return None  # more unknowns than blocks that could contradict them
    found = []
    for one in touched:
        sizes = one.end - one.first
        start = int(one.first[0])
        steps, *_ = np.linalg.lstsq(at, (one.first - start).astype(np.float64), rcond=None)
        whole = np.rint(steps).astype(np.int64)
        if (sizes != sizes[0]).any() or (at.astype(np.int64) @ whole != one.first - start).any():
            return None
        first = start + places.astype(np.int64) @ whole
        found.append(Touch(every, first, first + int(sizes[0]), one.write))
    return tuple(found)


def _indices(blocks: Array, grid: Dim3) -> Array:
    """One row a block: 1 and its index along each extent of the grid that is more than 1."""
    along = np.unravel_index(blocks, grid[::-1])[::-1]
    return np.stack([np.ones(len(blocks)), *(one for one, extent in zip(along, grid, strict=True) if extent > 1)], 1)


def with_tail(body: Sequence[Touch], tail: Sequence[Touch], blocks: int) -> tuple[Touch, ...]:
    """The accesses of a grid of which the first ``blocks`` are as in ``body``, the others as in ``tail``."""
    kept = [one.blocks < blocks for one in body]
    cut = [
        Touch(one.blocks[here], one.first[here], one.end[here], one.write) for one, here in zip(body, kept, strict=True)
    ]
    same = joined([cut, tail]) if [one.write for one in cut] == [one.write for one in tail] else None
    return (*cut, *tail) if same is None else tuple(same)
