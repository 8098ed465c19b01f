"""Races on shared memory: two accesses to a granule by different threads, at least one a write, and nothing between.

Each source line keeps, per granule, when and by which thread it last touched it; ``known[block, w, v]`` is the last
moment of warp v that warp w has synchronised with (a vector clock a warp). A barrier of the whole block sets all of
them. Two lanes of one warp are ordered by a barrier of the warp; without one it is a warning, for the hardware may run
them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from .chunk import Chunk, Lanes
from .findings import ERROR, RACE, WARNING

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


class Races:
    """``size`` bytes a block, watched by granules of ``granule`` bytes."""

    def __init__(self, chunk: Chunk, size: int, granule: int) -> None:
        self.chunk, self.granule = chunk, granule
        self.shape = (chunk.blocks, -(-size // granule))
        self.known = np.zeros((chunk.blocks, chunk.warps, chunk.warps), np.int32)
        self.records: dict[tuple[str, str], Record] = {}
        self.clock = 0
        self.synced = 0  # before it everything is ordered, in all blocks
        self.astray = np.zeros(chunk.blocks, bool)  # blocks whose threads met wrongly: what follows is no news

    # Order

    def barrier(self, rows: Array | None) -> None:
        """All threads of ``rows`` (None: of all blocks) have met."""
        self.known[slice(None) if rows is None else rows] = self.clock
        self.synced = int(self.known.min())

    def meet(self, row: int, warps: Array, arrived: Array) -> None:
        """``warps`` of a block go on, knowing all that ``arrived`` (they and those that only arrived) knew and did."""
        seen = self.known[row, arrived].max(axis=0)
        seen[arrived] = self.clock
        self.known[row, warps] = np.maximum(self.known[row, warps], seen)
        self.synced = int(self.known.min())

    def warp_barrier(self, rows: Array, warps: Array) -> None:
        self.clock += 1
        self.known[rows, warps, warps] = self.clock

    # Accesses

    def access(self, site: Site, kind: str, lanes: Lanes, size: int) -> None:
        """Compare with what other lines did since the last order between them, then note this access."""
        self.clock += 1
        key = (site.place, kind)
        if key not in self.records:
            never, nobody = np.zeros(self.shape, np.int32), np.full(self.shape, MANY, np.int32)
            self.records[key] = Record(site, kind, never, nobody)
        mine = self.records[key]
        first = lanes.at // self.granule
        places = [(lanes.rows, first + n) for n in range(max(1, size // self.granule))]
        for other in list(self.records.values()):
            if other.latest > self.synced and _conflict(kind, other.kind):
                self._compare(site, kind, lanes, places, other)
        self._note(mine, kind, lanes, places)
        mine.latest = self.clock

    def _unordered(self, lanes: Lanes, where: Any, record: Record) -> Array:
        """Where the last access of ``record`` was by another thread and nothing orders it before this one."""
        time, who = record.time[where], record.who[where]
        if lanes.threads is None:
            return time > self.known.min(axis=(1, 2))[:, None]
        other = np.maximum(who, 0) >> 5
        warp = lanes.threads >> 5
        known = self.known[lanes.rows, warp, other]
        many = who == MANY
        if many.any():
            known = np.where(many, self.known.min(axis=2)[lanes.rows, warp], known)
        return (time > known) & (who != lanes.threads)

    def _compare(self, site: Site, kind: str, lanes: Lanes, places: list[Any], other: Record) -> None:
        bad, who = self._unordered(lanes, places[0], other), other.who[places[0]]
        for where in places[1:]:
            more = self._unordered(lanes, where, other)
            who = np.where(bad, who, other.who[where])
            bad = bad | more
        if bad.any():
            who = np.broadcast_to(who, bad.shape)
            message = f"{kind} of shared memory at offset {{}} and {other.kind} by {{}}, no barrier {{}}between"
            self._report(lanes, bad, who, message, (site, other.site))

    def _note(self, mine: Record, kind: str, lanes: Lanes, places: list[Any]) -> None:
        met: Array | None = None
        winner: Array | None = None
        for where in places:
            if lanes.threads is None:
                mine.time[where], mine.who[where] = self.clock, MANY
                continue
            several = self._unordered(lanes, where, mine) if mine.latest > self.synced else None
            who = lanes.threads if several is None else np.where(several, MANY, lanes.threads)
            mine.time[where], mine.who[where] = self.clock, who
            after = mine.who[where]
            lost = (after != who) & (after != MANY)  # another lane of this very instruction came after
            if lost.any():
                rows, granules = (np.broadcast_to(v, lost.shape)[lost] for v in where)
                mine.who[rows, granules] = MANY
                winner = after if winner is None else np.where(lost, after, winner)
                met = lost if met is None else met | lost
        if kind == WRITE and met is not None and winner is not None:
            message = "write of shared memory at offset {} and write by {} in the same instruction{}"
            self._report(lanes, met, winner, message, (mine.site,))

    def _report(self, lanes: Lanes, bad: Array, who: Array, message: str, sites: tuple[Site, ...]) -> None:
        """Told apart by whether the two are of one warp."""
        bad = bad & ~self.astray[lanes.rows]  # whose barriers went wrong is no news to be told
        own = -1 if lanes.threads is None else lanes.threads >> 5
        same = ((who >= 0) & ((who >> 5) == own)) | (self.chunk.warps == 1)
        for severity, which in ((ERROR, bad & ~same), (WARNING, bad & same)):
            if not which.any():
                continue
            thread = int(who[which][0])
            by = f"thread {thread}" if thread >= 0 else "several threads"
            place = int(np.broadcast_to(lanes.at, bad.shape)[which][0])
            warp = "of the warp " if severity == WARNING and message.endswith("between") else ""
            text = message.format(f"{place:#x}", by, warp)
            active = self.chunk.broadcast(lanes.spread(self.chunk, which))
            self.chunk.report(RACE, text, sites, active, severity)


def _conflict(kind: str, other: str) -> bool:
    if kind == READ:
        return other != READ
    return not (kind == ATOMIC and other == ATOMIC)
