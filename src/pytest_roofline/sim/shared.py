"""Shared memory of a chunk of blocks, and its races.

Two accesses to a granule by different threads, at least one a write, are a race unless something orders them. Each
source line keeps, per granule, when and by which thread it last touched it; ``known[block, w, v]`` is the last moment
of warp v that warp w has synchronised with (a vector clock a warp). A barrier of the whole block sets all of them.
Two lanes of one warp are ordered by a barrier of the warp; without one it is a warning, for the hardware may run them
apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device import POISON
from .findings import ERROR, MEMORY, RACE, UNINITIALISED, WARNING, Site
from .floats import Array
from .memory import atomic, typed_view

if TYPE_CHECKING:
    from .execute import Chunk

MANY = -1  # more than one thread
READ, WRITE, ATOMIC = "read", "write", "atomic access"


@dataclass
class Record:
    """One source line's accesses of one kind: per block and granule the time and the thread of the last."""

    site: Site
    kind: str
    time: Array
    who: Array
    latest: int = 0


@dataclass(frozen=True)
class Lanes:
    """Which lanes access what: row, thread and byte address, arrays that broadcast. ``threads`` None: all of a row."""

    rows: Array
    threads: Array | None
    at: Array
    whole: bool  # the lanes are all lanes of the chunk, in order


