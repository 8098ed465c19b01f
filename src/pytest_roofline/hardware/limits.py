"""What a GPU takes of a launch: blocks, threads, registers, shared memory, clusters. One rule for every backend.

CUDA Programming Guide, appendix "Compute Capabilities"; registers as NVIDIA's occupancy calculator rounds them
(cuda_occupancy.h 12.9): a warp at a time, and a block's warps to the sub-partitions of an SM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .gpus import Gpu

WARP = 32
MAX_THREADS = 1024  # of a block
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
CLUSTERS = (1, 2, 4, 8, 16)  # blocks
MAX_REGISTERS = 255  # of a thread
REGISTER_UNIT = 256  # registers are allocated a warp at a time, in units of this many (cudaOccRegAllocationGranularity)
SUB_PARTITIONS = 4  # of an SM, each with a quarter of the registers (cudaOccSubPartitionsPerMultiprocessor)
Dim3 = tuple[int, int, int]


def up(value: int, unit: int) -> int:
    """``value`` rounded up to a multiple of ``unit``."""
    return -(-value // unit) * unit


def registers_of_warp(registers: int) -> int:
    """Registers that a warp takes whose threads have so many."""
    return up(registers * WARP, REGISTER_UNIT)


def refusal(
    gpu: Gpu,
    grid: Dim3,
    block: Dim3,
    cluster: int | Dim3 = 1,
    *,
    registers: int = 0,
    static_shared: int = 0,
    dynamic_shared: int = 0,
    max_threads: int | None = None,
    required_block: Dim3 | None = None,
) -> str:
    """Why the driver would refuse a launch on ``gpu``; empty where it would not.

    ``cluster`` is in blocks, a number along x or all three extents; ``registers`` are of a thread, shared memory is in
    bytes of a block. ``max_threads`` is what the kernel was compiled for (``__launch_bounds__``), ``required_block``
    the only block that it takes (PTX ISA, ``.reqntid``). What is not known yet is left at 0 or None.
    """
    if why := _refused_sizes(grid, block, cluster if isinstance(cluster, tuple) else (cluster, 1, 1)):
        return why
    if required_block is not None and block != required_block:
        return f"a block of {block} threads; the kernel was compiled for blocks of {required_block} only"
    return refused_block(gpu, math.prod(block), registers, static_shared, dynamic_shared, max_threads).why


def _refused_sizes(grid: Dim3, block: Dim3, cluster: Dim3) -> str:
    if any(not 1 <= n <= most for n, most in zip(grid, MAX_GRID, strict=True)):
        return f"a grid of {grid} blocks; allowed are 1 to {MAX_GRID}"
    if any(not 1 <= n <= most for n, most in zip(block, MAX_BLOCK, strict=True)):
        return f"a block of {block} threads; allowed are 1 to {MAX_BLOCK}"
    size = math.prod(cluster)
    if size not in CLUSTERS:
        return f"clusters of {size} blocks; allowed are {', '.join(map(str, CLUSTERS))}"
    if any(n % c for n, c in zip(grid, cluster, strict=True)):
        told = cluster[0] if cluster[1:] == (1, 1) else cluster
        return f"a grid of {grid} blocks, which is no multiple of the cluster of {told}"
    return ""


@dataclass(frozen=True)
class Refusal:
    """The resource of which a block asks too much, and the sentence with the figures; both empty where it asks none."""

    limit: str = ""  # "threads", "registers" or "shared memory"
    why: str = ""


def refused_block(
    gpu: Gpu, threads: int, registers: int, static_shared: int, dynamic_shared: int, max_threads: int | None = None
) -> Refusal:
    """Why not even one such block fits an SM of ``gpu``; empty where one does."""
    most = min(MAX_THREADS, gpu.threads_per_sm)
    if not 1 <= threads <= most:
        return Refusal("threads", f"{threads} threads a block; {gpu.name} allows 1 to {most}")
    if max_threads is not None and threads > max_threads:
        why = f"{threads} threads a block; the kernel was compiled for at most {max_threads} (__launch_bounds__)"
        return Refusal("threads", why)
    # The hardware's check on a launch takes a block's warps to be spread over all sub-partitions.
    needed = registers_of_warp(registers) * up(up(threads, WARP) // WARP, SUB_PARTITIONS)
    if needed > gpu.registers_per_sm or registers > MAX_REGISTERS:
        why = (
            f"{registers} registers a thread, {needed} for a block of {threads} threads; {gpu.name} has "
            f"{MAX_REGISTERS} a thread and {gpu.registers_per_sm} a block"
        )
        return Refusal("registers", why)
    if dynamic_shared < 0 or static_shared + dynamic_shared > gpu.shared_per_block_optin:
        why = (
            f"{static_shared} static and {dynamic_shared} dynamic bytes of shared memory a block; {gpu.name} allows 0 "
            f"to {gpu.shared_per_block_optin}"
        )
        return Refusal("shared memory", why)
    return Refusal()
