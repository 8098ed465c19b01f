"""A build on a device with its arrays: inputs uploaded, outputs in their initial state, and how to put them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..declare.array import INPUT, POISON, Array
from ..declare.values import Contents, Picked, make_inputs
from ..errors import RefusedError
from .arguments import Program, bind
from .build import Build
from .device import POISON as POISON_BYTE
from .device import Device
from .plan import PlannedArray
from .sample import CHECK_ALL

GUARD = 4096  # bytes of poison behind each output that must still be poison after the run


class Held:
    """See the module.

    ``inputs`` are host arrays by name, by default drawn as declared; ``guard`` is the number of bytes watched behind
    each output, 0 gives each exactly its size. ``items`` limits the different items of inputs (see ``make_inputs``).
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
    ) -> None:
        self.device, self.build, self.plan, self.scalars = device, build, build.plan, scalars
        self.operator = self.plan.case.variant.operator
        self.drawn = inputs is None  # as declared
        if inputs is None:
            self.inputs = make_inputs(self.operator, self.plan.shape, items=items)
        else:
            self.inputs = given_inputs(build, inputs)
        self.guards: dict[str, Any] = {}
        self.picked: Picked = {}  # by extent, the indices that the verdict looked at; empty for all of them
        self.arrays = {a.name: self._allocate(self.plan.arrays[a.name], guard) for a in self.operator.arrays}
        self.fingerprints = {a.name: device.fingerprint(self.arrays[a.name]) for a in self.only_read()}
        self.program: Program = bind(device, build, self.arrays, scalars)

    def only_read(self) -> tuple[Array, ...]:
        """The arrays that no kernel may change."""
        return tuple(a for a in self.operator.arrays if a.role == INPUT)

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
