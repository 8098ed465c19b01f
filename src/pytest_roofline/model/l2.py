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

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..hardware.gpus import Gpu
from ..sim.isa.floats import Array
from ..sim.observe.traffic import Touch
from .lru import Cache
from .spans import EvenTouch, Numbering, Spans, Step, pieces, steps

LINE = 2048  # bytes by which the model moves data: a row of 3584 or 2048 floats is a whole number of them
WAYS = 32
OTHERS = 1  # ways of each set that hold something else (code, the driver's own data); fitted to an H200's counters


@dataclass(frozen=True)
class Sweep:
    """One launch: what its blocks touch, in the order of the code, and how many of them are in flight at a time."""

    touched: tuple[Touch, ...]
    blocks: int
    in_flight: int

    @property
    def waves(self) -> int:
        return -(-self.blocks // self.in_flight)

    def steps(self, spans: Spans) -> list[Step]:
        """Its accesses as spans of lines."""
        return steps(self.touched, spans, self.in_flight * np.arange(self.waves + 1))

    def sides(self, partitions: int, salt: int) -> Array:
        """The partition of each block; ``salt`` tells one launch from another."""
        blocks = np.arange(self.blocks)
        return hashed(blocks + (blocks >= self.in_flight) * (salt + 1) * 2**32) % partitions


def whole_grid(touched: Sequence[Touch], blocks: int) -> tuple[EvenTouch, ...] | None:
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
        start, size = int(one.first[0]) - stride * int(seen[0]), int(sizes[0])
        first = start + stride * every
        found.append(EvenTouch(every, first, first + size, one.write, start, stride, size))
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
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    found: Array = (mixed >> np.uint64(32)).view(np.int64)
    return found


@dataclass(frozen=True)
class Geometry:
    """Lines of LINE bytes in ``partitions`` parts of ``sets`` sets of ``ways`` lines."""

    sets: int
    partitions: int = 1
    ways: int = WAYS - OTHERS

    @classmethod
    def of(cls, gpu: Gpu) -> Geometry:
        return cls(max(1, gpu.l2_bytes // LINE // gpu.l2_partitions // WAYS), gpu.l2_partitions)

    def placed(self, lines: Array) -> tuple[Array, Array]:
        """For each line's copies in the partitions: the number of its set, and the distance to the copy at home."""
        mixed = hashed(lines).astype(np.uint32)
        index = mixed // np.uint32(self.partitions)
        home = (mixed - index * np.uint32(self.partitions)).astype(np.int8)
        index = (index - index // np.uint32(self.sets) * np.uint32(self.sets)).astype(np.int32)
        set_of = np.empty((len(lines), self.partitions), np.int32)
        to_home = np.empty((len(lines), self.partitions), np.int8)
        for partition in range(self.partitions):
            set_of[:, partition] = index + self.sets * partition
            to_home[:, partition] = home - partition
        return set_of.ravel(), to_home.ravel()


def traffic(sweeps: Sequence[Sweep], cache: Geometry) -> Iterator[Dram]:
    """The DRAM traffic of launches, one after the other, from an empty cache."""
    spans = Spans(LINE.bit_length() - 1)
    plans = {id(sweep): sweep.steps(spans) for sweep in sweeps}
    set_of, to_home = Numbering(spans.every, cache.placed).known
    copies = Cache(set_of, to_home, cache.sets * cache.partitions, cache.ways)
    for salt, sweep in enumerate(sweeps):
        read, written = copies.read, copies.written
        sides = sweep.sides(cache.partitions, salt)
        for some in pieces(plans[id(sweep)], sides, cache.partitions, sweep.waves, copies.wanted):
            copies.access(some)
        copies.flush()
        yield Dram(LINE * (copies.read - read), LINE * (copies.written - written))


_known: dict[bytes, tuple[Dram, ...]] = {}  # variants of an operator often touch the same lines in the same order


def dram(sweeps: Sequence[Sweep], gpu: Gpu, warm: bool) -> tuple[Dram, ...]:
    """DRAM bytes of each launch, in order, from a cache of clean lines of others, or ``warm``: they have just run."""
    geometry, turns = Geometry.of(gpu), 2 if warm else 1
    key = _key(sweeps, geometry, turns)
    found = _known.get(key) if key else None
    if found is None:
        found = tuple(traffic(tuple(sweeps) * turns, geometry))[-len(sweeps) :]
        if key:
            _known[key] = found
    return found


def _key(sweeps: Sequence[Sweep], geometry: Geometry, turns: int) -> bytes | None:
    """A digest of all that decides the traffic; None where it takes more than a few figures to say what is touched."""
    digest = hashlib.sha256(repr((geometry, turns)).encode())
    for sweep in sweeps:
        figures = [one.figures for one in sweep.touched if isinstance(one, EvenTouch)]
        if len(figures) < len(sweep.touched):
            return None
        digest.update(repr((sweep.blocks, sweep.in_flight, figures)).encode())
    return digest.digest()
