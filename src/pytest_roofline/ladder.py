"""What is measured: operators, rungs, launches and limits as frozen dataclasses.

A project declares its kernels in one Python file (ini key ``roofline_ladder``) that binds the name ``LADDER``
to a :class:`Ladder`. Every test, table and report takes its lists from it. All sizes are in elements unless a
unit is given; M counts rows and N columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .errors import RefusedError, UnknownNameError

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, order=True)
class Shape:
    """M rows of N columns; both at least 1, or :class:`RefusedError`."""

    M: int
    N: int

    def __post_init__(self) -> None:
        for name, value in (("M", self.M), ("N", self.N)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise RefusedError(f"{name} = {value!r} is refused, nothing was launched: {name} is a Python int")
            if not 1 <= value <= INT32_MAX:
                raise RefusedError(
                    f"{name} = {value} is refused, nothing was launched: a shape needs 1 <= {name} <= {INT32_MAX} "
                    "(a grid of 0 blocks is not an empty launch, and kernels take N as a 32-bit int)"
                )

    def __str__(self) -> str:
        return f"{self.M}x{self.N}"


@dataclass(frozen=True)
class Array:
    """One array argument. ``dims`` names its extents ("M", "N"); inputs are filled uniformly from [low, high)."""

    name: str
    dims: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    dtype: str = "float32"

    def shape(self, shape: Shape) -> tuple[int, ...]:
        return tuple(getattr(shape, dim) for dim in self.dims)

    def nbytes(self, shape: Shape) -> int:
        return math.prod(self.shape(shape)) * np.dtype(self.dtype).itemsize

    @property
    def by_row(self) -> bool:
        """Whether row r of the operator touches only row r of this array."""
        return self.dims[:1] == ("M",)


@dataclass(frozen=True)
class Scalar:
    """One scalar argument with its C type ("float", "double", "int", "long long") and default value."""

    name: str
    ctype: str
    value: float


Arrays = Mapping[str, np.ndarray]
Reference = Callable[[Arrays, Mapping[str, float]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Operator:
    """What is computed.

    ``reference(arrays, scalars)`` takes the inputs in float64 and returns every output in float64. With
    ``rowwise`` (the default) it is given only some rows of the arrays that go by rows, and must return those rows.
    A value y passes if |y - ref| <= rtol * |ref| + atol(N).
    """

    name: str
    formula: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    scalars: tuple[Scalar, ...]
    reference: Reference
    default_shape: Shape
    rtol: float
    atol: Callable[[int], float]
    rowwise: bool = True


def one_block_a_row(shape: Shape) -> tuple[int, int, int]:
    return (shape.M, 1, 1)


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    ``args`` names arrays, scalars, "M" or "N" in the order of the kernel's parameters. ``reads`` and ``writes``
    are the byte ledger: each entry is one crossing of that whole array (an array read twice stands twice).
    ``vector`` is the width in bytes of each global access of the payload, the same for all arrays. ``unrolled`` is the
    number of elements a thread reads from each input in straight-line code, None where a loop runs over the row; the
    static tests count global loads in the PTX against it. ``shared`` is dynamic shared memory in bytes.
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

    @property
    def threads(self) -> int:
        return math.prod(self.block)


@dataclass(frozen=True)
class Limit:
    """A condition on "M" or "N" with its reason; give ``at_most``, ``multiple_of`` or both."""

    dim: str
    reason: str
    at_most: int | None = None
    multiple_of: int = 1

    def holds(self, shape: Shape) -> bool:
        value: int = getattr(shape, self.dim)
        return (self.at_most is None or value <= self.at_most) and value % self.multiple_of == 0

    def __str__(self) -> str:
        parts = [f"{self.dim} <= {self.at_most}"] if self.at_most is not None else []
        parts += [f"{self.dim} % {self.multiple_of} == 0"] if self.multiple_of > 1 else []
        return " and ".join(parts)


QUANTITIES = ("speedup", "dram", "mbu")


@dataclass(frozen=True)
class Prediction:
    """Stated before a run: ``quantity`` lies in [low, high] at the shapes of a stage, the first by default, and why.

    ``quantity`` is "speedup" (time of the rung ``than`` over this one's), "dram" (DRAM bytes read and written a row, as
    a multiple of N) or "mbu" (percent; needs a GPU).
    """

    than: str
    low: float
    high: float
    why: str
    quantity: str = "speedup"
    stage: str = ""


@dataclass(frozen=True)
class Rung:
    """One implementation of an operator: a .cu file (relative to the declaration) and its launches."""

    name: str
    operator: Operator
    source: str
    title: str
    launches: tuple[Launch, ...]
    limits: tuple[Limit, ...] = ()
    scratch: tuple[Array, ...] = ()
    alignment: int = 4
    predictions: tuple[Prediction, ...] = ()

    @property
    def arrays(self) -> dict[str, Array]:
        return {a.name: a for a in (*self.operator.inputs, *self.operator.outputs, *self.scratch)}

    def sources(self) -> tuple[str, ...]:
        """The .cu files of the launches, each once, in order."""
        return tuple(dict.fromkeys(self.source_of(launch) for launch in self.launches))

    def source_of(self, launch: Launch) -> str:
        """The .cu file of one launch: its own, or the rung's."""
        return launch.source or self.source

    def ledger_bytes(self, shape: Shape) -> int:
        """Bytes the rung must move if no cache serves anything."""
        arrays = self.arrays
        return sum(arrays[name].nbytes(shape) for launch in self.launches for name in (*launch.reads, *launch.writes))

    def ledger_per_row(self, shape: Shape) -> float:
        """The ledger of one row as a multiple of N (bytes an element of the row)."""
        return self.ledger_bytes(shape) / (shape.M * shape.N)

    def ledger_words(self) -> str:
        """The ledger as a sum in words: "rms_n2 reads x, x, writes y"."""
        return "; ".join(
            f"{launch.kernel} "
            + ", ".join([f"reads {name}" for name in launch.reads] + [f"writes {name}" for name in launch.writes])
            for launch in self.launches
        )

    def footprint_bytes(self, shape: Shape) -> int:
        """Bytes of all distinct arrays in the ledger (x + y)."""
        names = {name for launch in self.launches for name in (*launch.reads, *launch.writes)}
        return sum(self.arrays[name].nbytes(shape) for name in names)

    def broken_limit(self, shape: Shape) -> Limit | None:
        return next((limit for limit in self.limits if not limit.holds(shape)), None)


