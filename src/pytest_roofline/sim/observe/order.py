"""Races on global memory between the blocks of a launch.

Per granule the block that last wrote it, read it or updated it atomically, and where. Two blocks, at least one
writing, not both by atomics, are a race, for nothing orders blocks. Except: what a block did before a fence is ordered
before a block that learns of it. An atomic or volatile write leaves at its place what its block knows of all blocks'
fences, an atomic or volatile read takes it up. A block's number is kept negative from its fence on, with the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from .chunk import Chunk
from .findings import ERROR, RACE, WARNING
from .shadows import OWNER, READER, UPDATER, History, Memory

KNOWING = 4096  # blocks of a launch up to which it is kept what each knows of each
SEVERAL = np.int32(2**31 - 1)  # more than one block


@dataclass
class Conflict:
    """Lanes that meet another block's access: which, the other's number, granule and site."""

    bad: Array
    who: Array
    where: Array
    site: Array


class Order:
    """What the ``blocks`` of a launch did, as a chunk sees it."""

    def __init__(self, chunk: Chunk, history: History, blocks: int) -> None:
        self.chunk, self.history, self.total = chunk, history, blocks
        self.granule = history.granule
        self.numbers = (chunk.numbers + 1).astype(np.int32)[:, None]

    def _granules(self, offsets: Array, size: int) -> list[Array]:
        first = offsets // self.granule
        return [first + n if n else first for n in range(max(1, size // self.granule))]

    def _mine(self, mask: Array | None) -> Array:
        numbers = self.chunk.broadcast(self.numbers)
        return numbers if mask is None else numbers[mask]

    def _foreign(self, found: Memory, role: str, at: Array, mine: Array) -> Array:
        """Where another block's access is not ordered before this one's."""
        shadow = self.history.make(found, role)
        who = shadow.who[at]
        bad = (who != 0) & (who != mine) & (who != -mine)
        knows = self.history.knows
        if knows is None or not bad.any():
            return bad
        mine = np.broadcast_to(mine, bad.shape)
        known = knows[mine, np.where(who < 0, -who, 0)]
        several = who == SEVERAL
        if several.any():  # it is not known which: whoever has learnt of anybody is given the benefit of the doubt
            several = several & np.asarray(knows.any(axis=1))[mine]
        return bad & ~(several | ((who < 0) & (known >= shadow.time[at])))

    def _conflict(self, found: Memory, role: str, places: list[Array], mine: Array) -> Conflict | None:
        shadow = self.history.get(found, role)
        if shadow is None:
            return None
        total: Conflict | None = None
        for at in places:
            bad = self._foreign(found, role, at, mine)
            one = Conflict(bad, shadow.who[at], at, shadow.site[at])
            total = one if total is None else _joined(total, one)
        return total

    def _note(self, found: Memory, role: str, at: Array, number: Array, site: Site) -> Array:
        """This access is the last; where several blocks did it in this very instruction."""
        shadow = self.history.make(found, role)
        shadow.who[at] = number
        shadow.site[at] = site.index
        lost = shadow.who[at] != number
        if lost.any() and role != OWNER:
            shadow.who[np.broadcast_to(at, lost.shape)[lost]] = SEVERAL
        if role != OWNER:
            shadow.time[at] = self.history.time
        return lost

    def read(self, found: Memory, site: Site, offsets: Array, mask: Array, size: int, volatile: bool) -> None:
        if volatile:
            self.synchronise(found, offsets, mask, acquires=True, releases=False)
            return
        mine, places = self._mine(mask), self._granules(offsets, size)
        uncached = "nc" in site.opcode.split(".")
        kind = "non-coherent load (ld.global.nc) of data" if uncached else "read of data"
        self._report(found, site, mask, self._conflict(found, OWNER, places, mine), f"{kind} that {{}} writes")
        owner = self.history.get(found, OWNER) if uncached else None
        if owner is not None:
            own = Conflict(np.abs(owner.who[places[0]]) == mine, mine, places[0], owner.site[places[0]])
            text = "non-coherent load (ld.global.nc) of data that {} itself writes"
            self._report(found, site, mask, own, text)
        late = self._conflict(found, UPDATER, places, mine)
        self._report(found, site, mask, late, "plain read of what {} updates atomically", WARNING)
        for at in places:
            reader = self.history.make(found, READER).who
            number = np.where(self._foreign(found, READER, at, mine) | (reader[at] == SEVERAL), SEVERAL, mine)
            self._note(found, READER, at, number, site)

    def write(self, found: Memory, site: Site, offsets: Array, mask: Array | None, size: int, volatile: bool) -> None:
        if volatile:
            self.synchronise(found, offsets, mask, acquires=False, releases=True)
            return
        mine, places = self._mine(mask), self._granules(offsets, size)
        owner = self._conflict(found, OWNER, places, mine)
        for role, text in ((READER, "write of what {} reads"), (UPDATER, "write of what {} updates")):
            self._report(found, site, mask, self._conflict(found, role, places, mine), text)
        for at in places:
            lost = self._note(found, OWNER, at, mine, site)
            if lost.any():
                shadow = self.history.make(found, OWNER)
                met = Conflict(lost, shadow.who[at], at, shadow.site[at])
                owner = met if owner is None else _joined(owner, met)
        self._report(found, site, mask, owner, "write of what {} writes too")

    def update(self, found: Memory, site: Site, offsets: Array, mask: Array, size: int) -> None:
        """An atomic access."""
        mine, places = self._mine(mask), self._granules(offsets, size)
        text = "atomic access to what {} writes"
        self._report(found, site, mask, self._conflict(found, OWNER, places, mine), text)
        text = "atomic access to what {} reads"
        self._report(found, site, mask, self._conflict(found, READER, places, mine), text, WARNING)
        for at in places:
            self._note(found, UPDATER, at, mine, site)
        self.synchronise(found, offsets, mask, acquires=True, releases=True)

    def _report(
        self,
        found: Memory,
        site: Site,
        mask: Array | None,
        conflict: Conflict | None,
        message: str,
        severity: str = ERROR,
    ) -> None:
        if conflict is None or not conflict.bad.any():
            return
        for index in np.unique(np.broadcast_to(conflict.site, conflict.bad.shape)[conflict.bad]):
            bad = conflict.bad & (conflict.site == index)
            block = abs(int(np.broadcast_to(conflict.who, bad.shape)[bad].flat[0]))
            place = self.granule * int(np.broadcast_to(conflict.where, bad.shape)[bad].flat[0])
            named = f"block {block - 1}" if block != int(SEVERAL) else "several blocks"
            lanes = bad
            if mask is not None:
                lanes = np.zeros(mask.shape, bool)
                lanes[mask] = bad
            text = f"{message.format(named)} in the same launch, at byte {place} of {found.what}"
            sites = (site, self.chunk.program.sites[int(index)])
            self.chunk.report(RACE, text, sites, self.chunk.broadcast(lanes), severity, between_blocks=True)

    def synchronise(self, found: Memory, offsets: Array, mask: Array | None, acquires: bool, releases: bool) -> None:
        """Atomic and volatile accesses, one after the other: a place hands on what was fenced before it was written."""
        knows = self.history.knows
        if knows is None:  # nobody has fenced: there is nothing to hand on
            return
        blocks, places = self._mine(mask).ravel(), np.broadcast_to(offsets, self._mine(mask).shape).ravel()
        order = slice(None, None, -1) if self.chunk.reverse else slice(None)
        pairs = dict.fromkeys(zip(blocks[order].tolist(), places[order].tolist(), strict=True))
        for block, place in pairs:
            key = (found.base, place)
            carried = self.history.carried.get(key)
            if acquires and carried is not None:
                np.maximum(knows[block], carried, out=knows[block])
            if releases:
                self.history.carried[key] = (
                    knows[block].copy() if carried is None else np.maximum(carried, knows[block])
                )

    def fence(self, m: Array | None) -> None:
        """What the blocks did so far is ordered before whoever synchronises with them from now on."""
        lanes = self.chunk.lanes(m)
        ids = self.numbers[lanes.any(axis=1), 0]
        history = self.history
        history.time += 1
        if history.knows is None and self.total <= KNOWING:
            history.knows = np.zeros((self.total + 1,) * 2, np.int32)
        if history.knows is not None:
            history.knows[ids, ids] = history.time
        for shadow in history.shadows.values():
            mine = np.isin(shadow.who, ids)
            shadow.who[mine] = -shadow.who[mine]
            shadow.time[mine] = history.time


def _joined(first: Conflict, then: Conflict) -> Conflict:
    """Both; where a lane is in both, the first."""
    kept = first.bad
    return Conflict(
        kept | then.bad,
        np.where(kept, first.who, then.who),
        np.where(kept, first.where, then.where),
        np.where(kept, first.site, then.site),
    )
