"""What each launch of a variant does, counted in the simulator: on a few blocks where all are alike, else on all of them.

A grid is taken for uniform if pairs of its blocks (the first, the last and some drawn from all, always the same ones)
execute the same instructions the same number of times and touch memory at a steady distance. Then their counts are
scaled to the grid.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from ..declare.suite import Shape, Suite, Variant
from ..errors import NotCheckedError
from ..hardware.gpus import Gpu
from ..run.arguments import Step
from ..run.check import Accuracy, Job
from ..sim.device import SimDevice
from ..sim.machine.execute import Launch
from ..sim.observe.traffic import SECTOR, SHARED, Counts, Touch, issued
from .l2 import whole_grid

SPARSE_ABOVE = 2**20  # bytes: only what the counted blocks touch is kept
DENSE = 1.1  # times the sectors that are moved may lie between the ends of what a block touches in one access
SAMPLE = 8  # blocks
FULL_ELEMENTS = 2**22  # of a shape that is counted in full, where blocks differ
INPUT_ROWS = 17  # different rows of the inputs, repeated; no divisor of the usual numbers of rows
Key = TypeVar("Key")
ARGUMENT = re.compile(r"argument (\d+) of ")


@dataclass(frozen=True)
class Work:
    """One launch, of its whole grid.

    ``buffers`` has the accesses by array, "shared" for shared memory; ``lines`` the same by source line and array, the
    line that calls an inlined function first. ``issued`` are warp instructions by class, ``special`` the lanes of
    special-function operations. ``touched`` is what each block touches of global memory, from the first byte of an
    access to its end. ``executed`` blocks were counted; the rest, if any, is like them.
    """

    kernel: str
    blocks: int
    executed: int
    buffers: Mapping[str, Counts]
    lines: Mapping[tuple[str, str], Counts]
    issued: Mapping[str, int]
    special: int
    touched: tuple[Touch, ...]

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
        spanned = sum(int((one.end - one.first).sum()) for one in self.touched)
        return spanned <= DENSE * max(1, self.global_memory.sectors * SECTOR)

    @property
    def unique_bytes(self) -> int:
        """Distinct bytes of global memory that the launch moves: what blocks share counts once."""
        each = self.global_memory.unique_bytes
        if not self.dense:
            return 0  # not known
        return min(each, union_bytes(self.touched))

    @property
    def largest_block(self) -> int:
        """Distinct bytes that one block moves, of some of them the one with most."""
        return max((unique_bytes(self.touched, block) for block in sample_of(self.blocks)), default=0)

    @property
    def uniform(self) -> bool:
        """Whether a few blocks stood for all, being alike."""
        return self.executed < self.blocks or self.blocks == 1


def sample_of(blocks: int) -> list[int]:
    """Numbers of the blocks to count, in order: the first, the last and some between, or all where there are few."""
    if blocks <= SAMPLE:
        return list(range(blocks))
    between = np.random.default_rng(blocks).choice(np.arange(1, blocks - 1), SAMPLE - 2, replace=False)
    return [0, *sorted(map(int, between)), blocks - 1]


def count(suite: Suite, variant: Variant, shape: Shape, gpu: Gpu) -> tuple[tuple[Work, ...], Accuracy]:
    """The work of each launch of ``variant`` at ``shape``, and the largest error of the rows that were computed.

    Errors: :class:`~pytest_roofline.errors.WrongAnswerError`, :class:`~pytest_roofline.sim.errors.SimulationError` for
    what the simulator finds, :class:`NotCheckedError` where blocks differ and are too many to count them all.
    """
    device = SimDevice(gpu, sparse_above=SPARSE_ABOVE)
    device.detailed = device.tracing = True
    if sampled := _count_some(device, suite, variant, shape):
        return sampled
    if shape.M * shape.N > FULL_ELEMENTS:
        raise NotCheckedError(
            f"the blocks of {variant.name} differ from each other, and {shape} has too many elements to count all of "
            f"them: {shape.M * shape.N}, {FULL_ELEMENTS} at most"
        )
    job = Job(device, suite, variant, shape)
    job.run()
    device.synchronize()
    launches = device.take_launches()
    accuracy = job.verify()
    works = [
        _work(step, [launch], tuple(launch.touched or ()), math.prod(step.grid))
        for step, launch in zip(job.program.steps, launches, strict=True)
    ]
    return tuple(works), accuracy


def _count_some(
    device: SimDevice, suite: Suite, variant: Variant, shape: Shape
) -> tuple[tuple[Work, ...], Accuracy] | None:
    """None where rows differ, or have no blocks of their own, so that some of them are no whole computation."""
    job = Job(device, suite, variant, shape, rows=INPUT_ROWS)
    if not variant.operator.rowwise or not all(launch.goes_by_rows(shape) for launch in job.variant.launches):
        return None
    sample = sample_of(shape.M)
    groups = [sample[at : at + 2] for at in range(0, SAMPLE, 2)] if len(sample) == SAMPLE else [sample]
    works = []
    for step in job.program.steps:
        for group in groups:
            blocks = step.blocks_of(shape, group)
            device.launch(step.kernel, step.grid, step.block, step.args, step.shared, blocks)
        device.synchronize()
        launches = device.take_launches()
        touched = _every_row(_joined(launches), shape.M, step.launch.cluster)
        if touched is None or any(_figures(one) != _figures(launches[0]) for one in launches):
            return None
        works.append(_work(step, launches, touched, len(sample) * step.launch.cluster))
    return tuple(works), job.verify(np.array(sample))


def _every_row(touched: list[Touch], rows: int, each: int) -> tuple[Touch, ...] | None:
    """What all blocks touch, from those of some rows, each with a cluster of ``each`` blocks; None if not steady.

    Blocks of one rank are at a steady distance from row to row, whatever lies between those of a row.
    """
    found: list[Touch] = []
    for one in touched:
        for rank in range(each):
            here = one.blocks % each == rank
            part = Touch(one.blocks[here] // each, one.first[here], one.end[here], one.write)
            if not len(part.blocks):
                continue
            whole = whole_grid([part], rows)
            if whole is None:
                return None
            found += [Touch(w.blocks * each + rank, w.first, w.end, w.write) for w in whole]
    return tuple(found) if each > 1 else whole_grid(touched, rows)


def _figures(launch: Launch) -> tuple[object, ...]:
    return launch.counts, launch.executed


def _joined(launches: list[Launch]) -> list[Touch]:
    """The accesses of several launches of other blocks as those of one; empty if they are not the same ones."""
    lists = [launch.touched or [] for launch in launches]
    if len({len(one) for one in lists}) > 1:
        return []
    return [
        Touch(
            np.concatenate([one.blocks for one in same]),
            np.concatenate([one.first for one in same]),
            np.concatenate([one.end for one in same]),
            same[0].write,
        )
        for same in zip(*lists, strict=True)
    ]


def _work(step: Step, launches: list[Launch], touched: tuple[Touch, ...], executed: int) -> Work:
    """The counts of ``launches``, of ``executed`` blocks together, scaled to the grid; ``touched`` is of all of it."""
    blocks = math.prod(step.grid)
    buffers: dict[str, Counts] = {}
    lines: dict[tuple[str, str], Counts] = {}
    kinds: Counter[str] = Counter()
    special = 0
    for launch in launches:
        for (index, buffer), counts in launch.counts.items():
            found = ARGUMENT.match(buffer)
            name = step.launch.args[int(found[1])] if found else buffer
            place = launch.program.sites[index].called
            buffers.setdefault(name, Counts()).add(counts)
            lines.setdefault((place, name), Counts()).add(counts)
        more, lanes = issued(launch)
        kinds += more
        special += lanes
    return Work(
        kernel=step.launch.kernel,
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


def union_bytes(touched: Sequence[Touch]) -> int:
    """Distinct bytes between the ends of what all blocks touch."""
    if not touched:
        return 0
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
