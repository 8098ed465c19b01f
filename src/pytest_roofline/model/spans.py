"""Which lines launches touch, numbered, and the order in which their blocks do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..sim.isa.floats import Array
from ..sim.observe.traffic import Touch
from .lru import Piece
from .recency import LONGEST

TOGETHER = 2**15  # lines numbered at once
NEAR = 8  # accesses of a block within which it comes back to what it touched
OVER = 1.3  # times the length wanted that a list of pieces may have until blocks are done with what they touched


@dataclass(frozen=True)
class EvenTouch(Touch):
    """Of blocks ``rank``, ``rank + apart``, ... the n-th touches ``size`` bytes from ``start`` + n * ``stride``."""

    start: int
    stride: int
    size: int
    rank: int = 0
    apart: int = 1

    @property
    def figures(self) -> tuple[int, ...]:
        """All that it says."""
        return len(self.blocks), self.rank, self.apart, self.start, self.stride, self.size, self.write

    def spread(self, rank: int, apart: int) -> EvenTouch:
        """The same by block ``rank`` + n * ``apart`` instead of block n."""
        blocks = self.blocks * apart + rank
        return replace(self, blocks=blocks, rank=self.rank * apart + rank, apart=self.apart * apart)


def even_bytes(touched: Iterable[Touch]) -> int | None:
    """Distinct bytes that even touches touch together; None where they are not even, or overlap from block to block."""
    alike: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for one in touched:
        if not isinstance(one, EvenTouch) or one.stride < 0:
            return None
        count, stride = (len(one.blocks), one.stride) if one.stride else (1, 0)
        alike.setdefault((count, stride), []).append((one.start, one.start + one.size))
    total, regions = 0, []
    for (count, stride), pieces in alike.items():
        for first, end, size in _groups(sorted(pieces), stride):
            if count > 1 and end - first > stride:
                return None
            total += count * size
            regions.append((first, end + (count - 1) * stride))
    regions.sort()
    return total if all(one[1] <= other[0] for one, other in pairwise(regions)) else None


def _groups(pieces: list[tuple[int, int]], longest: int) -> Iterator[tuple[int, int, int]]:
    """Sorted pieces of memory in groups of up to ``longest`` bytes: first, end, and bytes touched."""
    first, reached, size = pieces[0][0], pieces[0][0], 0
    for start, end in pieces:
        if start > reached and end - first > longest:
            yield first, reached, size
            first, reached, size = start, start, 0
        size += max(0, end - max(start, reached))
        reached = max(reached, end)
    yield first, reached, size


@dataclass(eq=False)
class Span:
    """The lines of one access of each block: those of ``blocks[n]`` from ``first[n]`` to ``last[n]``.

    ``numbers`` are those of its lines, block after block; ``each`` is how many lines a block has, None where blocks
    differ. ``alone``: no line is in it twice, or in another span that is alone.
    """

    blocks: Array
    first: Array
    last: Array
    each: int | None = field(init=False)
    ends: Array = field(init=False)
    numbers: Array = field(init=False)
    alone: bool = True

    def __post_init__(self) -> None:
        counts = self.last - self.first + 1
        self.each = int(counts[0]) if (counts == counts[0]).all() else None
        self.ends = np.concatenate([[0], np.cumsum(counts)]) if self.each is None else counts[:0]

    def __len__(self) -> int:
        return int(self.ends[-1]) if self.each is None else len(self.blocks) * self.each

    def is_of(self, blocks: Array, first: Array, last: Array) -> bool:
        """Whether it is of the same lines of the same blocks."""
        same = self.blocks is blocks or bool((self.blocks == blocks).all())
        return same and bool(((self.first == first) & (self.last == last)).all())

    def lines(self) -> Array:
        """Its lines, by their place in memory."""
        if self.each == 1:
            return self.first
        if self.each:
            return np.ravel(self.first[:, None] + np.arange(self.each))
        found: Array = np.arange(len(self)) + np.repeat(self.first - self.ends[:-1], np.diff(self.ends))
        return found

    def by_line(self, of_blocks: Array) -> Array:
        """A value of each block for each of its lines."""
        return np.repeat(of_blocks[self.blocks], self.each or np.diff(self.ends))

    def bounds(self, waves: Array) -> list[int]:
        """Where the lines of each wave begin, given the first block of each, and of none."""
        starts = np.searchsorted(self.blocks, waves)
        found: list[int] = (self.ends[starts] if self.each is None else starts * self.each).tolist()
        return found


class Spans:
    """Each different span of accesses to lines of 2^``bits`` bytes."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.every: list[Span] = []
        self._even: dict[tuple[int, ...], Span] = {}
        self._like: dict[tuple[int, int, int], list[Span]] = {}

    def of(self, one: Touch) -> Span:
        if isinstance(one, EvenTouch) and not one.stride % 2**self.bits:
            count, rank, apart, start, stride, size, _ = one.figures
            key = count, rank, apart, start >> self.bits, start + size - 1 >> self.bits, stride
            if key not in self._even:
                self._even[key] = self._new(one.blocks, *self._lines(one))
            return self._even[key]
        first, last = self._lines(one)
        like = self._like.setdefault((len(first), int(first[0]), int(last[-1])), [])
        for span in like:
            if span.is_of(one.blocks, first, last):
                return span
        like.append(self._new(one.blocks, first, last))
        return like[-1]

    def _lines(self, one: Touch) -> tuple[Array, Array]:
        return one.first >> self.bits, one.end - 1 >> self.bits

    def _new(self, blocks: Array, first: Array, last: Array) -> Span:
        self.every.append(Span(blocks, first, last))
        return self.every[-1]


