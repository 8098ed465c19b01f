"""What each launch of a build does: accesses by array and line, instructions by class, which bytes blocks touch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np

from ..run.arguments import Step
from ..sim.machine.launch import Launch
from ..sim.observe.traffic import SECTOR, SHARED, Counts, Touch, issued
from .spans import even_bytes

DENSE = 1.1  # times the sectors that are moved may lie between the ends of what a block touches in one access
SAMPLE = 8  # blocks
Key = TypeVar("Key")
ARGUMENT = re.compile(r"argument (\d+) of ")


@dataclass(frozen=True)
class Work:
    """One launch, of its whole grid.

    ``buffers`` has the accesses by array, "shared" for shared memory; ``lines`` the same by source line and array, the
    line that calls an inlined function first. ``issued`` are warp instructions by class, ``special`` the lanes of
    special-function operations. ``touched`` is what each block touches of global memory, from the first byte of an
    access to its end; None where that is not known of all of them. ``executed`` blocks were counted; the rest, if any,
    is like them, but for the last ones where they are ``ragged``.
    """

    kernel: str
    blocks: int
    executed: int
    buffers: Mapping[str, Counts]
    lines: Mapping[tuple[str, str], Counts]
    issued: Mapping[str, int]
    special: int
    touched: tuple[Touch, ...] | None
    ragged: bool = False

    @property
    def global_memory(self) -> Counts:
        """The accesses to all arrays together."""
        total = Counts()
        for name, counts in self.buffers.items():
            if name != SHARED:
                total.add(counts)
        return total

    @property
    def dense(self) -> bool:
        """Whether accesses leave no gaps, as the model of the L2 cache takes it."""
        if self.touched is None:
            return False
        spanned = sum(int((one.end - one.first).sum()) for one in self.touched)
        return spanned <= DENSE * max(1, self.global_memory.sectors * SECTOR)

    @property
    def unique_bytes(self) -> int:
        """Distinct bytes of global memory that the launch moves: what blocks share counts once."""
        if self.touched is None or not self.dense:
            return 0  # not known
        return min(self.global_memory.unique_bytes, union_bytes(self.touched))

    @property
    def largest_block(self) -> int:
        """Distinct bytes that one block moves, of some of them the one with most."""
        touched = self.touched or ()
        return max((unique_bytes(touched, block) for block in sample_of(self.blocks)), default=0)

    @property
    def uniform(self) -> bool:
        """Whether a few blocks stood for all, being alike."""
        return not self.ragged and (self.executed < self.blocks or self.blocks == 1)


def sample_of(blocks: int) -> list[int]:
    """Numbers of the blocks to count, in order: the first, the last and some between, or all where there are few."""
    if blocks <= SAMPLE:
        return list(range(blocks))
    between = 1 + np.random.default_rng(blocks).choice(blocks - 2, SAMPLE - 2, replace=False)
    return [0, *sorted(map(int, between)), blocks - 1]


def work_of(
    step: Step, launches: Sequence[Launch], touched: tuple[Touch, ...] | None, executed: int, blocks: int
) -> Work:
    """The counts of ``launches``, of ``executed`` blocks together, scaled to ``blocks``; ``touched`` is of all."""
    buffers: dict[str, Counts] = {}
    lines: dict[tuple[str, str], Counts] = {}
    kinds: Counter[str] = Counter()
    special = 0
    for launch in launches:
        for (index, buffer), counts in launch.counts.items():
            found = ARGUMENT.match(buffer)
            name = str(step.planned.args[int(found[1])]) if found else buffer
            place = launch.program.sites[index].called
            buffers.setdefault(name, Counts()).add(counts)
            lines.setdefault((place, name), Counts()).add(counts)
        more, lanes = issued(launch)
        kinds += more
        special += lanes
    return Work(
        kernel=step.planned.kernel,
        blocks=blocks,
        executed=executed,
        buffers=_scaled(buffers, blocks, executed),
        lines=_scaled(lines, blocks, executed),
        issued={kind: number * blocks // executed for kind, number in kinds.items()},
        special=special * blocks // executed,
        touched=touched,
    )


def _scaled(counts: Mapping[Key, Counts], blocks: int, executed: int) -> dict[Key, Counts]:
    return {
        key: Counts(**{f.name: getattr(one, f.name) * blocks // executed for f in fields(Counts)})
        for key, one in counts.items()
    }


def added(body: Work, tail: Work) -> Work:
    """A launch of equal blocks and of some that differ."""
    return replace(
        body,
        blocks=body.blocks + tail.blocks,
        executed=body.executed + tail.executed,
        buffers=_summed(body.buffers, tail.buffers),
        lines=_summed(body.lines, tail.lines),
        issued=dict(Counter(body.issued) + Counter(tail.issued)),
        special=body.special + tail.special,
        ragged=True,
    )


def _summed(one: Mapping[Key, Counts], other: Mapping[Key, Counts]) -> dict[Key, Counts]:
    found: dict[Key, Counts] = {}
    for counts in (one, other):
        for key, each in counts.items():
            found.setdefault(key, Counts()).add(each)
    return found


def union_bytes(touched: Sequence[Touch]) -> int:
    """Distinct bytes between the ends of what all blocks touch."""
    if not touched:
        return 0
    found = even_bytes(touched)
    if found is not None:
        return found
    first, end = (np.concatenate([getattr(one, name) for one in touched]) for name in ("first", "end"))
    order = np.argsort(first, kind="stable")
    first, reached = first[order], np.maximum.accumulate(end[order])
    before = np.concatenate([first[:1], reached[:-1]])
    return int(np.maximum(reached - np.maximum(first, before), 0).sum())


def unique_bytes(touched: Iterable[Touch], block: int) -> int:
    """Distinct bytes of global memory between the ends of what ``block`` touches."""
    total, reached = 0, -1
    spans = []
    for one in touched:
        at = np.searchsorted(one.blocks, block)
        if at < len(one.blocks) and one.blocks[at] == block:
            spans.append((int(one.first[at]), int(one.end[at])))
    for first, end in sorted(spans):
        total += max(0, end - max(first, reached))
        reached = max(reached, end)
    return total
