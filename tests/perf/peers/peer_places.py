"""The arrays that all contenders work on, at several places in memory, as CuPy arrays and as torch tensors.

Where arrays lie can change a time by several percent (see pytest_roofline.bench.placement). So the inputs lie in memory
several times over, and sample i of every contender uses place i. A contender that allocates its outputs gets them from
torch's caching allocator: blocks held meanwhile push them to other places too, in the same turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_roofline.run.device import POISON
from pytest_roofline.run.gpu.device import CudaDevice
from pytest_roofline.run.run import Run

PAGE = 2**21  # bytes of a large page
UNIT = 512  # bytes to which CUDA's own allocations are aligned at least
SPREAD = 2**34  # bytes that all places take together, if they are many
FEWEST, MOST = 4, 32
SHIFTS = 4  # places of outputs that torch allocates


@dataclass(frozen=True)
class Place:
    """Inputs and outputs at one place. ``copied`` are source, target and bytes of a copy of the rows."""

    index: int
    arrays: dict[str, Any]
    tensors: dict[str, Any]
    copied: tuple[Any, Any, int]


class Places:
    """The inputs of ``run`` at several places, with poisoned outputs beside them."""

    def __init__(self, device: CudaDevice, run: Run) -> None:
        import torch

        self.torch, self.run = torch, run
        inputs, outputs = ([a.name for a in arrays] for arrays in (run.operator.inputs, run.operator.outputs))
        self.rows = [name for name in inputs if len(run.arrays[name].shape) > 1]
        # Arrays of rows first, so that one copy reads all inputs of that kind and writes as much.
        self.order = [*self.rows, *outputs, *(name for name in inputs if name not in self.rows)]
        self.outputs = outputs
        self.sources = dict(run.arrays)
        needed = sum(self._room(name) for name in self.order)
        self.stride = -(-needed // PAGE) * PAGE + PAGE
        count = min(MOST, max(FEWEST, SPREAD // self.stride))
        self.memory = device.empty((count * self.stride,), "uint8")
        self.bytes = torch.from_dlpack(self.memory)
        jitter = np.random.default_rng(0).permutation(count)  # the order in which they are visited
        self.places = [self._place(index, int(at) * self.stride) for index, at in enumerate(jitter)]
        self.held: list[Any] = []

    def _room(self, name: str) -> int:
        return int(-(-self.sources[name].nbytes // UNIT) * UNIT)

    def _place(self, index: int, start: int) -> Place:
        arrays, tensors = {}, {}
        at = start
        for name in self.order:
            source = self.sources[name]
            arrays[name] = self.memory[at : at + source.nbytes].view(source.dtype).reshape(source.shape)
            kind = getattr(self.torch, source.dtype.name)  # bfloat16 too, which DLPack does not bring along everywhere
            view = self.bytes[at : at + source.nbytes].view(kind).view(source.shape)
            tensors[name] = self.torch.from_dlpack(view)  # the same memory, and to torch no view of anything
            if name not in self.outputs:
                arrays[name].data.copy_from_device_async(source.data, source.nbytes)
            at += self._room(name)
        moved = sum(self._room(name) for name in self.rows)
        source, target = self.memory[start : start + moved], self.memory[start + moved : start + 2 * moved]
        return Place(index, arrays, tensors, (source, target, moved))

    def poison(self, place: Place) -> None:
        """Fill the place's outputs, or the last sample could pass with another contender's answer."""
        for name in self.outputs:
            place.arrays[name].data.memset_async(POISON, place.arrays[name].nbytes)

    def poison_next(self, place: Place) -> None:
        """The same for outputs that torch will allocate: its next blocks are poisoned, and others by each place."""
        self.held = []
        sizes = [place.arrays[name].nbytes for name in self.outputs]
        made = [self._block(size) for _ in range(place.index % SHIFTS) for size in sizes]
        for block in [self._block(size) for size in sizes]:
            block.fill_(POISON)
        self.held = made

    def _block(self, nbytes: int) -> Any:
        return self.torch.empty(nbytes, dtype=self.torch.uint8, device=self.bytes.device)

    def as_cupy(self, cupy: Any, outputs: Any) -> dict[str, Any]:
        """A contender's outputs, CuPy's or torch's, as CuPy arrays of the dtype and shape that are due.

        Errors: ValueError where a tensor has another dtype or shape.
        """
        found = {}
        for name in self.outputs:
            one, due = outputs[name], self.sources[name]
            if isinstance(one, self.torch.Tensor):
                if one.dtype != getattr(self.torch, due.dtype.name) or tuple(one.shape) != tuple(due.shape):
                    raise ValueError(f"{name} came out as {one.dtype} of {tuple(one.shape)}")
                flat = one.contiguous().view(-1).view(self.torch.uint8)
                one = cupy.from_dlpack(flat).view(due.dtype).reshape(due.shape)
            found[name] = one
        return found

    def release(self) -> None:
        """Give all of it back, torch's cached blocks too."""
        self.places, self.held, self.sources = [], [], {}
        del self.run, self.bytes, self.memory
        self.torch.cuda.empty_cache()
