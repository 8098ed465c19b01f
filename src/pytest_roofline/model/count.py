"""Counts what each launch of a build does, in the simulator: on a few blocks where all are alike, else on all of them.

A grid is taken for uniform if pairs of its units (the first, the last and some drawn from all, always the same ones)
execute the same instructions the same number of times; then their counts are scaled to the grid. A unit is a block, a
cluster, or the blocks of a launch that belong to one block of the smallest grid. A last unit that differs from all
others, as where the number of elements is no multiple of a block's, is counted for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from ..declare.values import Picked, independent
from ..errors import NotCheckedError
from ..run.arguments import Step
from ..run.build import Build
from ..run.compare import Accuracy
from ..run.run import Run, whole_grid
from ..run.sample import units_of
from ..sim.device import SimDevice
from ..sim.machine.launch import Launch
from ..sim.observe.findings import ERROR, STEPS, UNINITIALISED
from .grid import every_block, joined, with_tail
from .work import SAMPLE, Work, added, sample_of, work_of

SPARSE_ABOVE = 2**20  # bytes: only what the counted blocks touch is kept
FULL_ELEMENTS = 2**22  # of a shape that is counted in full, where blocks differ
FULL_BLOCKS = 2**20  # of a grid likewise
ITEMS = 17  # different items of the inputs, repeated; no divisor of the usual numbers of them
SAMPLE_STEPS = 100_000  # blocks of code that a few units may run: some seconds


@dataclass(frozen=True)
class Counted:
    """The work of each launch, and the errors of what was computed for it.

    ``items`` is how many different ones the inputs had (see ``make_inputs``); ``picked`` are the indices, by extent, at
    which the answer was compared, all of an extent that is not named.
    """

    works: tuple[Work, ...]
    accuracy: Accuracy
    items: int | None
    picked: Picked


class UnlikeError(Exception):
    """Why some units can't stand for all; ``tail``: it may be the last one alone that differs."""

    def __init__(self, why: str, tail: bool = False) -> None:
        super().__init__(why)
        self.tail = tail


def count(build: Build) -> Counted:
    """The work of each launch of ``build``, and the largest error of what was computed for it.

    Errors: :class:`~pytest_roofline.errors.WrongAnswerError`, :class:`~pytest_roofline.sim.errors.SimulationError` for
    what the simulator finds, :class:`NotCheckedError` where blocks differ and are too many to count them all.
    """
    units, plan = units_of(build.plan), build.plan
    why = "its launches have grids that do not divide each other"
    if units is not None:
        try:
            try:
                return _count_some(build, units)
            except UnlikeError as unlike:
                if not unlike.tail:
                    raise
            return _count_some(build, units, tail=True)
        except UnlikeError as unlike:
            why = str(unlike)
    for size, most, what in (
        (plan.largest, FULL_ELEMENTS, "elements"),
        (max(launch.blocks for launch in plan.launches), FULL_BLOCKS, "blocks"),
    ):
        if size > most:
            raise NotCheckedError(
                f"{plan.case} can't be counted: {why}, and it has too many {what} to run all blocks: {size}, {most} at "
                "most"
            )
    return _count_all(build)


def counting_device(build: Build) -> SimDevice:
    """A simulated device that notes sectors, bank conflicts and what each block touches."""
    device = SimDevice(build.plan.gpu, sparse_above=SPARSE_ABOVE)
    device.detailed = device.tracing = True
    return device


def _count_all(build: Build) -> Counted:
    device = counting_device(build)
    run = Run(device, build, whole=True)
    run.run()
    device.synchronize()
    launches = device.take_launches()
    accuracy = run.verify()
    works = [
        work_of(step, [launch], tuple(launch.touched or ()), step.planned.blocks, step.planned.blocks)
        for step, launch in zip(run.program.steps, launches, strict=True)
    ]
    return Counted(tuple(works), accuracy, None, run.picked)


def _count_some(build: Build, units: int, tail: bool = False) -> Counted:
    """The work of some units scaled to all; ``tail``: the last one is counted for itself.

    Errors: :class:`UnlikeError` where they can't stand for all.
    """
    device, sample = counting_device(build), sample_of(units)
    sampled = len(sample) < units
    if tail:
        sample = [*sample[: SAMPLE - 2], units - 1]
    if sampled:
        device.steps_limit = SAMPLE_STEPS
    run = Run(device, build, items=ITEMS, units=sample)
    works = tuple(_work_of_some(run, device, step, units, tail) for step in run.program.steps)
    if not sampled:
        run.units = None  # all of them ran: it is verified as a whole
    elif why := unchecked(build):
        return Counted(works, Accuracy(0.0, 0.0, 0, why), ITEMS, {})
    accuracy = run.verify()
    return Counted(works, accuracy, ITEMS, run.picked)


def unchecked(build: Build) -> str:
    """Why the answer of some units can't be checked without the others; empty where it can."""
    if why := whole_grid(build):
        return why
    return "" if independent(build.plan.case.variant.operator) else "the reference needs all inputs for any value"


def _work_of_some(run: Run, device: SimDevice, step: Step, units: int, tail: bool) -> Work:
    assert run.units is not None
    sample = run.units[:-1] if tail else run.units
    groups = [sample[at : at + 2] for at in range(0, len(sample), 2)] if len(run.units) >= SAMPLE - 1 else [sample]
    launches = [_launched(run, device, step, group, units) for group in groups]
    planned = step.planned
    each = planned.blocks // units
    if unlike := [number for number, one in enumerate(launches) if _figures(one) != _figures(launches[0])]:
        raise UnlikeError(f"blocks of {planned.kernel} do different work", unlike == [len(groups) - 1] and not tail)
    same = joined([one.touched or [] for one in launches])
    touched = None if same is None else every_block(same, planned.grid, units)
    if not tail:
        return work_of(step, launches, touched, len(sample) * each, planned.blocks)
    last = _launched(run, device, step, run.units[-1:], units)
    if touched is not None:
        touched = with_tail(touched, last.touched or [], planned.blocks - each)
    body = work_of(step, launches, touched, len(sample) * each, planned.blocks - each)
    return added(body, work_of(step, [last], touched, each, each))


def _launched(run: Run, device: SimDevice, step: Step, group: Sequence[int], units: int) -> Launch:
    run.launch(step, group)
    assert run.units is not None
    _refuse_waiting(device, len(run.units) < units)
    (launch,) = device.take_launches()
    return launch


def _refuse_waiting(device: SimDevice, sampled: bool) -> None:
    """Raise :class:`UnlikeError` for what the units that ran needed of others; findings of another kind are errors."""
    errors = [finding for finding in device.findings.all() if finding.severity == ERROR]
    kinds = {finding.kind for finding in errors}
    if sampled and kinds == {STEPS}:
        raise UnlikeError(
            f"{errors[0].kernel} waits for blocks that were left out, or is not done after {SAMPLE_STEPS} steps"
        )
    if sampled and kinds == {UNINITIALISED}:
        raise UnlikeError(f"{errors[0].kernel} reads what blocks that were left out write")
    device.synchronize()


def _figures(launch: Launch) -> tuple[object, ...]:
    return {key: astuple(one) for key, one in launch.counts.items()}, launch.executed
