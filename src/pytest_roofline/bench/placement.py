"""Each sample at another place in memory, so that the luck of one place is not taken for the kernel.

Where arrays lie decides over page translations and cache sets. On an H200 softmax s1 at 32 x 152064 took 77 to 88 us
by the place of its arrays alone, steady within a process and different in the next. Samples over many places put that
spread into the pilot's variance, so the rounds follow from it, and the median is one of the kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DeviceMemoryError
from ..hardware.dtypes import dtype_of
from ..run.arguments import Program, bind
from ..run.check import Job
from ..run.device import POISON
from ..run.gpu.device import CudaDevice

PAGE = 2**21  # bytes of a large page
SPAN = 2**30  # bytes over which the places are spread, if the gpu has them to spare
UNIT = 512  # bytes to which CUDA's own allocations are aligned at least
PLACES = 128


class Placements:
    """The job's variant bound to arrays at ``PLACES`` places of one allocation, in an order fixed by a seed.

    Calling it copies the inputs to the next place, queued and not waited for, and returns what runs there.
    Errors: :class:`DeviceMemoryError` if not even one place fits the gpu.
    """

    def __init__(self, device: CudaDevice, job: Job) -> None:
        self.device, self.job = device, job
        self.memory, pages = self._allocate()
        drawn = np.random.default_rng(0).integers(0, pages, size=PLACES if pages > 1 else 1)
        self.programs = [self._bind(int(page) * PAGE) for page in drawn]
        self.turn = itertools.cycle(range(len(self.programs)))
        self.last = 0

    def _extents(self) -> list[tuple[str, str, tuple[int, ...], int]]:
        """Name, dtype, shape and bytes of each array, in the order in which they lie."""
        shape, arrays = self.job.shape, self.job.variant.arrays
        return [(a.name, a.dtype, a.shape(shape), a.nbytes(shape)) for a in arrays.values()]

    def _allocate(self) -> tuple[Any, int]:
        needed = sum(-(-nbytes // UNIT) * UNIT for *_, nbytes in self._extents())
        for pages in (SPAN // PAGE, SPAN // PAGE // 16, 1):
            try:
                return self.device.empty((needed + (pages - 1) * PAGE,), "uint8"), pages
            except DeviceMemoryError:
                if pages == 1:
                    raise
        raise AssertionError("unreachable")

    def _bind(self, start: int) -> Program:
        arrays = {}
        for name, dtype, shape, nbytes in self._extents():
            arrays[name] = self.memory[start : start + nbytes].view(dtype_of(dtype)).reshape(shape)
            start += -(-nbytes // UNIT) * UNIT
        job = self.job
        return bind(self.device, job.variant, job.shape, arrays, job.program.images, job.scalars)

    def __call__(self) -> Callable[[], None]:
        self.last = next(self.turn)
        program = self.programs[self.last]
        for name, source in self.job.arrays.items():
            program.arrays[name].data.copy_from_device_async(source.data, source.nbytes)
        for output in self.outputs().values():
            output.data.memset_async(POISON, output.nbytes)  # or the last sample could pass with an older one's answer
        return program.run

    def outputs(self) -> dict[str, Any]:
        """The outputs at the place that ran last."""
        arrays = self.programs[self.last].arrays
        return {a.name: arrays[a.name] for a in self.job.variant.operator.outputs}
