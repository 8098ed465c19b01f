"""Arrays of the simulated device: shape, strides and dtype over an allocation, sliced and reshaped as NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .memory import Allocation


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
        found = self.layout[index] if isinstance(index, tuple) else self.layout[index, ...]
        return self._moved(found)

    def reshape(self, *shape: Any) -> SimArray:
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
