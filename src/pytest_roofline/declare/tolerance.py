"""How far an answer may be from the reference, by output."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..hardware.dtypes import NARROW, as_stored, beside, is_floating
from .array import Array
from .operator import Operator
from .shape import Shape, at
from .values import trial

# rtol and atol of an output that declares none: some units in the last place of sums of a few thousand values.
DEFAULTS = {"float64": (1e-12, 1e-14), "float32": (1e-5, 1e-6)}
TINY = float(np.finfo(np.float32).tiny)  # what is below may flush to zero, and so may a subnormal bfloat16 input


def allowed(array: Array, got: np.ndarray, want: np.ndarray, shape: Shape) -> np.ndarray:
    """What each value of ``got`` may be off ``want`` (float64), as the output declares it.

    Integers and booleans may be off by what is declared, or not at all.
    """
    dtype = got.dtype
    if array.ulps is not None and dtype.name in NARROW:
        return array.ulps * one_ulp(got, want)
    if array.rtol is None and array.atol is None:
        if dtype.name in NARROW:
            return one_ulp(got, want)
        if not is_floating(dtype):
            return np.zeros(want.shape)
    rtol, atol = DEFAULTS.get(dtype.name, (0.0, 0.0)) if array.rtol is None and array.atol is None else (0.0, 0.0)
    rtol = rtol if array.rtol is None else array.rtol
    atol = atol if array.atol is None else float(at(f"atol of {array.name!r}", array.atol, shape))
    off: np.ndarray = rtol * np.abs(want) + atol
    return off


def one_ulp(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """What each narrow value of ``got`` may be off ``want``: up to the neighbour, on its side, of the rounded."""
    stored = as_stored(want, got.dtype)
    above, below = (beside(stored, step).astype(np.float64) for step in (1, -1))
    room = np.where(got.astype(np.float64) >= want, above - want, want - below)
    return np.maximum(room, TINY)


def is_right(array: Array, got: np.ndarray, want: np.ndarray, shape: Shape) -> tuple[np.ndarray, np.ndarray, Any]:
    """Which values are right, the error of each and what is allowed; NaN is right only where NaN is due.

    The reference is rounded to the type of the output: where it overflows, infinity is right. An infinite reference
    allows an infinite error: there only the same infinity is right.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        exact = got if not is_floating(got.dtype) else got.astype(np.float64)
        want = np.asarray(want)
        if not is_floating(got.dtype) and not is_floating(want.dtype):
            error = np.where(exact == want, 0.0, np.abs(exact.astype(np.float64) - want.astype(np.float64)))
        else:
            exact, want = exact.astype(np.float64), want.astype(np.float64)
            error = np.abs(exact - want)
        off = allowed(array, got, want.astype(np.float64), shape)
        right = (np.isfinite(want) & (error <= off)) | (exact == want) | (np.isnan(exact) & np.isnan(want))
        if is_floating(got.dtype):
            stored = as_stored(want, got.dtype).astype(np.float64)
            right |= ~np.isfinite(stored) & (exact == stored)
    return right, error, off


def refuse_loose(operator: Operator) -> None:
    """Raise :class:`DeclarationError` where an answer of zeros would pass for some output."""
    tried = trial(operator)
    for array in operator.outputs:
        want = tried.outputs[array.name]
        zeros = np.zeros(want.shape, array.dtype_at(tried.shape))
        due = np.any(want != 0)
        if due and is_right(array, zeros, want, tried.shape)[0].all():
            raise DeclarationError(
                f"operator {operator.name!r}: the tolerance of {array.name} accepts an answer of zeros at "
                f"{tried.shape}; make rtol and atol smaller"
            )
