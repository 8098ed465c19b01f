"""Which part of a large case is run and compared: some blocks of its grids, some indices of its independent extents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..declare.operator import Operator
from ..declare.shape import Shape
from ..declare.values import Picked, independent
from .device import Device
from .plan import Plan, PlannedArray, PlannedLaunch

CHECK_ALL = 2**20  # elements up to which all of an output is compared
DRAWN = 8  # indices or units that are drawn at random, beside the first and the last
LONG_ITEM = 256  # elements of an output that belong to one index, from which single indices are worth a look
WINDOW = 256  # neighbouring indices that are looked at together where they are shorter
LEAD = 3  # the first units, which show how far apart their elements are


def pick(operator: Operator, shape: Shape, seed: int = 0) -> dict[str, np.ndarray]:
    """By independent extent, the indices to compare: the first, the last and some drawn; empty for everything."""
    free = independent(operator)
    sizes = [math.prod(a.shape(shape)) for a in operator.outputs]
    if max(sizes) <= CHECK_ALL or not free:
        return {}
    rng = np.random.default_rng([seed, *shape.extents.values()])
    item = max(size / math.prod(shape[name] for name in free) for size in sizes)
    found = {}
    for name in free:
        extent, last = shape[name], name == free[-1]
        count = DRAWN if len(free) == 1 else 1
        if item < LONG_ITEM and last:
            found[name] = _windows(rng, extent)
        else:
            drawn = rng.integers(0, extent, size=min(count, extent))
            found[name] = np.unique(np.append(drawn, (0, extent - 1)))
    return found


def _windows(rng: np.random.Generator, extent: int) -> np.ndarray:
    starts = [0, max(0, extent - WINDOW), *rng.integers(0, max(1, extent - WINDOW), size=2).tolist()]
    return np.unique(np.concatenate([np.arange(at, min(extent, at + WINDOW)) for at in starts]))


def units_of(plan: Plan) -> int | None:
    """Units into which all launches divide: blocks, or clusters of them, of the smallest grid; None if they do not.

    Unit u of a launch with k times as many blocks is the k blocks from u * k on.
    """
    least = min(launch.units for launch in plan.launches)
    return None if any(launch.units % least for launch in plan.launches) else least


def blocks_of(launch: PlannedLaunch, unit: int, units: int) -> range:
    """Numbers of the blocks of one unit."""
    each = launch.units // units * launch.cluster
    return range(unit * each, (unit + 1) * each)


def sample_units(units: int, seed: int = 0) -> list[int]:
    """The units of a large case that are run: the first few, the last, and some drawn."""
    drawn = np.random.default_rng([seed, units]).integers(0, units, size=min(DRAWN, units))
    return sorted({*range(min(LEAD, units)), *map(int, drawn), units - 1})


def runs(flat: np.ndarray) -> Iterator[tuple[int, int]]:
    """Start and end of each stretch of neighbours among sorted indices."""
    if flat.size:
        cuts = np.flatnonzero(np.diff(flat) != 1) + 1
        for part in np.split(flat, cuts):
            yield int(part[0]), int(part[-1]) + 1


def gather(device: Device, array: Any, flat: np.ndarray) -> np.ndarray:
    """The elements of a device array at sorted flat indices."""
    line = array.reshape((math.prod(array.shape),))
    parts = [device.download(line[start:end]) for start, end in runs(flat)]
    return np.concatenate(parts) if parts else device.download(line[:0])


def flat_indices(array: PlannedArray, indices: Sequence[np.ndarray]) -> np.ndarray:
    """Flat indices at the product of ``indices``, in its order."""
    if not array.shape:
        return np.zeros((), np.int64)
    flat: np.ndarray = np.asarray(np.ravel_multi_index(np.meshgrid(*indices, indexing="ij"), array.shape), np.int64)
    return flat


def picked_from(arrays: Mapping[str, PlannedArray], written: Mapping[str, np.ndarray], operator: Operator) -> Picked:
    """By independent extent, the indices at which anything was written."""
    free = independent(operator)
    found: dict[str, np.ndarray] = {}
    for name, flat in written.items():
        array = arrays[name]
        for dim, index in zip(array.declared.dims, np.unravel_index(flat, array.shape), strict=True):
            if isinstance(dim, str) and dim in free:
                found[dim] = np.union1d(found.get(dim, np.zeros(0, np.int64)), index)
    return found
