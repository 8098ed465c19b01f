"""Special registers, as arrays of uint32 that broadcast over the chunk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .floats import Array

if TYPE_CHECKING:
    from .execute import Chunk

WITH_AXIS = ("tid", "ntid", "ctaid", "nctaid", "cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
PLAIN: tuple[str, ...] = (
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "gridid",
    "cluster_ctarank",
    "cluster_nctarank",
)
PLAIN += ("dynamic_smem_size", "total_smem_size", *(f"lanemask_{c}" for c in ("eq", "lt", "le", "gt", "ge")))
PLAIN += ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")
AXES = {"x": 0, "y": 1, "z": 2}
SMS = 64  # what %nsmid says; which block runs where is nobody's business


def known(name: str) -> bool:
    """Whether the special register ``name`` ("%tid.x") is simulated."""
    base, _, axis = name[1:].partition(".")
    return name == "WARP_SZ" or (base in WITH_AXIS and axis in AXES) or (base in PLAIN and not axis)


def special(chunk: Chunk, name: str) -> Array:
    """The special register ``name``, one that is :func:`known`."""
    launch, cluster = chunk.launch, chunk.program.flat.cluster
    base, _, axis = name[1:].partition(".")
    numbers = chunk.numbers.astype(np.int64)[:, None]
    thread = np.arange(chunk.threads, dtype=np.int64)[None]
    lane = thread & 31

    def split(value: Array, extents: tuple[int, ...]) -> Array:
        n = AXES[axis]
        return value // math.prod(extents[:n]) % extents[n]

    blocks = [split_block(numbers, launch.grid, n) for n in range(3)]
    in_cluster = [blocks[n] % cluster[n] for n in range(3)]
    rank = in_cluster[0] + cluster[0] * (in_cluster[1] + cluster[1] * in_cluster[2])
    bit = np.int64(1) << lane
    values: dict[str, Array | int] = {
        "tid": split(thread, launch.block) if axis else 0,
        "ntid": launch.block[AXES[axis]] if axis else 0,
        "ctaid": blocks[AXES[axis]] if axis else 0,
        "nctaid": launch.grid[AXES[axis]] if axis else 0,
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
        "cluster_ctaid": in_cluster[AXES[axis]] if axis else 0,
        "cluster_nctaid": cluster[AXES[axis]] if axis else 0,
        "cluster_ctarank": rank,
        "cluster_nctarank": math.prod(cluster),
        "clusterid": blocks[AXES[axis]] // cluster[AXES[axis]] if axis else 0,
        "nclusterid": launch.grid[AXES[axis]] // cluster[AXES[axis]] if axis else 0,
    }
    if name == "WARP_SZ":
        return np.full((1, 1), 32, np.uint32)
    found = np.asarray(values[base])
    return (found if found.ndim == 2 else found.reshape(1, 1)).astype(np.uint32)


def split_block(numbers: Array, grid: tuple[int, int, int], axis: int) -> Array:
    """The coordinate of linear block numbers."""
    return numbers // math.prod(grid[:axis]) % grid[axis]
