"""The last link of the chain: a build on a device with its arrays. Run it, verify it, time it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..declare.array import INPUT, POISON, Array
from ..declare.values import Contents, independent, indices_of, make_inputs, reference
from ..errors import NotCheckedError, RefusedError, WrongAnswerError
from ..hardware.dtypes import is_floating
from .arguments import Program, bind
from .build import Build
from .compare import Accuracy, compare, element, worst
from .device import POISON as POISON_BYTE
from .device import SIMULATED, Device
from .plan import PlannedArray
from .sample import (
    CHECK_ALL,
    LEAD,
    blocks_of,
    flat_indices,
    gather,
    pick,
    picked_from,
    sample_units,
    units_of,
)

SAMPLE_ABOVE = 2**27  # elements of an array from which a simulated run takes some blocks only
SAMPLE_UNITS = 2**14  # blocks, or clusters of them, from which it does so where it can
COMPARED = 2**27  # elements that a reference may compute with at once
GUARD = 4096  # bytes of poison behind each output that must still be poison after the run
OTHER_POISON = 0x55
PART = 2**24  # elements that are fetched at a time to find one that changed
WRAP = 2**32  # bytes and elements by which an offset in 32 bits goes wrong


class Run:
    """A build on a device, with inputs uploaded and outputs in their initial state.

    ``inputs`` are host arrays by name, by default drawn as declared; ``guard`` is the number of bytes watched behind
    each output, 0 gives each exactly its size. ``items`` limits the different items of inputs (see ``make_inputs``).
    ``units`` are those of the grid that shall run, on a simulated device; by default all, or some of a very large case.
    What is refused is refused before anything is allocated; nothing was launched then.
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
    ) -> None:
        self.device, self.build, self.plan, self.scalars = device, build, build.plan, scalars
        self.operator = self.plan.case.variant.operator
        if inputs is None:
            self.inputs = make_inputs(self.operator, self.plan.shape, items=items)
        else:
            self.inputs = given_inputs(build, inputs)
        self.units = self._units_to_run() if units is None else units
        self.guards: dict[str, Any] = {}
        # Of a sampled run: the number of a launch, a unit, and what was written to each output when it had run.
        self.history: list[tuple[int, int, dict[str, np.ndarray]]] = []
        self.arrays = {a.name: self._allocate(self.plan.arrays[a.name], guard) for a in self.operator.arrays}
        self.fingerprints = {a.name: device.fingerprint(self.arrays[a.name]) for a in self._only_read()}
        self.program: Program = bind(device, build, self.arrays, scalars)

    def _only_read(self) -> tuple[Array, ...]:
        return tuple(a for a in self.operator.arrays if a.role == INPUT)

    def _units_to_run(self) -> list[int] | None:
        """The units to which a simulated run of a large case is limited; None for all of them.

        Errors: :class:`NotCheckedError` for a case that is too large to run in full and can't be sampled.
        """
        if self.device.evidence != SIMULATED:
            return None
        units, large = units_of(self.plan), self.plan.largest > SAMPLE_ABOVE
        if not large and (units or 0) < SAMPLE_UNITS:
            return None
        why = whole_grid(self.build)
        if not why and not independent(self.operator):
            why = f"the reference of {self.operator.name} needs all of its inputs for any value"
        if why and large:
            raise NotCheckedError(f"{self.plan.case} is too large to simulate in full, and {why}")
        return None if why or units is None else sample_units(units)

    def _allocate(self, planned: PlannedArray, guard: int) -> Any:
        declared = planned.declared
        contents = self.initial(planned)
        if contents is not None and (declared.role == INPUT or planned.size > CHECK_ALL or not guard):
            if contents.whole:
                return self.device.upload(contents.full())
            return self.device.repeat(contents.tile, planned.shape)
        spare = guard // planned.dtype.itemsize
        base = self.device.empty((planned.size + spare,), planned.dtype.name)
        array = base[: planned.size].reshape(planned.shape)
        if contents is not None:
            self.device.write(array, contents.full())
        if spare:
            self.guards[planned.name] = base[planned.size :]
        return array

    def initial(self, planned: PlannedArray) -> Contents | None:
        """What the array holds before the run; None for poison."""
        declared = planned.declared
        if declared.read:
            return self.inputs[declared.name]
        if declared.initial == POISON:
            return None
        return Contents(np.full(1, declared.initial).astype(planned.dtype), planned.shape)

    def run(self) -> None:
        """Queue the launches."""
        if self.units is None:
            self.program.run()
            return
        units = units_of(self.plan)
        assert units is not None
        self.history = []
        for number, step in enumerate(self.program.steps):
            for unit in self.units:
                self.program.launch(step, blocks_of(step.planned, unit, units))
                self.history.append((number, unit, self.written()))

    def restore(self, poison: int = POISON_BYTE) -> None:
        """Put outputs back into their initial state, poisoned ones with the byte ``poison``."""
        for array in self.operator.outputs:
            planned = self.plan.arrays[array.name]
            contents = self.initial(planned)
            if contents is None:
                self.device.poison(self.arrays[array.name], poison)
            elif contents.whole:
                self.device.write(self.arrays[array.name], contents.full())
            else:
                self.device.write(self.arrays[array.name], np.resize(contents.tile, planned.size))

    def written(self) -> dict[str, np.ndarray]:
        """By output, the sorted flat indices of what kernels stored to, on a simulated device."""
        found = {}
        for array in self.operator.outputs:
            written = self.device.written(self.arrays[array.name])
            assert written is not None
            found[array.name] = written
        return found

    # The verdict

    def verify(self, outputs: Mapping[str, Any] | None = None) -> Accuracy:
        """Wait for the device and compare the outputs with the reference; the worst comparison of all outputs.

        ``outputs`` are those of another run on the same inputs, by name; this run's own by default.
        Errors: :class:`WrongAnswerError`, also where the kernel wrote past the end of an output or into an input.
        """
        self.device.synchronize()
        try:
            self._refuse_overrun()
            self._refuse_changed_inputs()
            if self.units is not None:
                self._refuse_wrapped()
                return self.verify_written(self.history[-1][2])
            return self._verify(self.arrays if outputs is None else outputs)
        except WrongAnswerError as error:
            raise WrongAnswerError(f"{self.plan.case}: {error}") from None

    def _verify(self, outputs: Mapping[str, Any]) -> Accuracy:
        shape = self.plan.shape
        picked = pick(self.operator, shape)
        if not picked and self.plan.largest > COMPARED:
            return Accuracy(
                0.0, 0.0, 0, f"the reference of {self.operator.name} needs all of its inputs, too many here"
            )
        want = reference(self.operator, shape, self.inputs, self.scalars, picked)
        found = []
        for array in self.operator.outputs:
            planned = self.plan.arrays[array.name]
            flat = flat_indices(planned, indices_of(array, shape, picked))
            got = self._download(outputs[array.name], planned, flat)
            self._refuse_unwritten(array, planned, got, flat, outputs[array.name])
            at = np.stack(np.unravel_index(flat.reshape(-1), planned.shape), axis=-1) if planned.shape else None
            found.append(compare(array, shape, got, want[array.name], at))
        return worst(found)

    def _download(self, array: Any, planned: PlannedArray, flat: np.ndarray) -> np.ndarray:
        """The elements at flat indices, in their shape."""
        if planned.size <= CHECK_ALL:
            whole: np.ndarray = self.device.download(array).reshape(-1)[flat]
            return whole
        order = np.argsort(flat, axis=None, kind="stable")
        values = gather(self.device, array, flat.reshape(-1)[order])
        got = np.empty(flat.size, values.dtype)
        got[order] = values
        found: np.ndarray = got.reshape(flat.shape)
        return found

    def verify_written(self, written: Mapping[str, np.ndarray]) -> Accuracy:
        """Compare exactly the elements which the units that ran have written: sorted flat indices by output."""
        shape = self.plan.shape
        picked = picked_from(self.plan.arrays, written, self.operator)
        size = max(math.prod(map(len, indices_of(a, shape, picked))) for a in self.operator.arrays)
        if size > COMPARED:
            raise NotCheckedError(
                f"{self.plan.case}: to compare what {len(self.history)} blocks wrote takes {size} values"
            )
        want = reference(self.operator, shape, self.inputs, self.scalars, picked)
        found = []
        for array in self.operator.outputs:
            planned, flat = self.plan.arrays[array.name], written[array.name]
            self._refuse_incomplete(array, planned, flat, picked)
            at = np.unravel_index(flat, planned.shape)
            place = tuple(
                np.searchsorted(index, one) for index, one in zip(indices_of(array, shape, picked), at, strict=True)
            )
            got = gather(self.device, self.arrays[array.name], flat)
            found.append(compare(array, shape, got, want[array.name][place], np.stack(at, axis=-1)))
        return worst(found)

    def _refuse_overrun(self) -> None:
        for name, guard in self.guards.items():
            watched = self.device.download(guard).view(np.uint8)
            touched = np.flatnonzero(watched != POISON_BYTE)
            if touched.size:
                raise WrongAnswerError(
                    f"the kernel wrote past the end of {name}, first at byte {touched[0]} behind it, {touched.size} "
                    f"bytes within the {watched.size} that are watched"
                )

    def _refuse_changed_inputs(self) -> None:
        """A kernel that writes its inputs would be right once."""
        for array in self._only_read():
            name = array.name
            if self.device.fingerprint(self.arrays[name]) == self.fingerprints[name]:
                continue
            planned, changed = self.plan.arrays[name], self._first_change(name)
            if changed is not None:
                raise WrongAnswerError(
                    f"the kernel changed its input {name}, first {element(name, index_at(planned, changed))}; where "
                    'that is meant give it role="inout"'
                )

    def _first_change(self, name: str) -> int | None:
        """Flat index of the first element of an input that is not what it was."""
        array, contents = self.arrays[name], self.inputs[name]
        size = math.prod(contents.shape)
        written = self.device.written(array)
        for start in range(0, size, PART):
            flat = np.arange(start, min(size, start + PART))
            flat = flat if written is None else np.intersect1d(flat, written, assume_unique=True)
            now, then = gather(self.device, array, flat), contents.at(flat)
            other = np.flatnonzero((now.view(np.uint8) != then.view(np.uint8)).reshape(len(flat), -1).any(axis=1))
            if other.size:
                return int(flat[other[0]])
        return None

    def _refuse_unwritten(
        self, array: Array, planned: PlannedArray, got: np.ndarray, flat: np.ndarray, output: Any
    ) -> None:
        """Refuse an output that was poisoned and in which elements were never written."""
        if array.role == "inout" or array.initial != POISON or not got.size:
            return
        written = self.device.written(output) if output is self.arrays[array.name] else None
        missing = self._still_poisoned(array, planned, got, flat) if written is None else ~np.isin(flat, written)
        if missing.any():
            first = index_at(planned, int(flat[missing][0]))
            raise WrongAnswerError(
                f"{int(missing.sum())} of {got.size} values of {array.name} were never written, the first is "
                f"{element(array.name, first)}"
            )

    def _still_poisoned(self, array: Array, planned: PlannedArray, got: np.ndarray, flat: np.ndarray) -> np.ndarray:
        """Elements that hold the poison; of types in which it may be an answer, those that hold any poison.

        A NaN that the GPU computes is 0x7fffffff (PTX ISA, "Floating point comparisons"), the poison 0xffffffff. In
        other types a second run on another poison tells.
        """
        missing = _all_bytes(got, POISON_BYTE)
        if not missing.any() or (is_floating(got.dtype) and got.dtype.itemsize > 1):
            return missing
        self.restore(OTHER_POISON)
        self.program.run()
        self.device.synchronize()
        again = self._download(self.arrays[array.name], planned, flat)
        self.restore()
        self.program.run()
        self.device.synchronize()
        still: np.ndarray = missing & _all_bytes(again, OTHER_POISON)
        return still

    def _refuse_incomplete(
        self, array: Array, planned: PlannedArray, flat: np.ndarray, picked: Mapping[str, Any]
    ) -> None:
        """Where each unit has one item of its own, all of the item must be written."""
        if array.role == "inout" or array.initial != POISON:
            return
        if not flat.size:
            raise WrongAnswerError(f"the blocks that ran wrote nothing to {array.name}")
        items = math.prod(self.plan.shape[name] for name in picked)
        if items != units_of(self.plan) or len(picked) != 1:
            return
        wanted = flat_indices(planned, indices_of(array, self.plan.shape, picked)).reshape(-1)
        missing = np.setdiff1d(wanted, flat)
        if missing.size:
            index = index_at(planned, int(missing[0]))
            raise WrongAnswerError(
                f"{missing.size} values of {array.name} that the blocks which ran have to write were never written, "
                f"the first is {element(array.name, index)}"
            )

    def _refuse_wrapped(self) -> None:
        """Refuse an output at which a unit writes 4 GiB, or 2^32 elements, off from where the first units point.

        A kernel that computes an offset in 32 bits reads and writes another item, and does that one right.
        """
        assert self.units is not None
        if len(self.units) <= LEAD or self.units[:LEAD] != list(range(LEAD)):
            return
        for array in self.operator.outputs:
            first = self._first_written(array.name)
            step = first[1] - first[0]
            if first[2] - first[1] != step:
                continue
            for unit, at in first.items():
                off = at - (first[0] + unit * step)
                if off and (off % WRAP == 0 or off * self.plan.arrays[array.name].dtype.itemsize % WRAP == 0):
                    raise WrongAnswerError(
                        f"unit {unit} of the grid writes {array.name} at element {at}, {abs(off)} off from where the "
                        "first ones point: its offset is computed in 32 bits"
                    )

    def _first_written(self, name: str) -> dict[int, int]:
        """By unit, the first element of an output that it wrote and no other unit had, in the launch that writes it."""
        before, found, writer = np.zeros(0, np.int64), {}, -1
        for number, unit, written in self.history:
            new = np.setdiff1d(written[name], before, assume_unique=True)
            before, writer = written[name], number if new.size and writer < 0 else writer
            if number == writer:
                if not new.size:
                    raise WrongAnswerError(
                        f"unit {unit} of the grid wrote nothing to {name} that others had not written; is an offset "
                        "computed in 32 bits?"
                    )
                found[unit] = int(new[0])
        return found


