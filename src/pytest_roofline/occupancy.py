"""How many blocks of a kernel an SM holds at once, from ptxas's report and the card's limits.

The rules are those of NVIDIA's occupancy calculator, cuda_occupancy.h of CUDA 12.9 (granularities, sub-partitions,
barriers), and of the CUDA Programming Guide, appendix "Compute Capabilities" (limits an SM).
"""

from __future__ import annotations

from dataclasses import dataclass

from .cards import Card
from .resources import Resources

WARP = 32
THREADS_PER_BLOCK = 1024
REGISTERS_PER_THREAD = 255
REGISTER_UNIT = 256  # registers are allocated a warp at a time, in units of this many (cudaOccRegAllocationGranularity)
SUB_PARTITIONS = 4  # each with a quarter of the registers (cudaOccSubPartitionsPerMultiprocessor)
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


def occupancy(resources: Resources, threads: int, dynamic_shared: int, card: Card) -> Occupancy:
    """Occupancy of blocks of ``threads`` threads with ``dynamic_shared`` bytes of dynamic shared memory on ``card``.

    The kernel is taken to have opted in to shared memory above 48 KiB, and the SM's L1 to be carved out for as much
    shared memory as it can give.
    """
    if why := _impossible(resources, threads, dynamic_shared, card):
        return Occupancy(0, 0, 0.0, *why)
    warps = _up(threads, WARP) // WARP
    bounds = {
        "threads": card.threads_per_sm // WARP // warps,
        "registers": _warps_by_registers(resources.registers, card) // warps,
        "shared memory": card.shared_per_sm // max(1, _shared_allocated(resources, dynamic_shared, card)),
        "blocks": card.blocks_per_sm,
        "barriers": _blocks_by_barriers(resources.barriers, card),
    }
    limited_by = min(bounds, key=lambda name: bounds[name])  # the first of equals
    blocks = bounds[limited_by]
    return Occupancy(blocks, blocks * warps, blocks * warps / (card.threads_per_sm // WARP), limited_by)


def _impossible(resources: Resources, threads: int, dynamic_shared: int, card: Card) -> tuple[str, str] | None:
    """Which limit a single block breaks, and the sentence about it; None if one block fits."""
    most = min(THREADS_PER_BLOCK, card.threads_per_sm)
    if not 1 <= threads <= most:
        return "threads", f"{threads} threads a block; {card.name} allows 1 to {most}"
    # The hardware's check on a launch takes a block's warps to be spread over all sub-partitions.
    needed = _per_warp(resources.registers) * _up(_up(threads, WARP) // WARP, SUB_PARTITIONS)
    if needed > card.registers_per_sm or resources.registers > REGISTERS_PER_THREAD:
        return "registers", (
            f"{resources.registers} registers a thread, {needed} for a block of {threads} threads; {card.name} has "
            f"{REGISTERS_PER_THREAD} a thread and {card.registers_per_sm} a block"
        )
    shared = resources.shared_bytes + dynamic_shared
    if dynamic_shared < 0 or shared > card.shared_per_block_optin:
        return "shared memory", (
            f"{resources.shared_bytes} static and {dynamic_shared} dynamic bytes of shared memory a block; "
            f"{card.name} allows 0 to {card.shared_per_block_optin}"
        )
    return None


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _per_warp(registers: int) -> int:
    return _up(registers * WARP, REGISTER_UNIT)


def _warps_by_registers(registers: int, card: Card) -> int:
    """Warps an SM has registers for; each sub-partition gives out its own quarter (cudaOccMaxBlocksPerSMRegsLimit).

    For 65536 registers and 256 threads this comes to floor(32 / ceil(registers / 8)) blocks.
    """
    return card.registers_per_sm // SUB_PARTITIONS // max(REGISTER_UNIT, _per_warp(registers)) * SUB_PARTITIONS


def _shared_allocated(resources: Resources, dynamic: int, card: Card) -> int:
    """Bytes of shared memory a block takes from its SM (cudaOccMaxBlocksPerSMSmemLimit)."""
    ampere = card.capability >= 80
    return _up(resources.shared_bytes + dynamic + (RESERVED_SHARED if ampere else 0), 128 if ampere else 256)


def _blocks_by_barriers(barriers: int, card: Card) -> int:
    """Blocks an SM has named barriers for; counted from Hopper on (cudaOccMaxBlocksPerSMBlockBarrierLimit)."""
    if card.capability < 90 or not barriers:
        return card.blocks_per_sm
    return card.blocks_per_sm * (2 if card.capability in (90, 100, 103) else 1) // barriers
