"""Special registers, as arrays of uint32 that broadcast over the chunk."""

from __future__ import annotations

import math

import numpy as np

from ..isa.floats import Array
from ..isa.special import AXES
from .protocol import Running

SMS = 64  # what %nsmid says; which block runs where is nobody's business


def special(chunk: Running, name: str) -> Array:
    """The special register ``name``, one that is :func:`known`."""
    if name == "WARP_SZ":
        found: Array | int = 32
    else:
        base, _, axis = name[1:].partition(".")
        found = _along(chunk, base, AXES[axis]) if axis else _plain(chunk, base)
    array = np.asarray(found)
    return (array if array.ndim == 2 else array.reshape(1, 1)).astype(np.uint32)


def coordinate(numbers: Array, extents: tuple[int, int, int], axis: int) -> Array:
    """The coordinate along ``axis`` of linear numbers, x first."""
    return numbers // math.prod(extents[:axis]) % extents[axis]


def _numbers(chunk: Running) -> tuple[Array, Array]:
    """Linear numbers of the chunk's blocks, as a column, and of a block's threads, as a row."""
    return chunk.numbers.astype(np.int64)[:, None], np.arange(chunk.threads, dtype=np.int64)[None]


def _along(chunk: Running, base: str, axis: int) -> Array | int:
    launch, cluster = chunk.launch, chunk.program.flat.cluster[axis]
    numbers, thread = _numbers(chunk)
    block = coordinate(numbers, launch.grid, axis)
    values: dict[str, Array | int] = {
        "tid": coordinate(thread, launch.block, axis),
        "ntid": launch.block[axis],
        "ctaid": block,
        "nctaid": launch.grid[axis],
        "cluster_ctaid": block % cluster,
        "cluster_nctaid": cluster,
        "clusterid": block // cluster,
        "nclusterid": launch.grid[axis] // cluster,
    }
    return values[base]


def _plain(chunk: Running, base: str) -> Array | int:
    launch, cluster = chunk.launch, chunk.program.flat.cluster
    numbers, thread = _numbers(chunk)
    lane = thread & 31
    bit = np.int64(1) << lane
    x, y, z = (coordinate(numbers, launch.grid, axis) % cluster[axis] for axis in range(3))
    values: dict[str, Array | int] = {
        "laneid": lane,
        "warpid": thread >> 5,
        "nwarpid": chunk.warps,
        "lanemask_eq": bit,
        "lanemask_lt": bit - 1,
        "lanemask_le": 2 * bit - 1,
        "lanemask_gt": ~(2 * bit - 1) & 0xFFFFFFFF,
        "lanemask_ge": ~(bit - 1) & 0xFFFFFFFF,
        "smid": numbers % SMS,
        "nsmid": SMS,
        "gridid": 1,
        "dynamic_smem_size": launch.shared,
        "total_smem_size": launch.shared + chunk.program.flat.static_shared,
        "cluster_ctarank": x + cluster[0] * (y + cluster[1] * z),
        "cluster_nctarank": math.prod(cluster),
    }
    return values[base]
