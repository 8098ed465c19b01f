"""What both backends offer: a GPU through CuPy, and a simulator of the compiled PTX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..build.nvrtc import Image
from ..hardware.gpus import Gpu

MEASURED = "measured"
SIMULATED = "simulated"
NOT_CHECKED = "not checked"
POISON = 0xFF  # the byte that new arrays are filled with: NaN in every floating type


@dataclass(frozen=True)
class ArrayView:
    """Where an array of a device lies: address and sizes in bytes, strides in bytes as NumPy counts them."""

    pointer: int
    nbytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    contiguous: bool


class Device(Protocol):
    """Memory, kernels and launches; arrays and kernel handles are opaque to everybody else.

    Arrays can be sliced and reshaped as NumPy's. Launches are queued in order; errors of a launch surface at
    the latest in :meth:`synchronize`, as :class:`~pytest_roofline.errors.DeviceError`.
    """

    evidence: str
    name: str
    arch: str
    gpu: Gpu

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A new array of which every byte is POISON."""

    def upload(self, host: np.ndarray) -> Any: ...

    def repeat(self, tile: np.ndarray, shape: tuple[int, ...]) -> Any:
        """A new array whose element i, counted in C order, is ``tile[i % len(tile)]``; ``tile`` has one dim."""

    def write(self, array: Any, host: np.ndarray) -> None:
        """Copy ``host`` into ``array``, which has as many elements of its type and is contiguous."""

    def poison(self, array: Any, byte: int) -> None:
        """Fill ``array`` with ``byte``, as if no kernel had written to it."""

    def download(self, array: Any) -> np.ndarray: ...

    def written(self, array: Any) -> np.ndarray | None:
        """Sorted indices, in C order, of the elements that kernels stored to; None on a device that does not know."""

    def fingerprint(self, array: Any) -> int:
        """A number that is another one once a kernel has changed the contents."""

    def view(self, array: Any) -> ArrayView:
        """Describe ``array``; :class:`~pytest_roofline.errors.RefusedError` if it is none of this device's."""

    def load(self, image: Image, kernel: str) -> Any:
        """A kernel of ``image``, ready to launch (and, on a GPU, to be called as CuPy's RawKernel)."""

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: tuple[Any, ...],
        shared: int,
        blocks: Sequence[int] | None = None,
    ) -> None:
        """Queue a launch; an argument is an array, a NumPy scalar, or None for a null pointer.

        ``blocks`` are the linear numbers of those to run, which only a simulated device takes.
        """

    def synchronize(self) -> None: ...

    def release(self) -> None:
        """Give unused memory back."""
