"""DRAM traffic of a variant from what its blocks touch: a model of the GPU's L2 cache.

Sets of ``WAYS`` lines, the least recently used pushed out; which set a line falls into is hashed. Where the cache is
in two partitions, a line has its home in one of them, by hash, and whoever reads or writes it from an SM of the other
leaves a copy there as well: data fills up to two places, and the cache holds less than its size. A read that neither
the block's own partition nor the home can serve comes from DRAM; a written line goes there when its home pushes it out.

Blocks run in the order of their numbers, as many at a time as the GPU holds, and those in flight advance together.
Which partition an SM belongs to is hashed from the block's number: the same in each launch for blocks of the first
wave, another later on. docs/model.md says how far the model is from what an H200's counters say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..hardware.gpus import Gpu
from ..sim.isa.floats import Array
from ..sim.observe.traffic import Touch

LINE = 2048  # bytes by which the model moves data: a row of 3584 or 2048 floats is a whole number of them
WAYS = 32
OTHERS = 1  # ways of each set that hold something else (code, the driver's own data); fitted to an H200's counters


@dataclass(frozen=True)
class Sweep:
    """One launch: what its blocks touch, in the order of the code, and how many of them are in flight at a time."""

    touched: tuple[Touch, ...]
    blocks: int
    in_flight: int


def whole_grid(touched: Sequence[Touch], blocks: int) -> tuple[Touch, ...] | None:
    """What all ``blocks`` blocks touch, from what at least three of them did.

    None if that is not of the same size and at a steady distance in each.
    """
    every, found = np.arange(blocks), []
    seen = touched[0].blocks if touched else np.zeros(0, np.int64)
    for one in touched:
        if len(one.blocks) != len(seen) or (one.blocks != seen).any() or len(seen) < min(3, blocks):
            return None
        sizes, steps, apart = one.end - one.first, np.diff(one.first), np.diff(seen)
        stride = int(steps[0]) // int(apart[0]) if len(steps) else 0
        if (sizes != sizes[0]).any() or (steps != stride * apart).any():
            return None
        first = int(one.first[0]) + stride * (every - int(seen[0]))
        found.append(Touch(every, first, first + int(sizes[0]), one.write))
    return tuple(found)


@dataclass(frozen=True)
class Dram:
    """Bytes that DRAM delivers and takes."""

    read: int
    written: int


def hashed(values: Array) -> Array:
    """32 well mixed bits of each whole number."""
    mixed = values.astype(np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    found: Array = (mixed >> np.uint64(32)).astype(np.int64)
    return found


class Cache:
    """``capacity`` bytes in lines of LINE bytes, in ``partitions`` parts of sets of ways."""

    def __init__(self, capacity: int, partitions: int = 1, ways: int = WAYS, others: int = OTHERS) -> None:
        self.partitions, self.room = partitions, ways - others
        self.sets = max(1, capacity // LINE // partitions // ways)
        # line -> whether it was written, least recently used first
        self.content: list[dict[int, bool]] = [{} for _ in range(partitions * self.sets)]
        self.read = self.written = 0

    def _put(self, where: int, line: int, written: bool) -> None:
        lines = self.content[where]
        lines[line] = written
        if len(lines) > self.room:
            self.written += lines.pop(next(iter(lines)))

    def access(self, line: int, own: int, home: int, write: bool) -> None:
        """A block whose partition has the set ``own`` for the line reads or writes it; ``home`` is its home's set."""
        content = self.content
        mine = content[own]
        if write:
            content[home].pop(line, None)
            self._put(home, line, True)
            if own != home:
                mine.pop(line, None)
                self._put(own, line, False)
            return
        if line in mine:
            mine[line] = mine.pop(line)
            return
        if own != home:
            there = content[home]
            if line in there:
                there[line] = there.pop(line)
            else:
                self.read += 1
                self._put(home, line, False)
            self._put(own, line, False)
        else:
            self.read += 1
            self._put(home, line, False)

    def run(self, sweep: Sweep, salt: int = 0) -> Dram:
        """The launch's DRAM traffic; ``salt`` tells one launch from another."""
        read, written, access = self.read, self.written, self.access
        blocks = np.arange(sweep.blocks)
        side = hashed(blocks + (blocks >= sweep.in_flight) * (salt + 1) * 2**32) % self.partitions
        for first in range(0, sweep.blocks, sweep.in_flight):
            for one in sweep.touched:
                here = slice(*np.searchsorted(one.blocks, (first, first + sweep.in_flight)))
                lines, of = _lines(one.first[here], one.end[here])
                if not len(lines):
                    continue
                mixed = hashed(lines)
                home, index = mixed % self.partitions, mixed // self.partitions % self.sets
                own = index + self.sets * side[one.blocks[here]][of]
                pairs = zip(lines.tolist(), own.tolist(), (index + self.sets * home).tolist(), strict=True)
                for line, mine, at in pairs:
                    access(line, mine, at, one.write)
        return Dram(LINE * (self.read - read), LINE * (self.written - written))


def _lines(first: Array, end: Array) -> tuple[Array, Array]:
    """The lines from each ``first`` to its ``end``, in order, and to which pair each belongs."""
    from_, counts = first // LINE, (end - 1) // LINE - first // LINE + 1
    of = np.repeat(np.arange(len(first)), counts)
    offsets = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return from_[of] + offsets, of


def dram(sweeps: Sequence[Sweep], gpu: Gpu, warm: bool) -> tuple[Dram, ...]:
    """DRAM bytes of each launch, in order, from a cache of clean lines of others, or ``warm``: they have just run."""
    cache = Cache(gpu.l2_bytes, gpu.l2_partitions)
    for turn in range(2 if warm else 1):
        found = tuple(cache.run(sweep, turn * len(sweeps) + n) for n, sweep in enumerate(sweeps))
    return found
