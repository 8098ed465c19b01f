"""Floating-point arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from . import fpmode
from .alu_int import int_divide
from .floats import (
    Array,
    add_f32,
    approx,
    exactly,
    fma_f32,
    fma_f32_directed,
    fma_f64,
    maximum,
    minimum,
    mul_f32,
    product_and_sum,
)
from .operation import (
    DTYPES,
    INTEGERS,
    PLAIN,
    Alu,
    alu,
    bits_of,
    flusher,
    halves,
    narrow,
    rounding,
    rounds_then_flushes,
    saturated,
)

FRACTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fma": product_and_sum,
}


def _f32(op: str, mode: str, flushes: bool) -> Callable[..., Array]:
    if op == "fma" and mode == "rn":
        return lambda a, b, c: fma_f32(a, b, c, flushes)
    if op == "fma":
        return lambda a, b, c: fma_f32_directed(a, b, c, mode)
    if mode == "rn":
        return PLAIN[op]
    if op == "mul":
        return lambda a, b: mul_f32(a, b, mode)
    return (lambda a, b: add_f32(a, b, mode)) if op == "add" else (lambda a, b: add_f32(a, -b, mode))


def _f64(op: str, mode: str) -> Callable[..., Array]:
    if mode != "rn":
        return exactly(FRACTIONS[op], np.float64, mode, {"mul": (0,), "fma": (0, 2)}.get(op, (0, 1)))
    return fma_f64 if op == "fma" else PLAIN[op]


def _fused(a: Array, b: Array, c: Array) -> Array:
    """The product of 16-bit floats is exact in float64; where the sum is not, it is made odd, to round once."""
    p = a.astype(np.float64) * b.astype(np.float64)
    c8 = c.astype(np.float64)
    s = p + c8
    t = s - p
    rest = (p - (s - t)) + (c8 - t)
    bits = np.ascontiguousarray(s).view(np.int64)
    sticky = (rest != 0) & np.isfinite(s) & ((bits & 1) == 0)
    return np.where(sticky, np.where((rest > 0) == (s > 0), bits + 1, bits - 1).view(np.float64), s)


def arithmetic(mods: tuple[str, ...]) -> Alu | None:
    op, kind, mode = mods[0], mods[-1], rounding(mods)
    count = 3 if op == "fma" else 2
    if kind == "f32":
        run = saturated(_f32(op, mode, "ftz" in mods), mods)
        run = run if mode == "rn" else rounds_then_flushes(run, mods)
        return Alu(run, ("f4",) * count, "f4", float32=True)
    if kind == "f64":
        return alu(_f64(op, mode), kind, count)
    if kind in ("f16", "f16x2", "bf16", "bf16x2"):
        run = {**PLAIN, "fma": _fused}[op]
        widened = run if op == "fma" else lambda a, b: run(a.astype(np.float64), b.astype(np.float64))
        return alu(narrow(widened, kind, mods), kind, count)
    return None


def _approximate_quotient(a: Array, b: Array) -> Array:
    """div.approx: a * (1 / b), whose reciprocal is 0 for |b| above 2^126."""
    large = (np.abs(b) > 2.0**126) & np.isfinite(b)
    return np.where(large, a * np.copysign(b.dtype.type(0), b), a / b)


def divide(mods: tuple[str, ...]) -> Alu | None:
    kind, mode = mods[-1], rounding(mods)
    if kind in ("f32", "f64"):
        directed = rounds_then_flushes(exactly(operator.truediv, np.dtype(DTYPES[kind]).type, mode), mods)
        run = _approximate_quotient if "approx" in mods else operator.truediv if mode == "rn" else directed
        return Alu(run, (DTYPES[kind],) * 2, DTYPES[kind], kind == "f32")
    return alu(int_divide(kind, want_rest=False), kind, 2) if kind in INTEGERS else None


def _exact_root(mode: str, kind: type) -> Callable[[Array], Array]:
    """Square root rounded by ``mode``: the root to nearest, moved where its square is on the wrong side."""

    def lane(value: float) -> float:
        near = float(np.sqrt(kind(value)))
        if mode == "rn" or not 0 < value < np.inf:
            return near
        square, want = Fraction(near) ** 2, Fraction(value)
        if square > want and mode in ("rz", "rm"):
            return float(np.nextafter(kind(near), kind(0)))
        if square < want and mode == "rp":
            return float(np.nextafter(kind(near), kind(np.inf)))
        return near

    def run(a: Array) -> Array:
        return np.array([lane(float(v)) for v in a.ravel()], kind).reshape(a.shape)

    return np.sqrt if mode == "rn" else run


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
}


def unary_float(mods: tuple[str, ...]) -> Alu | None:
    op, kind = mods[0], mods[-1]
    if kind in ("f16", "f16x2", "bf16", "bf16x2"):
        function = FUNCTIONS[op]
        return alu(narrow(lambda a: function(a.astype(np.float64)), kind, mods), kind, 1)
    if kind not in ("f32", "f64"):
        return None
    if "approx" in mods:
        if kind == "f64":  # rcp and rsqrt.approx.ftz.f64: 20 bits and more
            return alu(FUNCTIONS[op], kind, 1)
        return Alu(approx(FUNCTIONS[op]), ("f4",), "f4", float32=True)
    number, mode = np.dtype(DTYPES[kind]).type, rounding(mods)
    if op == "sqrt":
        run = _exact_root(mode, number)
        run = run if mode == "rn" else rounds_then_flushes(run, mods)
        return Alu(run, (DTYPES[kind],), DTYPES[kind], kind == "f32")
    if op == "rcp":
        directed = rounds_then_flushes(exactly(FUNCTIONS["rcp"], number, mode), mods)
        return Alu(FUNCTIONS["rcp"] if mode == "rn" else directed, (DTYPES[kind],), DTYPES[kind], kind == "f32")
    return None


def min_max(mods: tuple[str, ...]) -> Alu | None:
    op, kind = mods[0], mods[-1]
    if kind in INTEGERS:
        return alu(np.maximum if op == "max" else np.minimum, kind, 2)
    if kind in ("u16x2", "s16x2"):
        cast, larger = np.int16 if kind[0] == "s" else np.uint16, np.maximum if op == "max" else np.minimum
        return Alu(halves(lambda a, b: larger(a.view(cast), b.view(cast)).view(np.uint16)), ("u4", "u4"), "u4")
    if kind not in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
        return None
    pick = maximum if op == "max" else minimum

    def run(*args: Array) -> Array:
        r = args[0]
        for other in args[1:]:
            a = r
            r = pick(np.abs(a), np.abs(other)) if "abs" in mods else pick(a, other)
            if "xorsign" in mods:
                r = np.where(np.signbit(a) ^ np.signbit(other), -r, r)
            if "NaN" in mods:
                r = np.where(np.isnan(a) | np.isnan(other), r.dtype.type(np.nan), r)
        return r * r.dtype.type(1) if "ftz" in mods else r  # a comparison alone flushes nothing

    if kind in ("f32", "f64"):
        return Alu(run, (DTYPES[kind],) * 2, DTYPES[kind], kind == "f32")
    return alu(narrow(run, kind, mods), kind, 2)


def sign(mods: tuple[str, ...]) -> Alu | None:
    op, kind = mods[0], mods[-1]
    if kind in INTEGERS:
        return alu(operator.neg if op == "neg" else np.abs, kind, 1)
    if kind in ("f32", "f64"):
        one = np.dtype(DTYPES[kind]).type(1)
        apply = np.negative if op == "neg" else np.abs
        run = (lambda a: apply(a * one)) if "ftz" in mods else apply
        return Alu(run, (DTYPES[kind],), DTYPES[kind], kind == "f32")
    if kind in ("f16", "f16x2", "bf16", "bf16x2"):  # NaN and denormals: only the sign bit changes
        top = np.uint16(0x8000)
        flush16 = flusher(kind, mods)
        run16 = (lambda a: flush16(a) ^ top) if op == "neg" else (lambda a: flush16(a) & ~top)
        return alu(halves(run16) if kind.endswith("x2") else run16, kind, 1)
    return None


def copysign(mods: tuple[str, ...]) -> Alu | None:
    """copysign.f32 d, a, b: the sign of a, the value of b."""
    kind = DTYPES[mods[-1]].replace("f", "u")
    top = np.dtype(kind).type(1 << (bits_of(mods[-1]) - 1))
    return Alu(lambda a, b: (a & top) | (b & ~top), (kind, kind), kind)


def testp(mods: tuple[str, ...]) -> Alu | None:
    kind = mods[-1]
    tiny = np.finfo(DTYPES[kind]).tiny
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= tiny) | (a == 0)),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < tiny),
    }
    return alu(fpmode.without_flushing(tests[mods[1]]), kind, 1, "pred")
