"""DRAM traffic of a rung from what its blocks touch: an L2 cache of the card's size, least recently used.

Blocks run in the order of their numbers, as many at a time as the card holds, and those in flight advance together.
A read that misses is read from DRAM; a write stays in the cache until it is pushed out. The cache of a real card is
hashed over slices and no pure least-recently-used one: docs/simulator.md says where the model misses.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .traffic import Touch

LINE = 2048  # bytes by which the model moves data: a row of 3584 or 2048 floats is a whole number of them


@dataclass(frozen=True)
class Segment:
    """Bytes that block b touches: ``nbytes`` from ``start`` + b * ``stride``."""

    start: int
    stride: int
    nbytes: int
    write: bool

    def lines(self, block: int) -> range:
        first = self.start + block * self.stride
        return range(first // LINE, (first + self.nbytes - 1) // LINE + 1)


@dataclass(frozen=True)
class Sweep:
    """One launch: what each of ``blocks`` blocks touches, in order, and how many are in flight at a time."""

    segments: tuple[Segment, ...]
    blocks: int
    in_flight: int


def segments(touched: Sequence[Touch]) -> tuple[Segment, ...] | None:
    """What all blocks touch, from what some did; None if that is not the same at a steady distance in each.

    ``touched`` are the accesses of at least three blocks.
    """
    found = []
    blocks = touched[0].blocks if touched else np.zeros(0, np.int64)
    for one in touched:
        if len(one.blocks) != len(blocks) or (one.blocks != blocks).any() or len(blocks) < 3:
            return None
        sizes, steps = one.end - one.first, np.diff(one.first)
        apart = np.diff(blocks)
        stride = int(steps[0]) // int(apart[0])
        if (sizes != sizes[0]).any() or (steps != stride * apart).any():
            return None
        found.append(Segment(int(one.first[0]) - stride * int(blocks[0]), stride, int(sizes[0]), one.write))
    return tuple(found)


@dataclass(frozen=True)
class Dram:
    """Bytes that DRAM delivers and takes."""

    read: int
    written: int


class Cache:
    """``capacity`` bytes in lines of LINE bytes, least recently used first."""

    def __init__(self, capacity: int) -> None:
        self.lines: OrderedDict[int, bool] = OrderedDict()  # line -> whether it was written
        self.room = capacity // LINE
        self.read = self.written = 0

    def touch(self, line: int, write: bool) -> None:
        lines = self.lines
        if line in lines:
            lines.move_to_end(line)
            if write:
                lines[line] = True
            return
        if not write:
            self.read += 1
        lines[line] = write
        if len(lines) > self.room:
            _, dirty = lines.popitem(last=False)
            self.written += dirty

    def run(self, sweep: Sweep) -> None:
        touch = self.touch
        for first in range(0, sweep.blocks, sweep.in_flight):
            flight = range(first, min(first + sweep.in_flight, sweep.blocks))
            for segment in sweep.segments:
                for block in flight:
                    for line in segment.lines(block):
                        touch(line, segment.write)


def dram(sweeps: Sequence[Sweep], l2_bytes: int, warm: bool) -> Dram:
    """DRAM bytes of ``sweeps`` in order, from an empty cache, or ``warm``: they have just run."""
    cache = Cache(l2_bytes)
    if warm:
        for sweep in sweeps:
            cache.run(sweep)
        cache.read = cache.written = 0
    for sweep in sweeps:
        cache.run(sweep)
    return Dram(LINE * cache.read, LINE * cache.written)
