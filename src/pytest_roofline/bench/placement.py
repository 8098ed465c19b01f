"""Each sample at another place in memory, so that the luck of one place is not taken for the kernel.

Where arrays lie decides over page translations and cache sets. On an H200 softmax s1 at 32 x 152064 took 77 to 88 us
by the place of its arrays alone, steady within a process and different in the next. Samples over many places put that
spread into the pilot's variance, so the rounds follow from it, and the median is one of the kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..declare.array import SCRATCH
from ..errors import DeviceMemoryError
from ..run.arguments import Program, bind
from ..run.device import POISON
from ..run.gpu.device import CudaDevice
from ..run.plan import PlannedArray
from ..run.run import Run

PAGE = 2**21  # bytes of a large page
SPAN = 2**30  # bytes over which the places are spread, if the GPU has them to spare
UNIT = 512  # bytes to which CUDA's own allocations are aligned at least
PLACES = 128


class Placements:
    """The run's build bound to arrays at ``PLACES`` places of one allocation, in an order fixed by a seed.

    Calling it puts every array's initial contents at the next place, queued and not waited for, and returns what runs
    there. Errors: :class:`DeviceMemoryError` if not even one place fits the GPU.
    """

    def __init__(self, device: CudaDevice, run: Run) -> None:
        self.device, self.run = device, run
        self.initial = {a.name: self._initial(a) for a in run.plan.arrays.values()}
        self.memory, pages = self._allocate()
        drawn = np.random.default_rng(0).integers(0, pages, size=PLACES if pages > 1 else 1)
        self.programs = [self._bind(int(page) * PAGE) for page in drawn]
        self.turn = itertools.cycle(range(len(self.programs)))
        self.last = 0

    def _initial(self, planned: PlannedArray) -> Any:
        """A device array with what ``planned`` holds before a launch; None where it is poisoned, or scratch."""
        if planned.declared.role == SCRATCH:
            return None
        if not planned.declared.written:
            return self.run.arrays[planned.name]  # which no launch has changed
        contents = self.run.initial(planned)
        return None if contents is None else self.device.repeat(contents.tile, planned.shape)

    def _allocate(self) -> tuple[Any, int]:
        needed = sum(-(-planned.nbytes // UNIT) * UNIT for planned in self.run.plan.arrays.values())
        for pages in (SPAN // PAGE, SPAN // PAGE // 16, 1):
            try:
                return self.device.empty((needed + (pages - 1) * PAGE,), "uint8"), pages
            except DeviceMemoryError:
                if pages == 1:
                    raise
        raise AssertionError("unreachable")

    def _bind(self, start: int) -> Program:
        arrays = {}
        for name, planned in self.run.plan.arrays.items():
            arrays[name] = self.memory[start : start + planned.nbytes].view(planned.dtype).reshape(planned.shape)
            start += -(-planned.nbytes // UNIT) * UNIT
        return bind(self.device, self.run.build, arrays, self.run.scalars)

    def __call__(self) -> Callable[[], None]:
        self.last = next(self.turn)
        self._put(self.run.plan.arrays)
        return self.programs[self.last].run

    def restore(self) -> None:
        """Put back what a launch at the place that ran last has changed in place or added to."""
        self._put([a.name for a in self.run.operator.outputs if self.initial[a.name] is not None])

    def _put(self, names: Iterable[str]) -> None:
        arrays, written = self.programs[self.last].arrays, {a.name for a in self.run.operator.outputs}
        for name in names:
            source = self.initial[name]
            if source is not None:
                arrays[name].data.copy_from_device_async(source.data, source.nbytes)
            elif name in written:  # or the last sample could pass with an older one's answer
                self.device.poison(arrays[name], POISON)

    def outputs(self) -> dict[str, Any]:
        """The outputs at the place that ran last."""
        arrays = self.programs[self.last].arrays
        return {a.name: arrays[a.name] for a in self.run.operator.outputs}