@dataclass(frozen=True)
class Stage:
    """Shapes that are timed together; ``shapes`` maps an operator's name to its shapes."""

    name: str
    shapes: Mapping[str, tuple[Shape, ...]]


@dataclass(frozen=True)
class Ladder:
    """All rungs, in the order in which they are climbed; the first rung of an operator is its baseline."""

    rungs: tuple[Rung, ...]
    stages: tuple[Stage, ...]
    root: Path = field(default=Path(), compare=False)

    @property
    def operators(self) -> dict[str, Operator]:
        return {rung.operator.name: rung.operator for rung in self.rungs}

    def rung(self, name: str) -> Rung:
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise UnknownNameError(f"there is no rung {name!r}; the ladder has {', '.join(r.name for r in self.rungs)}")

    def family(self, operator: Operator) -> tuple[Rung, ...]:
        return tuple(rung for rung in self.rungs if rung.operator.name == operator.name)

    def baseline(self, rung: Rung) -> Rung:
        return self.family(rung.operator)[0]

    def require(self, rung: Rung, shape: Shape) -> None:
        """Refuse, before any launch, a shape that breaks one of the rung's limits."""
        limit = rung.broken_limit(shape)
        if limit is None:
            return
        able = [r.name for r in self.family(rung.operator) if r.broken_limit(shape) is None]
        raise RefusedError(
            f"{rung.name} can't run {shape}, nothing was launched: {limit.dim} = {getattr(shape, limit.dim)}, "
            f"allowed is {limit} ({limit.reason}). "
            + (f"Rungs of {rung.operator.name} that run it: {', '.join(able)}." if able else "No rung runs it.")
        )
