"""Flush-to-zero as the CPU's own floating-point mode, so that .ftz costs nothing.

PTX's .ftz flushes denormal inputs and results to zeros of the same sign (PTX ISA, "Floating point"). x86-64 has the
same as FTZ and DAZ in MXCSR, 64-bit ARM as FZ in FPCR; both are part of what fesetenv loads in glibc.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

# Machine -> (index of the control word in fenv_t, counted in 32-bit words; its bits that flush).
MODES = {"x86_64": (7, 0x8040), "amd64": (7, 0x8040), "aarch64": (0, 1 << 24), "arm64": (0, 1 << 24)}


@cache
def _modes() -> tuple[Any, Any, Any] | None:
    """(fesetenv, environment as it is, environment that flushes); None where the machine has no such mode."""
    if platform.system() != "Linux" or platform.machine().lower() not in MODES:
        return None
    word, bits = MODES[platform.machine().lower()]
    try:
        libm = ctypes.CDLL("libm.so.6")
        plain, flushing = (ctypes.c_uint32 * 16)(), (ctypes.c_uint32 * 16)()
        libm.fegetenv(plain)
    except (OSError, AttributeError):
        return None
    ctypes.memmove(flushing, plain, ctypes.sizeof(plain))
    flushing[word] |= bits
    tiny = np.full(4, 1e-39, np.float32)
    libm.fesetenv(flushing)
    works = not (tiny * np.float32(1)).view(np.uint32).any()
    libm.fesetenv(plain)
    return (libm.fesetenv, plain, flushing) if works and (tiny * np.float32(1)).view(np.uint32).all() else None


def available() -> bool:
    """Whether this machine can flush by itself. Where it can't, each .ftz operation is flushed in software."""
    return _modes() is not None


@contextlib.contextmanager
def flushing(on: bool) -> Iterator[None]:
    """Inside, float32 denormals are zero for every NumPy operation of this thread, if ``on`` and available."""
    modes = _modes() if on else None
    if modes is None:
        yield
        return
    modes[0](modes[2])
    try:
        yield
    finally:
        modes[0](modes[1])


def without_flushing(function: Any) -> Any:
    """``function``, computing with denormals wherever it is called, inside of :func:`flushing` or not."""
    modes = _modes()
    if modes is None:
        return function
    load, plain, _ = modes

    def exact(*args: Any) -> Any:
        before = (ctypes.c_uint32 * 16)()
        _fegetenv()(before)
        load(plain)
        try:
            return function(*args)
        finally:
            load(before)

    return exact


@cache
def _fegetenv() -> Any:
    return ctypes.CDLL("libm.so.6").fegetenv


def flush(values: np.ndarray) -> np.ndarray:
    """Denormals of float32 ``values`` as zeros of the same sign, in software."""
    bits = values.view(np.uint32)
    small = (bits & np.uint32(0x7F800000)) == 0
    return np.where(small, bits & np.uint32(0x80000000), bits).view(np.float32)


def flushed(function: Any) -> Any:
    """``function`` with float32 operands and result flushed in software."""

    def is_f4(value: Any) -> bool:
        return isinstance(value, np.ndarray) and value.dtype == np.float32

    def software(*args: Any) -> Any:
        result = function(*[flush(a) if is_f4(a) else a for a in args])
        return flush(result) if is_f4(result) else result

    return software
