"""The last link of the chain: a build on a device with its arrays. Run it, verify it, time it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..declare.values import independent
from ..errors import NotCheckedError, WrongAnswerError
from .arguments import Step
from .build import Build
from .compare import Accuracy
from .device import SIMULATED, Device
from .held import GUARD, Held
from .sample import LEAD, blocks_of, sample_units, units_of
from .verdict import refuse_changed_inputs, refuse_overrun, verify_all, verify_written

SAMPLE_ABOVE = 2**27  # elements of an array from which a simulated run takes some blocks only
SAMPLE_BLOCKS = 2**22  # and blocks of a grid, likewise
SAMPLE_UNITS = 2**14  # blocks, or clusters of them, from which it does so where it can
WRAP = 2**32  # bytes and elements by which an offset in 32 bits goes wrong


class Run(Held):
    """A build on a device, with inputs uploaded and outputs in their initial state.

    ``units`` are those of the grid that shall run, on a simulated device; by default all, or some of a large case
    unless it is to be run ``whole``.
    The other parameters are those of :class:`~pytest_roofline.run.held.Held`.
    """

    def __init__(
        self,
        device: Device,
        build: Build,
        inputs: Mapping[str, np.ndarray] | None = None,
        scalars: Mapping[str, float] | None = None,
        guard: int = GUARD,
        items: int | None = None,
        units: list[int] | None = None,
        whole: bool = False,
    ) -> None:
        self._given = inputs
        self.units = units if whole or units is not None else units_to_run(device, build)
        # Of a sampled run: the number of a launch, a unit, and what was written to each output when it had run.
        self.history: list[tuple[int, int, dict[str, np.ndarray]]] = []
        super().__init__(device, build, inputs, scalars, guard, items)

    def run(self) -> None:
        """Queue the launches."""
        if self.units is None:
            self.program.run()
            return
        self.history = []
        for number, step in enumerate(self.program.steps):
            for unit in self.units:
                self.launch(step, [unit])
                self.history.append((number, unit, self.written()))

    def launch(self, step: Step, units: Sequence[int]) -> None:
        """Queue one launch of these units of the grid, on a simulated device."""
        of = units_of(self.plan)
        assert of is not None
        self.program.launch(step, [block for unit in units for block in blocks_of(step.planned, unit, of)])

    def verify(self, outputs: Mapping[str, Any] | None = None) -> Accuracy:
        """Wait for the device and compare the outputs with the reference; the worst comparison of all outputs.

        ``outputs`` are those of another run on the same inputs, by name; this run's own by default.
        Errors: :class:`WrongAnswerError`, also where the kernel wrote past the end of an output or into an input.
        """
        self.device.synchronize()
        try:
            refuse_overrun(self)
            refuse_changed_inputs(self)
            if self.units is not None:
                self._refuse_wrapped()
                return verify_written(self, self.written())
            return verify_all(self, self.arrays if outputs is None else outputs)
        except WrongAnswerError as error:
            raise WrongAnswerError(f"{self.plan.case}: {error}") from None

    def _refuse_wrapped(self) -> None:
        """Refuse an output at which a unit writes 4 GiB, or 2^32 elements, off from where the first units point.

        A kernel that computes an offset in 32 bits reads and writes another item, and does that one right.
        """
        if not self.history or self.units is None or self.units[:LEAD] != list(range(LEAD)) or len(self.units) <= LEAD:
            return
        for array in self.operator.outputs:
            first = self._first_written(array.name)
            step = first.get(1, 0) - first.get(0, 0)
            if not {*range(LEAD)} <= {*first} or first[2] - first[1] != step:
                continue
            for unit, at in first.items():
                off = at - (first[0] + unit * step)
                if off and (off % WRAP == 0 or off * self.plan.arrays[array.name].dtype.itemsize % WRAP == 0):
                    raise WrongAnswerError(
                        f"unit {unit} of the grid writes {array.name} at element {at}, {abs(off)} off from where the "
                        "first ones point: its offset is computed in 32 bits"
                    )

    def _first_written(self, name: str) -> dict[int, int]:
        """By unit, the first element of an output that it wrote and no other unit had, in the launch that writes it.

        A unit that writes nothing at all, at the end of a grid that is larger than it need be, is not among them.
        """
        before, found, writer = np.zeros(0, np.int64), {}, -1
        for number, unit, written in self.history:
            new = np.setdiff1d(written[name], before, assume_unique=True)
            before, writer = written[name], number if new.size and writer < 0 else writer
            if number == writer:
                if new.size:
                    found[unit] = int(new[0])
                elif self._writes(unit, name):
                    raise WrongAnswerError(
                        f"unit {unit} of the grid wrote nothing to {name} that others had not written; is an offset "
                        "computed in 32 bits?"
                    )
        return found

    def _writes(self, unit: int, name: str) -> bool:
        """Whether a unit that runs alone, on arrays of its own, writes to an output."""
        alone = Run(self.device, self.build, self._given, self.scalars, units=[unit])
        alone.run()
        return alone.written()[name].size > 0


def units_to_run(device: Device, build: Build) -> list[int] | None:
    """The units to which a simulated run of a large case is limited; None for all of them.

    Errors: :class:`NotCheckedError` for a case that is too large to run in full and can't be sampled.
    """
    plan, operator = build.plan, build.plan.case.variant.operator
    if device.evidence != SIMULATED:
        return None
    units, blocks = units_of(plan), max(launch.blocks for launch in plan.launches)
    large = plan.largest > SAMPLE_ABOVE or blocks > SAMPLE_BLOCKS
    if not large and (units or 0) < SAMPLE_UNITS:
        return None
    why = whole_grid(build)
    if not why and not independent(operator):
        why = f"the reference of {operator.name} needs all of its inputs for any value"
    if why and large:
        raise NotCheckedError(f"{plan.case} is too large to simulate in full, and {why}")
    return None if why or units is None else sample_units(units)


def whole_grid(build: Build) -> str:
    """Why none of the blocks can be left out; empty where some can."""
    if units_of(build.plan) is None:
        return "its launches have grids that do not divide each other: which blocks belong together is not known"
    for launch in build.launches:
        for name in launch.image.atomics(launch.planned.kernel):
            array = launch.planned.args[name] if isinstance(name, int) else name
            return f"{launch.planned.kernel} works on {array} by atomics: every block has a part in the answer"
    return ""


def check(
    device: Device,
    build: Build,
    inputs: Mapping[str, np.ndarray] | None = None,
    scalars: Mapping[str, float] | None = None,
) -> Accuracy:
    """Run ``build`` once and compare with the reference; :class:`WrongAnswerError` or the errors found."""
    run = Run(device, build, inputs, scalars)
    run.run()
    return run.verify()
