"""Arrays of the simulated device: shape, strides and dtype over an allocation, sliced and reshaped as NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import RefusedError
from ..isa.floats import Array
from .memory import KERNEL, Allocation, all_bytes


class SimArray:
    """A view of an allocation. ``layout`` is a NumPy array of its shape that points at nothing: it only computes."""

    def __init__(self, allocation: Allocation, layout: np.ndarray[Any, Any], offset: int, owner: object) -> None:
        self.allocation, self.layout, self.offset = allocation, layout, offset
        self.owner = owner  # keeps the allocation alive

    @classmethod
    def over(cls, allocation: Allocation, shape: tuple[int, ...], dtype: Any, owner: object) -> SimArray:
        """All of ``allocation`` as a C-contiguous array."""
        dtype = np.dtype(dtype)
        strides = tuple(dtype.itemsize * math.prod(shape[n + 1 :]) for n in range(len(shape)))
        nothing = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
        return cls(allocation, nothing, 0, owner)

    def _moved(self, layout: np.ndarray[Any, Any]) -> SimArray:
        step = layout.__array_interface__["data"][0] - self.layout.__array_interface__["data"][0]
        return SimArray(self.allocation, layout, self.offset + step, self.owner)

    @property
    def pointer(self) -> int:
        return self.allocation.base + self.offset

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.layout.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.layout.strides

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def contiguous(self) -> bool:
        return bool(self.layout.flags.c_contiguous)

    def __len__(self) -> int:
        return len(self.layout)

    def __getitem__(self, index: Any) -> SimArray:
        given = index if isinstance(index, tuple) else (index,)
        if not all(one is None or one is ... or isinstance(one, int | np.integer | slice) for one in given):
            raise RefusedError(f"an index {index!r} of a device's array would be a copy: whole numbers and slices only")
        whole = any(one is ... for one in given)
        return self._moved(self.layout[given if whole else (*given, ...)])  # with "..." NumPy gives no scalar

    def reshape(self, *shape: Any) -> SimArray:
        if not self.contiguous:
            raise RefusedError(f"{self.shape} with strides {self.strides} in another shape would be a copy")
        return self._moved(self.layout.reshape(*shape))

    def view(self, dtype: Any) -> SimArray:
        return self._moved(self.layout.view(dtype))

    def get(self) -> np.ndarray[Any, Any]:
        """The values, copied to the host."""
        if not self.size:
            return np.empty(self.shape, self.dtype)
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.dtype.itemsize
        raw = np.ascontiguousarray(self.allocation.bytes(self.offset, last))
        found = np.lib.stride_tricks.as_strided(raw[: self.dtype.itemsize].view(self.dtype), self.shape, self.strides)
        return np.array(found)

    def stored(self) -> Array:
        """Sorted flat indices, in C order, of the elements to any byte of which kernels stored."""
        if not self.size or not self.allocation.stored:
            return np.zeros(0, np.int64)
        size = self.dtype.itemsize
        if self.allocation.sparse:
            if not self.contiguous or size not in (1, 2, 4, 8) or self.offset % size:
                return self._elements_at(self.allocation.stored_granules(1) - self.offset)
            found = self.allocation.stored_granules(size) - self.offset // size
            return found[(found >= 0) & (found < self.size)]
        if self.contiguous and size in (1, 2, 4, 8):
            flags = self.allocation.init[self.offset : self.offset + self.nbytes].view(f"u{size}")
            return np.flatnonzero(flags & all_bytes(KERNEL, f"u{size}"))
        first = self.allocation.init[self.offset :][:1]
        of_bytes = np.lib.stride_tricks.as_strided(first, (*self.shape, size), (*self.strides, 1))
        return np.flatnonzero((of_bytes & KERNEL).any(axis=-1))

    def _elements_at(self, offsets: Array) -> Array:
        """The elements that hold the bytes at ``offsets`` from the first element, sorted and each once."""
        inside = np.ones(offsets.shape, bool)
        left, flat = offsets, np.zeros(offsets.shape, np.int64)
        dims = [d for d in range(len(self.shape)) if self.shape[d] > 1]
        # Strides of a view are nested: taken from the widest, each leaves what the next divides. Downwards counts back.
        left = left - sum((self.shape[d] - 1) * self.strides[d] for d in dims if self.strides[d] < 0)
        for d in sorted(dims, key=lambda d: -abs(self.strides[d])):
            index, left = np.divmod(left, abs(self.strides[d]))
            inside &= (index >= 0) & (index < self.shape[d])
            index = index if self.strides[d] > 0 else self.shape[d] - 1 - index
            flat += index * math.prod(self.shape[d + 1 :])
        inside &= (left >= 0) & (left < self.dtype.itemsize)
        found = np.sort(flat[inside], kind="stable")  # in order as a rule; np.unique would hash them
        return found[np.diff(found, prepend=-1) != 0]
