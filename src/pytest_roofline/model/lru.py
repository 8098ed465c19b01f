"""A cache that pushes out what was least recently used, many accesses at a time.

Where it is in partitions, a line has its home in one of them, and a block of another finds or leaves a copy in its own:
:mod:`~pytest_roofline.model.l2` has the rules. A *copy* is a line in one partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.isa.floats import Array
from .recency import FIRST, LONGEST, Recency, in_rows

LATER = np.iinfo(np.int64).max
FILLED = 0.77  # share of its room that the fullest set had best see in a chunk
SCANNED = 2**16  # copies looked through at a time


class Piece(NamedTuple):
    """Accesses to ``copies`` from ``first`` to before ``end``, in this order, that read or ``write`` them.

    ``alone``: these are different copies of different lines, which no other piece has, but for this one repeated.
    """

    copies: Array
    first: int
    end: int
    write: bool
    alone: bool


@dataclass(frozen=True)
class Chunk:
    """Accesses to ``copies`` in the order of their ``first`` times; ``last`` is that of the same access repeated.

    ``homes`` are the copies at home. ``alone``: all the lines are different.
    """

    copies: Array
    homes: Array
    first: Array
    last: Array
    write: Array
    alone: bool
    start: int
    end: int


@dataclass(frozen=True)
class Distinct:
    """The different copies of a chunk: ``own`` ones that blocks access, then the homes of those ``away`` from home.

    Of all: their ``sets``, the time of their last access ``before`` the chunk, and the ``slot`` at which the same copy
    stands first. Of the own ones: the time of their ``first`` access, and whether that is a ``write``. ``of`` is the
    own copy of each access, ``most`` how many copies each set sees at most.
    """

    copies: Array
    own: int
    away: Array
    sets: Array
    before: Array
    slot: Array
    first: Array
    write: Array
    of: Array
    most: Array
    alone: bool

    @property
    def homes(self) -> Array:
        return self.copies[self.own :]

    @property
    def home_slots(self) -> Array:
        return self.slot[self.own :]


class Cache:
    """Copy c is in ``set_of[c]``, one of ``sets`` of ``room`` places; its line's home copy is c + ``to_home[c]``."""

    def __init__(self, set_of: Array, to_home: Array, sets: int, room: int) -> None:
        self.set_of, self.to_home, self.sets, self.room = set_of, to_home, sets, room
        self.recency = Recency(set_of, sets, room)
        self.now = FIRST
        self.slot = np.zeros(len(set_of), np.int32)  # of a copy's first access in a chunk
        self.dirty = np.zeros(len(set_of), bool)
        self.length = float(sets)  # accesses that a chunk had best have
        self.read = self.written = 0
        self.wrote = False

    def wanted(self) -> float:
        """How many accesses a chunk had best have."""
        return self.length

    def access(self, pieces: Sequence[Piece]) -> None:
        """Access ``pieces``, in one chunk if no set sees more copies than it holds."""
        chunk = self._chunk(pieces)
        distinct = self._distinct(chunk)
        most = int(distinct.most.max())
        self.length = min(LONGEST / 2, max(1, self.length * min(1.25, max(0.5, FILLED * self.room / most))))
        if most > self.room:
            for half in _halves(pieces):
                self.access(half)
            return
        if distinct.alone and distinct.before.max() < self.recency.all_gone:
            self._stream(chunk, distinct)
        else:
            self._mix(chunk, distinct)
        self.now = chunk.end

    def flush(self) -> None:
        """Count what was written and has been pushed out by now."""
        if not self.wrote:
            return
        one = np.ones(self.sets, np.int64)  # as if it were accessed next
        for start in range(0, len(self.dirty), SCANNED):
            copies = start + np.flatnonzero(self.dirty[start : start + SCANNED])
            if len(copies):
                here, _, _ = self.recency.judge(self.set_of[copies].astype(np.int64), self.recency.last[copies], one)
                self._lose(copies[~here])

    def _chunk(self, pieces: Sequence[Piece]) -> Chunk:
        runs: dict[tuple[int, int, bool], list[int]] = {}
        different, time = [], self.now
        for piece in pieces:
            run = runs.setdefault((id(piece.copies), piece.first, piece.write), [time, time])
            if run[0] == time:
                different.append(piece)
            run[1] = time
            time += piece.end - piece.first
        alone = all(piece.alone for piece in different) and len({key[:2] for key in runs}) == len(runs)
        copies = np.concatenate([copies[first:end] for copies, first, end, _, _ in different])
        lengths = [end - first for _, first, end, _, _ in different]
        begin = last = np.arange(self.now, self.now + len(copies))
        if len(different) < len(pieces):
            starts = np.cumsum([self.now, *lengths[:-1]])
            begins, ends = np.array(list(runs.values())).T
            begin, last = begin + np.repeat(begins - starts, lengths), last + np.repeat(ends - starts, lengths)
        write = np.repeat([piece.write for piece in different], lengths)
        self.wrote |= any(piece.write for piece in different)
        return Chunk(copies, copies + self.to_home[copies], begin, last, write, alone, self.now, time)

    def _distinct(self, chunk: Chunk) -> Distinct:
        count, first, write = len(chunk.copies), chunk.first, chunk.write
        away = np.flatnonzero(chunk.homes != chunk.copies)
        every = np.concatenate([chunk.copies, chunk.homes[away]])
        numbers = slot = of = np.arange(len(every))
        alone = chunk.alone
        if not alone:
            self.slot[every[::-1].copy()] = numbers[::-1]
            slot = self.slot[every].astype(np.int64)
            alone = bool((slot == numbers).all())
        if not alone:
            mine = slot[:count] == numbers[:count]
            own, homes = np.flatnonzero(mine), np.flatnonzero(mine[away])
            kept = np.concatenate([own, count + homes])
            place = np.empty(len(every), np.int64)
            place[kept] = numbers[: len(kept)]
            of, slot, away = place[slot[:count]], place[slot[kept]], place[away[homes]]
            every, first, write, count = every[kept], first[own], write[own], len(own)
        sets = self.set_of[every].astype(np.int64)
        most = np.bincount(sets, minlength=self.sets)
        return Distinct(every, count, away, sets, self.recency.last[every], slot, first, write, of, most, alone)

    def _stream(self, chunk: Chunk, distinct: Distinct) -> None:
        """Take a chunk that finds nothing and comes back to nothing: each line is read or written once."""
        last, away = self.recency.last, distinct.away
        self._lose(chunk.homes)
        self.read += len(chunk.homes) - int(np.count_nonzero(chunk.write))
        self.dirty[chunk.homes[chunk.write]] = True
        last[chunk.copies] = chunk.last
        repeated = chunk.last is not chunk.first
        last[distinct.homes] = np.where(chunk.write, chunk.last, chunk.first)[away] if repeated else chunk.first[away]
        self.recency.leave(distinct.copies, distinct.sets, distinct.before, chunk.start, chunk.end)

    def _mix(self, chunk: Chunk, distinct: Distinct) -> None:
        """Take any chunk."""
        here, unsure, newer = self.recency.judge(distinct.sets, distinct.before, distinct.most)
        begin = np.concatenate([distinct.first, np.full(len(distinct.away), LATER)])  # of the first access to each
        written = np.flatnonzero(chunk.write & (chunk.homes != chunk.copies))
        home = np.zeros(distinct.own, np.int64)
        home[distinct.away] = distinct.home_slots
        homes_written = home[distinct.of[written]]
        np.minimum.at(begin, homes_written, chunk.first[written])
        asked = self._ask(distinct, here, begin)
        if len(unsure):
            self._count_others(distinct, here, begin, unsure, newer)
            asked = self._ask(distinct, here, begin)
        self._count_dram(distinct, here, begin, asked)
        last = self.recency.last
        np.maximum.at(last, chunk.copies, chunk.last)
        np.maximum.at(last, distinct.homes[asked], distinct.first[distinct.away[asked]])
        np.maximum.at(last, distinct.copies[homes_written], chunk.last[written])
        self.dirty[chunk.homes[chunk.write]] = True
        self._leave(chunk, distinct, begin)

    def _ask(self, distinct: Distinct, here: Array, begin: Array) -> Array:
        """Which of the copies away from home are read and not here, so that the home is read: it begins then."""
        asked = np.flatnonzero(~(distinct.write | here[: distinct.own])[distinct.away])
        np.minimum.at(begin, distinct.home_slots[asked], distinct.first[distinct.away[asked]])
        return asked

    def _count_others(self, distinct: Distinct, here: Array, begin: Array, unsure: Array, newer: Array) -> None:
        """Find whether the ``unsure`` are here, where that depends on what their sets see earlier in the chunk.

        Whether a home is asked hangs on what was here, and what is here on which homes were asked. So they begin as
        here, and as long as some turn out to be gone, their homes are asked: that can push out more, and spare none.
        """
        sets, before, slots = distinct.sets[unsure], distinct.before[unsure], distinct.slot[unsure]
        every = np.flatnonzero(distinct.slot == np.arange(len(distinct.slot)))
        rows, among, place, shape = in_rows(sets, distinct.sets[every], self.sets)
        around, earlier = np.zeros(shape, np.int64), np.full(shape, LATER)
        around[place] = every[among]
        earlier[place] = distinct.before[every[among]]
        mine = earlier[rows] < before[:, None]  # not among the newer
        home = np.full(distinct.own + len(distinct.away), -1)
        home[distinct.away[~distinct.write[distinct.away]]] = distinct.home_slots[~distinct.write[distinct.away]]
        asking = np.flatnonzero(home[unsure] >= 0)
        homes, times = home[unsure[asking]], distinct.first[unsure[asking]]
        while True:
            others = (mine & (begin[around][rows] < begin[slots][:, None])).sum(axis=1)
            found = newer + others < self.room
            if (found == here[unsure]).all():
                return
            here[unsure] = found
            np.minimum.at(begin, homes[~found[asking]], times[~found[asking]])

    def _count_dram(self, distinct: Distinct, here: Array, begin: Array, asked: Array) -> None:
        """Count reads of lines that are not at home when first asked for, and written lines gone from there."""
        own, slots = distinct.own, distinct.home_slots
        gone = ~here[:own]
        gone[distinct.away] = False
        gone_home = ~here[own:]
        self.read += int(np.count_nonzero(gone & ~distinct.write & (begin[:own] == distinct.first)))
        times = distinct.first[distinct.away[asked]]
        self.read += int(np.count_nonzero(gone_home[asked] & (begin[slots[asked]] == times)))
        self._lose(distinct.copies[:own][gone])
        once = slots == np.arange(own, own + len(slots))
        self._lose(distinct.homes[gone_home & once & (begin[slots] < LATER)])

    def _lose(self, copies: Array) -> None:
        if not self.wrote:
            return
        lost = copies[self.dirty[copies]]
        self.written += len(lost)
        self.dirty[lost] = False

    def _leave(self, chunk: Chunk, distinct: Distinct, begin: Array) -> None:
        accessed = np.flatnonzero(begin < LATER)
        accessed = accessed[distinct.slot[accessed] == accessed]
        copies, sets, before = distinct.copies[accessed], distinct.sets[accessed], distinct.before[accessed]
        self.recency.leave(copies, sets, before, chunk.start, chunk.end)


def _halves(pieces: Sequence[Piece]) -> tuple[Sequence[Piece], Sequence[Piece]]:
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return pieces[:middle], pieces[middle:]
    (piece,) = pieces
    middle = (piece.first + piece.end) // 2
    return [piece._replace(end=middle)], [piece._replace(first=middle)]
