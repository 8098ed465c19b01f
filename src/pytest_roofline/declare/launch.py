"""Shapes, and launches of a kernel at one. Sizes are in elements unless a unit is given; M counts rows, N columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DeclarationError, RefusedError, RooflineError
from ..hardware.dtypes import FLOATS
from ..hardware.gpus import Gpu

INT32_MAX = 2**31 - 1
VECTORS = (1, 2, 4, 8, 16, 32)  # bytes of an access
CLUSTERS = (1, 2, 4, 8, 16)  # blocks
TUNABLE = ("kernel", "source", "block", "grid", "shared", "vector", "unrolled", "cluster", "defines")
MAX_THREADS, MAX_BLOCK_Z = 1024, 64  # of a block (CUDA Programming Guide, appendix "Compute Capabilities")


@dataclass(frozen=True, order=True)
class Shape:
    """M rows of N columns of ``dtype``, a floating type; M and N at least 1, or :class:`RefusedError`.

    Written as 8x1000, and as 8x1000-bfloat16 where the type is not float32.
    """

    M: int
    N: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name, value in (("M", self.M), ("N", self.N)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise RefusedError(f"{name} = {value!r} is refused, nothing was launched: {name} is a Python int")
            if not 1 <= value <= INT32_MAX:
                raise RefusedError(
                    f"{name} = {value} is refused, nothing was launched: a shape needs 1 <= {name} <= {INT32_MAX} "
                    "(a grid of 0 blocks is not an empty launch, and kernels take N as a 32-bit int)"
                )
        if self.dtype not in FLOATS:
            raise RefusedError(
                f"dtype = {self.dtype!r} is refused, nothing was launched: allowed are {', '.join(FLOATS)}"
            )

    def __str__(self) -> str:
        return f"{self.M}x{self.N}" + ("" if self.dtype == "float32" else f"-{self.dtype}")


def one_block_a_row(shape: Shape) -> tuple[int, int, int]:
    return (shape.M, 1, 1)


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    ``args`` names arrays, scalars, "M" or "N" in the order of the kernel's parameters. ``reads`` and ``writes``
    are the byte ledger: each entry is one crossing of that whole array (an array read twice stands twice).
    ``vector`` is the width in bytes of each global access of the payload, the same for all arrays. ``unrolled`` is the
    number of elements a thread reads from each input in straight-line code, None where a loop runs over the row; the
    static tests count global loads in the PTX against it. ``shared`` is dynamic shared memory in bytes. ``defines`` are
    macros for the compiler, by name; ``cluster`` blocks side by side in x are a thread-block cluster (sm_90 and newer).

    ``tune`` gives, for a shape and a gpu, what to replace of :data:`TUNABLE`: a kernel compiled for its width.
    """

    kernel: str
    args: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    source: str = ""
    block: tuple[int, int, int] = (256, 1, 1)
    grid: Callable[[Shape], tuple[int, int, int]] = one_block_a_row
    shared: int = 0
    vector: int = 4
    unrolled: int | None = None
    cluster: int = 1
    defines: tuple[tuple[str, str], ...] = ()
    tune: Callable[[Shape, Gpu], Mapping[str, Any]] | None = None

    def at(self, shape: Shape, gpu: Gpu) -> Launch:
        """The launch for that shape on that gpu; :class:`DeclarationError` where ``tune`` makes no launch of it."""
        if self.tune is None:
            return self
        where = f"{self.kernel}: what tune makes for {shape} on {gpu.name}"
        try:
            made = self.tune(shape, gpu)
        except RooflineError:
            raise
        except Exception as error:
            raise DeclarationError(f"{where} is not to be had: {type(error).__name__}: {error}") from error
        if not isinstance(made, Mapping) or not {*made} <= {*TUNABLE}:
            raise DeclarationError(f"{where} is {made!r}; it replaces some of {', '.join(TUNABLE)}")
        launch = replace(self, tune=None, **made)
        if fault := launch.fault():
            raise DeclarationError(f"{where}: {fault}")
        return launch

    def fault(self) -> str:
        """What is impossible about its numbers and texts, or empty."""
        block, name = self.block, self.kernel
        if not isinstance(name, str) or not isinstance(self.source, str):
            return f"a launch has kernel = {name!r} and source = {self.source!r}; both are texts"
        if not callable(self.grid):
            return f"{name} has grid = {self.grid!r}; it is a function of the shape"
        if not isinstance(block, tuple) or len(block) != 3 or any(type(n) is not int or n < 1 for n in block):
            return f"{name} has block = {block!r}; it is three ints of at least 1"
        if block[2] > MAX_BLOCK_Z:
            return f"{name} has block = {block!r}; CUDA allows {MAX_BLOCK_Z} threads in z"
        if self.threads > MAX_THREADS:
            return f"{name} has a block of {self.threads} threads, allowed are 1 to {MAX_THREADS}"
        if type(self.cluster) is not int or self.cluster not in CLUSTERS:
            return f"{name} has cluster = {self.cluster!r}, allowed are {', '.join(map(str, CLUSTERS))}"
        if type(self.vector) is not int or self.vector not in VECTORS:
            return f"{name} has vector = {self.vector!r} bytes, allowed are {', '.join(map(str, VECTORS))}"
        if type(self.shared) is not int or self.shared < 0:
            return f"{name} has shared = {self.shared!r} bytes; it is an int of at least 0"
        if self.unrolled is not None and (type(self.unrolled) is not int or self.unrolled < 1):
            return f"{name} has unrolled = {self.unrolled!r}; it is an int of at least 1, or None"
        if not isinstance(self.defines, tuple):
            return f"{name} has defines = {self.defines!r}; it is a tuple of macros"
        if loose := [one for one in self.defines if not isinstance(one, tuple) or [*map(type, one)] != [str, str]]:
            return f"{name} defines {loose[0]!r}; a macro is a pair of texts, its name and its value"
        return ""

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    def goes_by_rows(self, shape: Shape) -> bool:
        """Whether block r, or cluster r of blocks, is row r's."""
        return self.grid(shape) == (shape.M * self.cluster, 1, 1)
