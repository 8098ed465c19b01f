"""Arrays and scalars that an operator computes with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..hardware.dtypes import DTYPES, INTEGERS, dtype_of
from .shape import ELEMENT, Shape, at

INPUT, OUTPUT, INOUT, SCRATCH = "input", "output", "inout", "scratch"
ROLES = (INPUT, OUTPUT, INOUT)
POISON = "poison"  # the initial contents of an output that the kernel must write
Dim = str | int | Callable[[Shape], int]
Bound = float | str | Callable[[Shape], float]
Make = Callable[[Shape, np.random.Generator], np.ndarray]

# C types of scalar parameters: their NumPy type, and what a compiler declares such a parameter as in PTX.
SCALARS: dict[str, tuple[str, tuple[str, ...]]] = {
    "float": ("float32", ("f32", "b32")),
    "double": ("float64", ("f64", "b64")),
    "__half": ("float16", ("b16", "u16", "f16", "b8")),
    "__nv_bfloat16": ("bfloat16", ("b16", "u16", "bf16", "b8")),
    "bool": ("bool", ("u8", "s8", "b8")),
    "char": ("int8", ("u8", "s8", "b8")),
    "signed char": ("int8", ("u8", "s8", "b8")),
    "unsigned char": ("uint8", ("u8", "s8", "b8")),
    "short": ("int16", ("u16", "s16", "b16")),
    "unsigned short": ("uint16", ("u16", "s16", "b16")),
    "int": ("int32", ("u32", "s32", "b32")),
    "unsigned": ("uint32", ("u32", "s32", "b32")),
    "unsigned int": ("uint32", ("u32", "s32", "b32")),
    "long": ("int64", ("u64", "s64", "b64")),
    "unsigned long": ("uint64", ("u64", "s64", "b64")),
    "long long": ("int64", ("u64", "s64", "b64")),
    "unsigned long long": ("uint64", ("u64", "s64", "b64")),
    "size_t": ("uint64", ("u64", "s64", "b64")),
}
SCALARS |= {f"{name}_t": SCALARS[c] for name, c in (("int8", "char"), ("int16", "short"), ("int32", "int"))}
SCALARS |= {"int64_t": SCALARS["long long"], "uint8_t": SCALARS["unsigned char"], "uint16_t": SCALARS["unsigned short"]}
SCALARS |= {"uint32_t": SCALARS["unsigned"], "uint64_t": SCALARS["size_t"]}


@dataclass(frozen=True)
class Array:
    """An array argument. ``dims`` are extents by name, whole numbers or functions of the shape; () is one value.

    ``role`` is "input", "output" or "inout" (read and written in place, or added into). ``dtype`` is a type's name, or
    "element" for the type of the shape.

    Inputs are uniform in [``low``, ``high``), whole numbers in it for integer types; a bound is a number, the name of
    an extent, so that ``high="V"`` keeps an index below V, or a function of the shape. ``make(shape, rng)`` gives other
    contents: sorted, permuted, masked. An output begins as ``initial``: "poison", which the kernel must overwrite, or a
    number.

    A value y is right if |y - ref| <= rtol * |ref| + atol. ``atol`` is a number or a function of the shape. With
    ``ulps`` an output of 16 or 8 bits is judged by units in the last place of the rounded reference instead. The
    default: 1e-12 for float64, 1e-5 for float32 (and 1e-6 absolutely), one ulp for narrower types, integers exactly.
    Errors: :class:`DeclarationError` with the array and what is allowed.
    """

    name: str
    dims: tuple[Dim, ...] = ()
    role: str = INPUT
    low: Bound = 0.0
    high: Bound = 1.0
    dtype: str = ELEMENT
    rtol: float | None = None
    atol: float | Callable[[Shape], float] | None = None
    ulps: float | None = None
    initial: float | str = POISON
    make: Make | None = None

    def __post_init__(self) -> None:
        require_identifier("an array", self.name)
        require_tuple(f"array {self.name!r}: dims", self.dims)
        for dim in self.dims:
            if isinstance(dim, bool) or not (isinstance(dim, str | int) or callable(dim)) or dim in ("", 0):
                self._fail(f"has {dim!r} among its dims; each is an extent's name, a whole number or a function")
            if isinstance(dim, int) and dim < 1:
                self._fail(f"has {dim} among its dims; a constant extent is at least 1")
        if self.role not in (*ROLES, SCRATCH):
            self._fail(f"has role {self.role!r}, allowed are {', '.join(ROLES)}")
        if self.dtype not in (ELEMENT, *DTYPES):
            self._fail(f"has dtype {self.dtype!r}, allowed are {', '.join((ELEMENT, *DTYPES))}")
        self._check_tolerance()
        self._check_contents()

    def _check_tolerance(self) -> None:
        for name, value in (("rtol", self.rtol), ("ulps", self.ulps), ("atol", self.atol)):
            if value is None or (name == "atol" and callable(value)):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                self._fail(f"has {name} = {value!r}; it is finite and at least 0")
            if not self.written:
                self._fail(f"has {name} = {value!r}, but is never compared: it is an input")

    def _check_contents(self) -> None:
        for name, value in (("low", self.low), ("high", self.high)):
            if isinstance(value, bool) or not (isinstance(value, int | float | str) or callable(value)):
                self._fail(
                    f"has {name} = {value!r}; a bound is a number, the name of an extent or a function of the shape"
                )
            if isinstance(value, float) and not math.isfinite(value):
                self._fail(f"has {name} = {value!r}; a bound is finite")
        if self.make is not None and not callable(self.make):
            self._fail(f"has make = {self.make!r}; it is a function of the shape and a NumPy random generator")
        if self.initial != POISON and (isinstance(self.initial, str | bool) or self.role != OUTPUT):
            self._fail(f'has initial = {self.initial!r}; an output begins as "poison" or as a number')
        if self.read and self.make is None and isinstance(self.low, int | float) and isinstance(self.high, int | float):
            if self.low >= self.high and self.dtype != "bool":
                self._fail(f"has values in [{self.low}, {self.high}), which is empty")
            if self.dtype in INTEGERS and self.high - self.low < 2:
                self._fail(
                    f"is {self.dtype} in [{self.low}, {self.high}): all values would be the same, and a kernel that "
                    "ignores it would pass; widen the range"
                )

    @property
    def read(self) -> bool:
        """Whether its contents are given to the kernel."""
        return self.role in (INPUT, INOUT)

    @property
    def written(self) -> bool:
        """Whether its contents are compared with the reference."""
        return self.role in (OUTPUT, INOUT)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """Its extents in elements, in C order."""
        return tuple(self._dim(dim, shape) for dim in self.dims)

    def dtype_at(self, shape: Shape) -> np.dtype[Any]:
        return dtype_of(shape.dtype if self.dtype == ELEMENT else self.dtype)

    def nbytes(self, shape: Shape) -> int:
        return math.prod(self.shape(shape)) * self.dtype_at(shape).itemsize

    def bounds(self, shape: Shape) -> tuple[float, float]:
        """[low, high) of an input as numbers."""
        return self._bound("low", self.low, shape), self._bound("high", self.high, shape)

    def _bound(self, name: str, bound: Bound, shape: Shape) -> float:
        value = shape[bound] if isinstance(bound, str) else at(f"{name} of array {self.name!r}", bound, shape)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
            self._fail(f"has {name} = {value!r} at {shape!r}; a bound is a finite number")
        return float(value) if isinstance(value, float | np.floating) else int(value)

    def _dim(self, dim: Dim, shape: Shape) -> int:
        if isinstance(dim, str):
            return shape[dim]
        value = at(f"a dim of array {self.name!r}", dim, shape)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            self._fail(f"has a dim of {value!r} at {shape!r}; it is a whole number of at least 1")
        return int(value)

    def _fail(self, what: str) -> None:
        raise DeclarationError(f"array {self.name!r} {what}")


@dataclass(frozen=True)
class Scalar:
    """A scalar argument of C type ``ctype``; ``value`` is a number or a function of the shape.

    Errors: :class:`DeclarationError` for a type or a value that is not allowed.
    """

    name: str
    ctype: str
    value: float | Callable[[Shape], float]

    def __post_init__(self) -> None:
        require_identifier("a scalar", self.name)
        if self.ctype not in SCALARS:
            raise DeclarationError(f"scalar {self.name!r} has C type {self.ctype!r}, allowed are {', '.join(SCALARS)}")
        if not callable(self.value) and not isinstance(self.value, int | float | np.number):
            raise DeclarationError(f"scalar {self.name!r} is {self.value!r}; it is a number or a function of the shape")

    def at(self, shape: Shape) -> float:
        """Its value at ``shape``."""
        found: float = at(f"scalar {self.name!r}", self.value, shape)
        return found


def require_identifier(what: str, name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise DeclarationError(f"{what} is named {name!r}; a name is letters, digits and underscores")


def require_tuple(what: str, value: object) -> None:
    """A missing comma makes one thing of a tuple of one."""
    if not isinstance(value, tuple):
        raise DeclarationError(f"{what} is {value!r}, not a tuple; a tuple of one ends in a comma: (one,)")
