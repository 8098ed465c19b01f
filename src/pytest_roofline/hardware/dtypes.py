"""Floating types by name, bfloat16 among them, and the distance of 16-bit results in units in the last place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

FLOATS = ("float32", "float16", "bfloat16")  # of the elements of a shape
SIXTEEN_BIT = ("float16", "bfloat16")


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy dtype; "bfloat16" is that of ml_dtypes, which CuPy takes too."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether values of ``dtype`` are floating-point, which NumPy alone does not know of bfloat16."""
    return dtype == ml_dtypes.bfloat16 or bool(np.issubdtype(dtype, np.floating))


def as_stored(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """``values`` (float64) rounded once, to nearest even, to ``dtype``.

    A cast to 16 bits may go through float32 and so rounds twice; here the first rounding is to odd, which
    leaves the second one right (Boldo and Melquiond, 2008, "Emulation of FMA and Correctly Rounded Sums").
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype.name not in SIXTEEN_BIT:
            return values.astype(dtype)
        near = values.astype(np.float32)
        inexact = np.isfinite(near) & (near.astype(np.float64) != values)
        toward = np.where(near.astype(np.float64) > values, np.float32(-np.inf), np.float32(np.inf))
        other = np.nextafter(near, toward, dtype=np.float32)
        even = (near.view(np.uint32) & 1) == 0
        return np.where(inexact & even, other, near).astype(dtype)


def ordinals(values: np.ndarray) -> np.ndarray:
    """Integers in the order of 16-bit floating ``values``, one apart where those are neighbours; both zeros are 0."""
    raw = np.ascontiguousarray(values).view(np.uint16).astype(np.int32)
    return np.where(raw & 0x8000, -(raw & 0x7FFF), raw)


def beside(values: np.ndarray, steps: int) -> np.ndarray:
    """The 16-bit floating values so many :func:`ordinals` away; beyond infinity there is none."""
    last = ordinals(np.array(np.inf, values.dtype))
    moved = np.clip(ordinals(values) + steps, -last, last)
    raw: np.ndarray = np.where(moved < 0, 0x8000 - moved, moved).astype(np.uint16)
    return raw.view(values.dtype)