class Numbering:
    """Numbers for the lines of ``spans`` from 0, in the order of the spans: what is touched together lies together.

    ``placed(lines)`` is what is to be known of lines, as arrays; ``known`` is that of all, in the order of the numbers.
    """

    def __init__(self, spans: Sequence[Span], placed: Callable[[Array], Sequence[Array]]) -> None:
        self.spans, self.placed = spans, placed
        self.start = min((int(span.first.min()) for span in spans), default=0)
        self.table = np.zeros(max((int(span.last.max()) + 1 for span in spans), default=0) - self.start, np.int32)
        self.count = 0
        found = [placed(np.zeros(0, np.int64))]
        some, many = [], 0
        for span in spans:
            some.append(span)
            many += len(span)
            if many > TOGETHER:
                found.append(self._number(some))
                some, many = [], 0
        if some:
            found.append(self._number(some))
        self.known = [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    def _number(self, spans: list[Span]) -> Sequence[Array]:
        """Number the lines of some spans; what is known of new ones."""
        lines = [span.lines() for span in spans]
        ends = np.cumsum([len(one) for one in lines])
        places = np.concatenate(lines) - self.start
        numbers, new = self._add(places)
        fresh = places if new is None else places[new]
        for span, first, end in zip(spans, [0, *ends], ends, strict=False):
            span.numbers = numbers[first:end]
        if new is not None:
            for span, alone in zip(spans, np.logical_and.reduceat(new, [0, *ends[:-1]]), strict=True):
                span.alone = bool(alone)
        return self.placed(fresh + self.start)

    def _add(self, places: Array) -> tuple[Array, Array | None]:
        """The numbers at ``places`` of the table, and which of them are new, None if all are.

        Of a new line that is there several times the last one counts as new.
        """
        new = self.table[places] == 0
        fresh = places if new.all() else places[new]
        numbers = np.arange(self.count + 1, self.count + 1 + len(fresh), dtype=np.int32)  # in the table they begin at 1
        self.table[fresh] = numbers
        last = self.table[fresh] == numbers
        if not last.all():
            new[np.flatnonzero(new)[~last]] = False
            fresh, numbers = fresh[last], numbers[: np.count_nonzero(last)]
            self.table[fresh] = numbers
        self.count += len(fresh)
        if len(fresh) == len(places):
            return numbers - 1, None
        return self.table[places] - 1, new


class Step(NamedTuple):
    """One access of each block. ``bounds`` are where the lines of each wave begin.

    ``again``: blocks just did the same; ``done``: before it, blocks are done with what they touched last.
    """

    span: Span
    bounds: list[int]
    write: bool
    again: bool
    done: bool


def steps(touched: Iterable[Touch], spans: Spans, waves: Array) -> list[Step]:
    """A launch's accesses in the order of the code, given the first block of each wave, and of none."""
    every = [(spans.of(one), one.write) for one in touched if len(one.blocks)]
    bounds = {span: span.bounds(waves) for span, _ in dict.fromkeys(every)}
    again, done = [False] * len(every), [True] * len(every)
    seen: dict[Span, int] = {}
    written: dict[tuple[Span, bool], int] = {}
    for number, (span, write) in enumerate(every):
        before = seen.get(span, -NEAR)
        if number - before < NEAR:
            done[before + 1 : number + 1] = [False] * (number - before)
            again[number] = number - written.get((span, write), -NEAR) < NEAR
        seen[span] = written[span, write] = number
    return [Step(s, bounds[s], write, again[n], done[n]) for n, (s, write) in enumerate(every)]


def pieces(
    steps: Sequence[Step], side: Array, partitions: int, waves: int, wanted: Callable[[], float]
) -> Iterator[list[Piece]]:
    """The accesses of a launch, wave after wave, in lists of about ``wanted()`` different ones.

    ``side`` is the partition of each block.
    """
    copies = _copies(steps, side, partitions)
    found: list[Piece] = []
    count, time, length = 0, 0, wanted()
    for wave in range(waves):
        for step in steps:
            first, end = step.bounds[wave], step.bounds[wave + 1]
            size = end - first
            if not size:
                continue
            if found and (count + size > (length if step.done else OVER * length) or time + size > LONGEST):
                yield found
                found, count, time, length = [], 0, 0, wanted()
            found.append(Piece(copies[step.span], first, end, step.write, step.span.alone))
            time += size
            count += 0 if step.again else size
    if found:
        yield found


def _copies(steps: Sequence[Step], side: Array, partitions: int) -> dict[Span, Array]:
    """The copies that blocks access: a line's number times ``partitions``, and the partition of the block."""
    sides: dict[int | None, Array] = {}  # of spans of all blocks, by lines of each
    found: dict[Span, Array] = {}
    for span in dict.fromkeys(step.span for step in steps):
        if partitions == 1:
            found[span] = span.numbers.astype(np.int64)
        elif span.each and len(span.blocks) == len(side):
            if span.each not in sides:
                sides[span.each] = span.by_line(side)
            found[span] = span.numbers * partitions + sides[span.each]
        else:
            found[span] = span.numbers * partitions + span.by_line(side)
    return found
