"""What an arithmetic instruction is here: a function of NumPy arrays with its operand and result types."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import fpmode
from .floats import Array, bf16, f16, to_bf16, to_f16

U = np.uint32
DTYPES = {"u8": "u1", "s8": "i1", "b8": "u1", "u16": "u2", "s16": "i2", "b16": "u2", "f16": "u2", "bf16": "u2"}
DTYPES |= {"u32": "u4", "s32": "i4", "b32": "u4", "f16x2": "u4", "bf16x2": "u4", "tf32": "u4", "f32": "f4"}
DTYPES |= {"u64": "u8", "s64": "i8", "b64": "u8", "f64": "f8", "pred": "?"}
PLAIN: dict[str, Any] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
ROUNDINGS = ("rn", "rz", "rm", "rp")
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")


@dataclass(frozen=True)
class Alu:
    """``run`` takes arrays of ``sources`` and returns one of ``result``, all as NumPy type codes.

    ``flag``: "reads", "writes" or "both" if the carry flag takes part: it comes as a last bool array, and goes as a
    second result.
    """

    run: Callable[..., Any]
    sources: tuple[str, ...]
    result: str
    float32: bool = False  # takes part in flush-to-zero
    flag: str = ""


def bits_of(kind: str) -> int:
    return 8 * np.dtype(DTYPES[kind]).itemsize


def alu(run: Callable[..., Any], kind: str, count: int, result: str | None = None) -> Alu:
    return Alu(run, (DTYPES[kind],) * count, DTYPES[result or kind])


def rounding(mods: tuple[str, ...]) -> str:
    return next((m for m in mods if m in ROUNDINGS), "rn")


def saturated(run: Callable[..., Array], mods: tuple[str, ...]) -> Callable[..., Array]:
    """.sat of a float: into [0, 1], NaN to +0."""
    if "sat" not in mods:
        return run

    def clamp(*args: Array) -> Array:
        r = run(*args)
        return np.where(r > 0, np.minimum(r, r.dtype.type(1)), r.dtype.type(0))

    return clamp


def rounds_then_flushes(run: Callable[..., Array], mods: tuple[str, ...]) -> Callable[..., Array]:
    """``run`` needs denormals to round by; .ftz flushes its operands before and its result after."""
    flushed: Callable[..., Array] = fpmode.flushed(run) if "ftz" in mods else run
    return fpmode.without_flushing(flushed)


def formats(kind: str) -> tuple[Callable[..., Array], Callable[..., Array]]:
    return (f16, to_f16) if kind.startswith("f16") else (bf16, to_bf16)


def halves(run: Callable[..., Array]) -> Callable[..., Array]:
    """``run`` of 16-bit patterns, on both halves of 32-bit ones."""

    def both(*args: Array) -> Array:
        low = run(*[(a & U(0xFFFF)).astype(np.uint16) for a in args])
        high = run(*[(a >> U(16)).astype(np.uint16) for a in args])
        return low.astype(np.uint32) | (high.astype(np.uint32) << U(16))

    return both


def flusher(kind: str, mods: tuple[str, ...]) -> Callable[[Array], Array]:
    """Flushes the denormals of a 16-bit type where .ftz asks for it."""
    exponent = np.uint16(0x7C00 if kind.startswith("f16") else 0x7F80)

    def flush16(bits: Array) -> Array:
        return np.where((bits & exponent) == 0, bits & np.uint16(0x8000), bits)

    return flush16 if "ftz" in mods else lambda bits: bits


def narrow(run: Callable[..., Array], kind: str, mods: tuple[str, ...] = ()) -> Callable[..., Array]:
    """``run`` of float32 or float64 values on 16-bit patterns, with .ftz (of float16's own denormals), .sat, .relu."""
    wide, back = formats(kind)
    flush16 = flusher(kind, mods)

    def one(*args: Array) -> Array:
        r = saturated(run, mods)(*[wide(flush16(a)) for a in args])
        if "relu" in mods:
            r = np.where(np.isnan(r), r, np.maximum(r, r.dtype.type(0)))
        return flush16(back(r))

    # The values are float32 normals or computed with float32's denormals as they are: never flushed by the CPU.
    safe = fpmode.without_flushing(one)
    return halves(safe) if kind.endswith("x2") else safe
