"""Types of elements by name, and the distance of narrow results in units in the last place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

# Of 16 and 8 bits; the two float8 are those of ml_dtypes and of cuda_fp8.h.
NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
FLOATS = ("float64", "float32", *NARROW)  # of the elements of a shape
FROM_ML_DTYPES = NARROW[1:]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, "bool", *INTEGERS)


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype; bfloat16 and float8 are those of ml_dtypes, which CuPy takes too."""
    return np.dtype(getattr(ml_dtypes, name) if name in FROM_ML_DTYPES else name)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether values of ``dtype`` are floating-point, which NumPy alone does not know of those of ml_dtypes."""
    return dtype.name in FLOATS


def largest(dtype: np.dtype[Any]) -> float:
    """The largest finite value of a floating type."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def as_stored(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """``values`` (float64) rounded once, to nearest even, to ``dtype``; a float8 saturates, as CUDA's conversions do.

    A cast to a narrow type may go through float32 and so rounds twice; here the first rounding is to odd, which
    leaves the second one right (Boldo and Melquiond, 2008, "Emulation of FMA and Correctly Rounded Sums").
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype.name not in NARROW:
            return values.astype(dtype)
        if dtype.itemsize == 1:  # __NV_SATFINITE, the default of cuda_fp8.h's conversions
            most = largest(dtype)
            values = np.clip(values, -most, most)
        near = values.astype(np.float32)
        inexact = np.isfinite(near) & (near.astype(np.float64) != values)
        toward = np.where(near.astype(np.float64) > values, np.float32(-np.inf), np.float32(np.inf))
        other = np.nextafter(near, toward, dtype=np.float32)
        even = (near.view(np.uint32) & 1) == 0
        return np.where(inexact & even, other, near).astype(dtype)


def ordinals(values: np.ndarray) -> np.ndarray:
    """Integers in the order of narrow floating ``values``, one apart where those are neighbours; both zeros are 0."""
    bits = 8 * values.dtype.itemsize
    raw = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").astype(np.int32)
    magnitude = raw & ((1 << (bits - 1)) - 1)
    return np.where(raw >> (bits - 1), -magnitude, magnitude)


def beside(values: np.ndarray, steps: int) -> np.ndarray:
    """The narrow floating values so many :func:`ordinals` away; beyond the largest (or infinity) there is none."""
    end = largest(values.dtype) if values.dtype.name == "float8_e4m3fn" else np.inf  # which has no infinity
    last = ordinals(np.array(end, values.dtype))
    moved = np.clip(ordinals(values) + steps, -last, last)
    sign = 1 << (8 * values.dtype.itemsize - 1)
    raw: np.ndarray = np.where(moved < 0, sign - moved, moved).astype(f"u{values.dtype.itemsize}")
    return raw.view(values.dtype)