def index_at(planned: PlannedArray, flat: int) -> np.ndarray:
    """The index in an array's own dims of an element counted in C order."""
    return np.array(np.unravel_index(flat, planned.shape) if planned.shape else (), np.int64)


def _all_bytes(values: np.ndarray, byte: int) -> np.ndarray:
    raw = np.ascontiguousarray(values).reshape(*values.shape, 1).view(np.uint8)
    found: np.ndarray = (raw == byte).all(axis=-1)
    return found


def given_inputs(build: Build, inputs: Mapping[str, np.ndarray]) -> dict[str, Contents]:
    """Host inputs as contents; those of wrong names, shapes or dtypes are refused before anything is allocated."""
    operator, plan = build.plan.case.variant.operator, build.plan
    names = [a.name for a in operator.inputs]
    if {*inputs} != {*names}:
        raise RefusedError(f"{operator.name} takes {', '.join(names)}; given: {', '.join(inputs) or 'none'}")
    found = {}
    for name in names:
        host, planned = inputs[name], plan.arrays[name]
        if not isinstance(host, np.ndarray):
            raise RefusedError(f"{name} is a {type(host).__name__}, allowed is a numpy.ndarray; nothing was launched")
        if host.shape != planned.shape or host.dtype != planned.dtype:
            raise RefusedError(
                f"{name} is {host.dtype} of {host.shape}, allowed is {planned.dtype} of {planned.shape} at "
                f"{plan.shape}; nothing was launched"
            )
        found[name] = Contents.of(host)
    return found


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
