"""A device without hardware: NumPy arrays, and kernels that are Python functions."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_roofline.errors import RefusedError
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.device import POISON, ArrayView


class FakeDevice:
    """Runs ``bodies[kernel](grid, *args)`` for each launch, at once and in order; keeps the names in ``launched``.

    Like a GPU it does not know which elements a kernel stored to.
    """

    evidence = "measured"
    name = "fake"
    arch = "sm_90"

    def __init__(self, bodies: dict[str, Callable[..., None]]) -> None:
        self.bodies, self.gpu, self.launched = bodies, gpu_named("h200"), []

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        count = math.prod(shape) * dtype_of(dtype).itemsize
        raw = np.full(count + 256, POISON, np.uint8)  # aligned to 256 bytes, as CUDA's allocations are
        start = -raw.ctypes.data % 256
        return raw[start : start + count].view(dtype_of(dtype)).reshape(shape)

    def upload(self, host: np.ndarray) -> np.ndarray:
        array = self.empty(host.shape, host.dtype.name)
        array[...] = host
        return array

    def repeat(self, tile: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return self.upload(np.resize(tile, shape))

    def write(self, array: np.ndarray, host: np.ndarray) -> None:
        array[...] = host.reshape(array.shape)

    def poison(self, array: np.ndarray, byte: int) -> None:
        array.reshape(-1).view(np.uint8)[...] = byte

    def written(self, array: np.ndarray) -> None:
        return None

    def fingerprint(self, array: np.ndarray) -> int:
        return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).tobytes())

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def view(self, array: Any) -> ArrayView:
        if not isinstance(array, np.ndarray):
            raise RefusedError(f"a {type(array).__name__} is refused")
        return ArrayView(
            array.ctypes.data, array.nbytes, array.shape, array.strides, array.dtype, array.flags.c_contiguous
        )

    def load(self, image: Any, kernel: str) -> str:
        image.require(kernel)
        return kernel

    def launch(
        self, kernel: str, grid: Any, block: Any, args: tuple[Any, ...], shared: int, blocks: Any = None
    ) -> None:
        assert blocks is None
        self.launched.append(kernel)
        self.bodies[kernel](grid, *args)

    def synchronize(self) -> None: ...

    def release(self) -> None: ...


def softmax_rows(grid: Any, x: np.ndarray, y: np.ndarray, N: Any) -> None:
    assert x.shape == y.shape == (grid[0], int(N))
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y[...] = e / e.sum(axis=1, keepdims=True)


def rmsnorm_rows(grid: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray, N: Any, eps: Any) -> None:
    assert isinstance(eps, np.float32)
    y[...] = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps) * w
