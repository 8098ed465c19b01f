"""What each launch of a build does, counted in the simulator: on a few blocks where all are alike, else on all of them.

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

from ..declare.values import independent
from ..errors import NotCheckedError
from ..run.arguments import Step
from ..run.build import Build
from ..run.compare import Accuracy
from ..run.run import Run, whole_grid
from ..run.sample import blocks_of, units_of
from ..sim.device import SimDevice
from ..sim.machine.execute import Launch
from ..sim.observe.findings import ERROR, STEPS, UNINITIALISED
from ..sim.observe.traffic import SECTOR, SHARED, Counts, Touch, issued
from .l2 import whole_grid as whole_grid_touches

SPARSE_ABOVE = 2**20  # bytes: only what the counted blocks touch is kept
DENSE = 1.1  # times the sectors that are moved may lie between the ends of what a block touches in one access
SAMPLE = 8  # blocks
FULL_ELEMENTS = 2**22  # of a shape that is counted in full, where blocks differ
ITEMS = 17  # different items of the inputs, repeated; no divisor of the usual numbers of them
SAMPLE_STEPS = 20_000  # blocks of code that a few units may run before they are taken to wait for others
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


def count(build: Build) -> tuple[tuple[Work, ...], Accuracy]:
    """The work of each launch of ``build``, and the largest error of what was computed for it.

    Errors: :class:`~pytest_roofline.errors.WrongAnswerError`, :class:`~pytest_roofline.sim.errors.SimulationError` for
    what the simulator finds, :class:`NotCheckedError` where blocks differ and are too many to count them all.
    """
    units, plan = units_of(build.plan), build.plan
    device = SimDevice(plan.gpu, sparse_above=SPARSE_ABOVE)
    device.detailed = device.tracing = True
    why = "its launches have grids that do not divide each other"
    if units is not None:
        found = _count_some(device, build, units)
        if not isinstance(found, str):
            return found
        why = found
    if plan.largest > FULL_ELEMENTS:
        raise NotCheckedError(
            f"{plan.case} can't be counted: {why}, and it has too many elements to run all blocks: {plan.largest}, "
            f"{FULL_ELEMENTS} at most"
        )
    return _count_all(build)


def _count_all(build: Build) -> tuple[tuple[Work, ...], Accuracy]:
    device = SimDevice(build.plan.gpu, sparse_above=SPARSE_ABOVE)
    device.detailed = device.tracing = True
    run = Run(device, build)
    run.run()
    device.synchronize()
    launches = device.take_launches()
    accuracy = run.verify()
    works = [
        _work(step, [launch], tuple(launch.touched or ()), math.prod(step.grid))
        for step, launch in zip(run.program.steps, launches, strict=True)
    ]
    return tuple(works), accuracy


def _count_some(device: SimDevice, build: Build, units: int) -> tuple[tuple[Work, ...], Accuracy] | str:
    """The work of some units scaled to all; or why they can't stand for all."""
    sample = sample_of(units)
    if len(sample) < units:
        device.steps_limit = SAMPLE_STEPS
    run = Run(device, build, items=ITEMS, units=sample)
    groups = [sample[at : at + 2] for at in range(0, SAMPLE, 2)] if len(sample) == SAMPLE else [sample]
    works = []
    for step in run.program.steps:
        for group in groups:
            blocks = [block for unit in group for block in blocks_of(step.planned, unit, units)]
            run.program.launch(step, blocks)
        if why := _needs_others(device, len(sample) < units):
            return why
        launches = device.take_launches()
        each = step.planned.blocks // units
        touched = _every_unit(_joined(launches), units, each)
        if touched is None or any(_figures(one) != _figures(launches[0]) for one in launches):
            return f"blocks of {step.planned.kernel} do different work"
        works.append(_work(step, launches, touched, len(sample) * each))
    if len(sample) == units:
        run.units = None  # all of them ran: it is verified as a whole
        return tuple(works), run.verify()
    if why := whole_grid(build) or (
        "" if independent(run.operator) else "the reference needs all inputs for any value"
    ):
        return tuple(works), Accuracy(0.0, 0.0, 0, why)
    return tuple(works), run.verify_written(run.written())


def _needs_others(device: SimDevice, sampled: bool) -> str:
    """What the units that ran would have needed of those that did not; findings of another kind are errors."""
    errors = [finding for finding in device.findings.all() if finding.severity == ERROR]
    kinds = {finding.kind for finding in errors}
    if sampled and kinds == {STEPS}:
        return f"{errors[0].kernel} waits for blocks that were left out"
    if sampled and kinds == {UNINITIALISED}:
        return f"{errors[0].kernel} reads what blocks that were left out write"
    device.synchronize()
    return ""


def _every_unit(touched: list[Touch], units: int, each: int) -> tuple[Touch, ...] | None:
    """What all blocks touch, from those of some units, each with ``each`` blocks; None if not steady.

    Blocks of one rank are at a steady distance from unit to unit, whatever lies between those of a unit.
    """
    found: list[Touch] = []
    for one in touched:
        for rank in range(each):
            here = one.blocks % each == rank
            part = Touch(one.blocks[here] // each, one.first[here], one.end[here], one.write)
            if not len(part.blocks):
                continue
            whole = whole_grid_touches([part], units)
            if whole is None:
                return None
            found += [Touch(w.blocks * each + rank, w.first, w.end, w.write) for w in whole]
    return tuple(found) if each > 1 else whole_grid_touches(touched, units)


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
