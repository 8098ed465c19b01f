"""What sets that push out the least recently used hold, told by when each copy was last accessed.

A set holds the ``room`` copies that were accessed last, so a copy is there as long as fewer than ``room`` others of its
set were accessed since. That is counted, instead of moving copies about, for a chunk of accesses at once in which no
set sees more than ``room`` different copies:

- a copy is gone for certain if ``room`` others were new to its set since its last access;
- it is there for certain if all that its set saw since fits beside it;
- else those that were accessed after it are counted one by one.

What the sets hold is worked out where that is faster, or when it is asked for. A sweep over what was never there does
without.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..sim.isa.floats import Array

NEVER, EMPTY, FIRST = 0, 1, 2  # times: of a copy never accessed, of a free place, of the first access
LONGEST = 2**16  # accesses in a chunk: their times sort as 16-bit numbers
BEHIND = 12  # chunks after which the content is worked out
LATER = np.iinfo(np.int64).max
MANY = 3000  # copies to be judged from which the content is worked out


@dataclass(frozen=True)
class Past:
    """A chunk since the content was worked out: its copies and their sets, and its times.

    ``live`` is, per set, how many copies were last accessed in it.
    """

    copies: Array
    sets: Array
    start: int
    end: int
    live: Array


class Recency:
    """Of copies 0, 1, ..., of which c is in ``set_of[c]``, one of ``sets`` sets with room for ``room``."""

    def __init__(self, set_of: Array, sets: int, room: int) -> None:
        self.set_of, self.sets, self.room = set_of, sets, room
        self.last = np.full(len(set_of), NEVER)  # time of the last access
        self.content = np.zeros((sets, room), np.int64)  # the oldest first
        self.times = np.full((sets, room), EMPTY)  # of their last access when the content was worked out
        self.known = False  # whether anything of it may still be there
        self.oldest = np.full(sets, EMPTY)  # what was last accessed before is gone from the set
        self.all_gone = EMPTY  # and what was before this, from every set
        self.past: list[Past] = []
        self.live = np.zeros(sets, np.int64)  # of all the past

    def leave(self, copies: Array, sets: Array, before: Array, start: int, end: int) -> None:
        """Add a chunk to the past: different ``copies`` of ``sets``, last accessed ``before``.

        Forgets what the copies since have pushed out of every set.
        """
        if self.past:
            self._move(sets, before)
        live = np.bincount(sets, minlength=self.sets)
        self.past.append(Past(copies, sets, start, end, live))
        self.live += live
        while (self.live - self.past[0].live).min() >= self.room:
            self.live -= self.past.pop(0).live
            self.all_gone = self.past[0].start
            self.oldest[:] = self.all_gone
            if self.known:
                self.times[:], self.known = EMPTY, False
        if len(self.past) > BEHIND:
            self.settle()

    def _move(self, sets: Array, before: Array) -> None:
        """Copies of ``sets`` are accessed again: they count no longer for the chunk of the time ``before``."""
        again = np.flatnonzero(before >= self.past[0].start)
        if len(again):
            chunk = np.searchsorted([past.start for past in self.past], before[again], side="right") - 1
            counts = np.bincount(chunk * self.sets + sets[again], minlength=len(self.past) * self.sets)
            for past, count in zip(self.past, counts.reshape(-1, self.sets), strict=True):
                past.live[:] -= count
                self.live -= count

    def judge(self, sets: Array, before: Array, most: Array) -> tuple[Array, Array, Array]:
        """Which copies of ``sets``, last accessed ``before``, are there when a chunk first accesses them.

        ``most`` is how many copies each set sees in the chunk at most. With it those for which that depends on the
        chunk, taken for being there, and for each of them how many of its set were accessed later before the chunk.
        """
        here = before >= self.oldest[sets]
        unsure = np.flatnonzero(here)
        if not len(unsure):
            return here, unsure, unsure
        since = self._since()
        gone, certain = self._bounds(since, most)
        unsure = unsure[before[unsure] < certain[sets[unsure]]]
        lost = before[unsure] < gone[sets[unsure]]
        here[unsure[lost]] = False
        unsure = unsure[~lost]
        if self.past and len(unsure) > MANY:
            self.settle()
            return self.judge(sets, before, most)
        newer = self._newer(sets[unsure], before[unsure], since)
        here[unsure] = newer < self.room
        depends = np.flatnonzero(here[unsure] & (newer + most[sets[unsure]] > self.room))
        return here, unsure[depends], newer[depends]

    def _since(self) -> Array:
        """Of each set, how many copies were accessed since each chunk of the past, the first in row 1, and after it."""
        return np.cumsum([np.zeros(self.sets, np.int64), *(past.live for past in reversed(self.past))], axis=0)[::-1]

    def _bounds(self, since: Array, most: Array) -> tuple[Array, Array]:
        """Per set, times: what was last accessed before the first is gone, from the second on it stays in any case.

        Of times between them it is not certain, if each set sees ``most`` more copies.
        """
        starts = np.array([NEVER, *(past.start for past in self.past), LATER])
        gone = np.maximum(self.oldest, starts[(since >= self.room).sum(axis=0)])
        certain = starts[1 + (since + most - 2 >= self.room).sum(axis=0)]  # it is in both
        fits = np.flatnonzero(since[0] + most <= self.room)
        certain[fits] = self.times[fits, np.maximum((since[0] + most)[fits] - 1, 0)]
        return gone, certain

    def _newer(self, sets: Array, before: Array, since: Array) -> Array:
        """How many copies of each of ``sets`` were accessed after the time ``before`` it."""
        chunk = np.searchsorted([past.start for past in self.past], before, side="right")
        newer = since[chunk, sets]
        for number in np.flatnonzero(np.bincount(chunk)).tolist():
            some = np.flatnonzero(chunk == number)
            newer[some] += self._newer_in(number, sets[some], before[some, None])
        return newer

    def _newer_in(self, number: int, sets: Array, before: Array) -> Array:
        """The same for those that were last accessed in one chunk, of the copies of that chunk; 0: of the content."""
        if number == 0:
            times = self.times[sets]
            return _count((times > before) & (self.last[self.content[sets]] == times))
        past = self.past[number - 1]
        rows, among, place, shape = in_rows(sets, past.sets, self.sets)
        found = self.last[past.copies[among]]
        times = np.full(shape, NEVER)
        times[place] = np.where(found < past.end, found, NEVER)
        return _count(times[rows] > before)

    def settle(self) -> None:
        """Work out what the sets hold."""
        if not self.past:
            return
        recent = self._by_time()
        sets = self.set_of[recent].astype(np.int64)
        order = np.argsort(short(sets), kind="stable")
        recent, sets = recent[order], sets[order]
        counts = np.bincount(sets, minlength=self.sets)
        column = np.arange(self.room, self.room + len(recent)) - np.cumsum(counts)[sets]
        fits = np.flatnonzero(column >= 0)
        stay = self.last[self.content] == self.times
        behind = np.cumsum(stay[:, ::-1], axis=1)[:, ::-1] + counts[:, None]  # itself, and those accessed later
        old = np.flatnonzero(stay & (behind <= self.room))
        place = old + (self.room - behind - np.arange(self.room)).ravel()[old]
        content, times = np.zeros(stay.size, np.int64), np.full(stay.size, EMPTY)
        content[place], times[place] = self.content.ravel()[old], self.times.ravel()[old]
        place, recent = (sets * self.room + column)[fits], recent[fits]
        content[place], times[place] = recent, self.last[recent]
        self.content, self.times = content.reshape(stay.shape), times.reshape(stay.shape)
        self.oldest = self.times[:, 0].copy()
        self.all_gone = int(self.oldest.min())
        self.known = True
        self.past, self.live = [], np.zeros(self.sets, np.int64)

    def _by_time(self) -> Array:
        """The copies of the past in the order of their last access."""
        found = []
        for past in self.past:
            times = self.last[past.copies]
            here = np.flatnonzero((times >= past.start) & (times < past.end))
            found.append(past.copies[here[np.argsort(short(times[here] - past.start), kind="stable")]])
        return np.concatenate(found)


def _count(values: Array) -> Array:
    found: Array = values.sum(axis=1)
    return found


def short(values: Array) -> Array:
    """Values as 16-bit numbers where they fit: those sort fastest."""
    return values.astype(np.uint16) if values.max(initial=0) < 2**16 else values


Place = tuple[Array, Array]


def in_rows(wanted: Array, sets: Array, count: int) -> tuple[Array, Array, Place, tuple[int, int]]:
    """A matrix with a row for each different set of ``wanted``, of ``count`` sets in all with its part of ``sets``.

    The row of each of ``wanted``; which of ``sets`` are in the matrix; their rows and columns; the matrix's shape.
    """
    mask = np.zeros(count, bool)
    mask[wanted] = True
    rows = np.cumsum(mask) - 1
    among = np.flatnonzero(mask[sets])
    row = rows[sets[among]]
    order = np.argsort(short(row), kind="stable")
    among, row = among[order], row[order]
    counts = np.bincount(row, minlength=1)
    column = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    return rows[wanted], among, (row, column), (int(rows[-1]) + 1, int(counts.max()))
