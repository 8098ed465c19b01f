"""Runs a program over a grid, a chunk of blocks at a time. The second schedule takes the chunks from the last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..isa.floats import Array
from ..isa.fpmode import available, flushing
from ..observe.shadows import OWNER
from .execution import Execution
from .launch import Launch
from .scheduler import Scheduler

LANES = 65536  # of a chunk: few enough for the cache, enough that NumPy's calls do not count
SHARED_BYTES = 2**23  # of a chunk, shadows not counted


def run(launch: Launch, blocks: Sequence[int] | None = None) -> None:
    """Execute the blocks of the grid, or those given by number."""
    on = launch.program.flushes and available()
    try:
        with np.errstate(all="ignore"), flushing(on):
            for numbers in chunks(launch, blocks):
                chunk = Execution(launch, numbers)
                Scheduler(chunk).run()
                chunk.__dict__.clear()  # its parts refer to each other: their arrays would wait for the collector
        _note_stored(launch)
    finally:
        launch.history.forget()


def _note_stored(launch: Launch) -> None:
    """To arrays that were initialised, what was stored is noted once and not at each store."""
    history = launch.history
    for allocation in launch.arena.allocations:
        owner = history.get(allocation, OWNER) if allocation.initialised else None
        if owner is not None:
            allocation.note_stored(owner.who != 0, history.granule)


def chunks(launch: Launch, blocks: Sequence[int] | None) -> Iterator[Array]:
    """The numbers of the blocks that run together: those of all of a large grid would take gigabytes."""
    size = _blocks_together(launch)
    chosen = None if blocks is None else np.asarray(blocks, np.int64)
    total = math.prod(launch.grid) if chosen is None else len(chosen)
    starts = range(0, total, size)
    for at in reversed(starts) if launch.reverse else starts:
        end = min(at + size, total)
        yield np.arange(at, end) if chosen is None else chosen[at:end]


def _blocks_together(launch: Launch) -> int:
    flat = launch.program.flat
    size = math.prod(flat.cluster)
    padded = -(-math.prod(launch.block) // 32) * 32
    held = padded * max(1, flat.local_bytes // 64)
    count = max(1, min(LANES // held, SHARED_BYTES // max(1, launch.shared_bytes)))
    return max(size, count // size * size)
