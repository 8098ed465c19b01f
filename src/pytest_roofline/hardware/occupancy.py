"""How many blocks of a kernel an SM holds at once, from ptxas's report and the GPU's limits.

The rules are those of NVIDIA's occupancy calculator, cuda_occupancy.h of CUDA 12.9 (granularities, sub-partitions,
barriers), and of the CUDA Programming Guide, appendix "Compute Capabilities" (limits an SM).
"""

from __future__ import annotations

from dataclasses import dataclass

from .gpus import Gpu
from .limits import REGISTER_UNIT, SUB_PARTITIONS, WARP, refused_block, registers_of_warp, up
from .resources import Resources

RESERVED_SHARED = 1024  # bytes a block that the driver keeps from compute capability 8.0 on


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps resident on one SM, the share of its warp slots in 0..1, and what stops one more block.

    ``limited_by`` is "threads", "registers", "shared memory", "blocks" or "barriers"; of several equal limits the
    first in this order. 0 blocks means that the launch is impossible; ``why`` then says so with the figures, and is
    empty otherwise.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str
    why: str = ""


def occupancy(resources: Resources, threads: int, dynamic_shared: int, gpu: Gpu) -> Occupancy:
    """Occupancy of blocks of ``threads`` threads with ``dynamic_shared`` bytes of dynamic shared memory on ``gpu``.

    The kernel is taken to have opted in to shared memory above 48 KiB, and the SM's L1 to be carved out for as much
    shared memory as it can give.
    """
    refused = refused_block(gpu, threads, resources.registers, resources.shared_bytes, dynamic_shared)
    if refused.why:
        return Occupancy(0, 0, 0.0, refused.limit, refused.why)
    warps = up(threads, WARP) // WARP
    bounds = {
        "threads": gpu.threads_per_sm // WARP // warps,
        "registers": _warps_by_registers(resources.registers, gpu) // warps,
        "shared memory": gpu.shared_per_sm // max(1, _shared_allocated(resources, dynamic_shared, gpu)),
        "blocks": gpu.blocks_per_sm,
        "barriers": _blocks_by_barriers(resources.barriers, gpu),
    }
    limited_by = min(bounds, key=lambda name: bounds[name])  # the first of equals
    blocks = bounds[limited_by]
    return Occupancy(blocks, blocks * warps, blocks * warps / (gpu.threads_per_sm // WARP), limited_by)


def _warps_by_registers(registers: int, gpu: Gpu) -> int:
    """Warps an SM has registers for; each sub-partition gives out its own quarter (cudaOccMaxBlocksPerSMRegsLimit).

    For 65536 registers and 256 threads this comes to floor(32 / ceil(registers / 8)) blocks.
    """
    return gpu.registers_per_sm // SUB_PARTITIONS // max(REGISTER_UNIT, registers_of_warp(registers)) * SUB_PARTITIONS


def _shared_allocated(resources: Resources, dynamic: int, gpu: Gpu) -> int:
    """Bytes of shared memory a block takes from its SM (cudaOccMaxBlocksPerSMSmemLimit)."""
    ampere = gpu.capability >= 80
    return up(resources.shared_bytes + dynamic + (RESERVED_SHARED if ampere else 0), 128 if ampere else 256)


def _blocks_by_barriers(barriers: int, gpu: Gpu) -> int:
    """Blocks an SM has named barriers for; counted from Hopper on (cudaOccMaxBlocksPerSMBlockBarrierLimit)."""
    if gpu.capability < 90 or not barriers:
        return gpu.blocks_per_sm
    return gpu.blocks_per_sm * (2 if gpu.capability in (90, 100, 103) else 1) // barriers