class Shared:
    """``size`` bytes for each of the chunk's blocks; poison until written."""

    def __init__(self, chunk: Chunk, size: int, granule: int) -> None:
        self.chunk, self.size, self.granule = chunk, size, granule
        held = max(16, -(-size // 16) * 16)
        blocks = chunk.blocks
        self.data = np.full((blocks, held), POISON, np.uint8)
        self.init = np.zeros((blocks, held), np.uint8)
        self.known = np.zeros((blocks, chunk.warps, chunk.warps), np.int32)
        self.records: dict[tuple[str, str], Record] = {}
        self.clock = 0
        self.synced = 0
        self.rows = np.arange(blocks)[:, None]

    # Order

    def barrier(self, rows: Array | None) -> None:
        """All threads of ``rows`` (None: of all blocks) have met."""
        if rows is None:
            self.known[:] = self.clock
            self.synced = self.clock
        else:
            self.known[rows] = self.clock
            self.synced = int(self.known.min())

    def meet(self, row: int, warps: Array, arrived: Array) -> None:
        """``warps`` of a block go on, knowing all that ``arrived`` (they and those that only arrived) knew and did."""
        seen = self.known[row, arrived].max(axis=0)
        seen[arrived] = self.clock
        self.known[row, warps] = np.maximum(self.known[row, warps], seen)
        self.synced = int(self.known.min())

    def warp_barrier(self, rows: Array, warps: Array) -> None:
        self.known[rows, warps, warps] = self.clock

    # Access

    def lanes(self, m: Array | None, at: Array) -> Lanes | None:
        """The lanes of ``m`` that access ``at``; None if there are none."""
        blocks, threads = self.chunk.blocks, self.chunk.threads
        if m is None:
            each = None if at.shape[1] == 1 and threads > 1 else np.arange(threads)[None]
            return Lanes(self.rows, each, at, whole=True)
        if m.shape[0] == 1 and at.shape[0] == 1:
            columns = np.flatnonzero(np.broadcast_to(m, (1, threads))[0])
            if not columns.size:
                return None
            return Lanes(self.rows, columns[None], np.broadcast_to(at, (1, threads))[:, columns], whole=False)
        rows, columns = np.nonzero(np.broadcast_to(m, (blocks, threads)))
        if not rows.size:
            return None
        return Lanes(rows, columns, np.broadcast_to(at, (blocks, threads))[rows, columns], whole=False)

    def spread(self, lanes: Lanes, values: Array) -> Array:
        """``values`` by lane as an array over the chunk."""
        if lanes.whole:
            return values
        out = np.zeros((self.chunk.blocks, self.chunk.threads), values.dtype)
        out[lanes.rows, lanes.threads] = values
        return out

    def gathered(self, lanes: Lanes, values: Array) -> Array:
        """``values`` over the chunk, one for each lane."""
        if lanes.whole:
            return values
        shape = (self.chunk.blocks, self.chunk.threads)
        return np.broadcast_to(values, shape)[lanes.rows, lanes.threads]

    def inside(self, site: Site, m: Array | None, at: Array, size: int) -> Array | None:
        """``m`` without the lanes that are out of bounds or misaligned; those are findings."""
        limit = self.size
        bad = (at < 0) | (at > limit - size) | ((at & (size - 1)) != 0)
        if not bad.any():
            return m
        active = self.chunk.broadcast(bad if m is None else bad & m)
        if active.any():
            first = int(np.broadcast_to(at, active.shape)[active][0])
            off = "misaligned" if first % size and 0 <= first <= limit - size else "out of bounds"
            self.chunk.report(
                MEMORY,
                f"{off} shared access of {size} bytes at offset {first:#x}, the block has {limit} bytes",
                (site,),
                active,
            )
        return ~bad if m is None else m & ~bad

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        each = np.dtype(raw).itemsize
        m = self.inside(site, m, at, each * count)
        lanes = self.lanes(m, at)
        if lanes is None:
            return (np.zeros((1, 1), raw),) * count
        self.races(site, READ, lanes, each * count)
        self.chunk.count(site, "shared", m, at, each * count)
        index = lanes.at // each
        view, init = self.data.view(raw), self.init.view(raw)
        whole = np.array(int.from_bytes(b"\1" * each, "little"), raw)
        values = []
        for n in range(count):
            here = (lanes.rows, index + n)
            unwritten = init[here] != whole
            if unwritten.any():
                self.unwritten(site, lanes, unwritten, each)
            values.append(self.spread(lanes, view[here]))
        return tuple(values)

    def unwritten(self, site: Site, lanes: Lanes, which: Array, size: int) -> None:
        active = self.chunk.broadcast(self.spread(lanes, which))
        at = int(np.broadcast_to(lanes.at, which.shape)[which][0])
        message = f"read of {size} bytes of shared memory at offset {at:#x} that nobody wrote"
        self.chunk.report(UNINITIALISED, message, (site,), active)

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        each = np.dtype(raw).itemsize
        m = self.inside(site, m, at, each * len(values))
        if m is None and at.shape[1] == 1:  # every thread writes the same place: the last one's value stays
            at = np.broadcast_to(at, (at.shape[0], self.chunk.threads))
        lanes = self.lanes(m, at)
        if lanes is None:
            return
        self.races(site, WRITE, lanes, each * len(values))
        self.chunk.count(site, "shared", m, at, each * len(values))
        self.write(lanes, values, raw)

    def write(self, lanes: Lanes, values: tuple[Array, ...], raw: str) -> None:
        each = np.dtype(raw).itemsize
        index = lanes.at // each
        ones = np.array(int.from_bytes(b"\1" * each, "little"), raw)
        for n, value in enumerate(values):
            value = self.gathered(lanes, value)
            order = slice(None, None, -1) if self.chunk.reverse else slice(None)
            rows, columns, value = np.broadcast_arrays(lanes.rows, index + n, value)
            self.data.view(raw)[rows.ravel()[order], columns.ravel()[order]] = value.ravel()[order]
            self.init.view(raw)[rows, columns] = ones

    def atomic(
        self, site: Site, at: Array, m: Array | None, op: str, kind: str, b: Array, c: Array, keep: bool
    ) -> Array:
        view, run, size = typed_view(self.data, op, kind)
        m = self.inside(site, m, at, size)
        active = self.chunk.broadcast(self.chunk.everyone() if m is None else m)
        rows, threads = np.nonzero(active)
        if not rows.size:
            return np.zeros((1, 1), b.dtype)
        lanes = Lanes(rows, threads, self.chunk.broadcast(at)[rows, threads], whole=False)
        self.races(site, ATOMIC, lanes, size)
        self.chunk.count(site, "shared", m, at, size)
        init = self.init.view(f"u{size}")[lanes.rows, lanes.at // size] != int.from_bytes(b"\1" * size, "little")
        if init.any():
            self.unwritten(site, lanes, init, size)
        self.init.view(f"u{size}")[lanes.rows, lanes.at // size] = int.from_bytes(b"\1" * size, "little")
        where = lanes.rows * (self.data.shape[1] // size) + lanes.at // size
        first, second = (np.ascontiguousarray(self.gathered(lanes, v)) for v in (b, c))
        old = atomic(view.reshape(-1), where, op, run, first, second, keep, self.chunk.reverse)
        return self.spread(lanes, np.ascontiguousarray(old))

    # Another block's memory, in a cluster

    def load_remote(
        self, site: Site, lanes: Array, target: Array, at: Array, raw: str, count: int
    ) -> tuple[Array, ...]:
        """Loads of any block of the cluster. Order between blocks is not tracked; bounds and first writes are."""
        each = np.dtype(raw).itemsize
        inside = self.inside(site, lanes, at, each * count)
        assert inside is not None
        rows, index = target[inside], at[inside] // each
        whole = np.array(int.from_bytes(b"\1" * each, "little"), raw)
        values = []
        for n in range(count):
            out = np.zeros(lanes.shape, raw)
            out[inside] = self.data.view(raw)[rows, index + n]
            values.append(out)
            unwritten = self.init.view(raw)[rows, index + n] != whole
            if unwritten.any():
                active = np.zeros(lanes.shape, bool)
                active[inside] = unwritten
                message = f"read of {each} bytes of a cluster's shared memory that nobody wrote"
                self.chunk.report(UNINITIALISED, message, (site,), active)
        self.chunk.count(site, "shared", inside, at, each * count)
        return tuple(values)

    def store_remote(
        self, site: Site, lanes: Array, target: Array, at: Array, values: tuple[Array, ...], raw: str
    ) -> None:
        each = np.dtype(raw).itemsize
        inside = self.inside(site, lanes, at, each * len(values))
        assert inside is not None
        rows, index = target[inside], at[inside] // each
        for n, value in enumerate(values):
            self.data.view(raw)[rows, index + n] = self.chunk.broadcast(value)[inside]
            self.init.view(raw)[rows, index + n] = np.array(int.from_bytes(b"\1" * each, "little"), raw)
        self.chunk.count(site, "shared", inside, at, each * len(values))

    # Races

    def races(self, site: Site, kind: str, lanes: Lanes, size: int) -> None:
        """Compare with what other lines did since the last order between them, then note this access."""
        self.clock += 1
        key = (site.place, kind)
        mine = self.records.get(key)
        if mine is None:
            shape = (self.data.shape[0], -(-self.data.shape[1] // self.granule))
            mine = self.records[key] = Record(site, kind, np.zeros(shape, np.int32), np.full(shape, MANY, np.int32))
        first = lanes.at // self.granule
        for n in range(max(1, size // self.granule)):
            where = (lanes.rows, first + n)
            for other in self.records.values():
                if other.latest > self.synced and _conflict(kind, other.kind):
                    self._compare(site, kind, lanes, where, other)
            self._note(mine, kind, lanes, where)
        mine.latest = self.clock

    def _unordered(self, lanes: Lanes, where: Any, record: Record) -> Array:
        """Where the last access of ``record`` was by another thread and nothing orders it before this one."""
        time, who = record.time[where], record.who[where]
        if lanes.threads is None:
            known = self.known.min(axis=(1, 2))[:, None]
            return time > known
        other = np.maximum(who, 0) >> 5
        warp = lanes.threads >> 5
        known = self.known[lanes.rows, warp, other]
        many = who == MANY
        if many.any():
            known = np.where(many, self.known.min(axis=2)[lanes.rows, warp], known)
        return (time > known) & (who != lanes.threads)

    def _compare(self, site: Site, kind: str, lanes: Lanes, where: Any, other: Record) -> None:
        bad = self._unordered(lanes, where, other)
        if not bad.any():
            return
        who = np.broadcast_to(other.who[where], bad.shape)
        same = (who >= 0) & ((who >> 5) == ((-1 if lanes.threads is None else lanes.threads) >> 5))
        for severity, which in ((ERROR, bad & ~same), (WARNING, bad & same)):
            if which.any():
                thread = int(who[which][0])
                by = f"thread {thread}" if thread >= 0 else "several threads"
                place = int(np.broadcast_to(lanes.at, bad.shape)[which][0])
                message = (
                    f"{kind} of shared memory at offset {place:#x} and {other.kind} by {by}, "
                    f"no barrier {'of the warp ' if severity == WARNING else ''}between"
                )
                self.chunk.report(
                    RACE, message, (site, other.site), self.chunk.broadcast(self.spread(lanes, which)), severity
                )

    def _note(self, mine: Record, kind: str, lanes: Lanes, where: Any) -> None:
        if lanes.threads is None:
            mine.time[where], mine.who[where] = self.clock, MANY
            return
        several = self._unordered(lanes, where, mine) if mine.latest > self.synced else None
        who = lanes.threads if several is None else np.where(several, MANY, lanes.threads)
        mine.time[where] = self.clock
        mine.who[where] = who
        after = mine.who[where]
        lost = (after != who) & (after != MANY)
        if not lost.any():
            return
        mine.who[where] = np.where(lost, MANY, after)  # several lanes of this very instruction
        if kind == WRITE:
            same = (after >> 5) == (lanes.threads >> 5)
            for severity, which in ((ERROR, lost & ~same), (WARNING, lost & same)):
                if which.any():
                    place = int(np.broadcast_to(lanes.at, lost.shape)[which][0])
                    message = f"several threads write shared memory at offset {place:#x} in one instruction"
                    active = self.chunk.broadcast(self.spread(lanes, which))
                    self.chunk.report(RACE, message, (mine.site,), active, severity)


def _conflict(kind: str, other: str) -> bool:
    if kind == READ:
        return other != READ
    return not (kind == ATOMIC and other == ATOMIC)
