"""Floating-point arithmetic as PTX defines it, over NumPy arrays: fused multiply-add, directed rounding, 16-bit types.

Where the definition is exact the result is exact; the approximate instructions (ex2, lg2, rcp, rsqrt, sin, cos, tanh)
are computed in float64 and rounded, which is within the error the PTX ISA allows for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from . import fpmode

Array = np.ndarray[Any, Any]
HALF = np.int64(0x10000000)  # of the 29 bits by which float64 is finer than float32
BELOW = np.int64(0x1FFFFFFF)
NAN32 = np.uint32(0x7FFFFFFF)
NAN16 = np.uint16(0x7FFF)
NORMAL32 = 2.0**-126


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """s + e == a + b exactly, s the rounded sum (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """p + e == a * b exactly, absent overflow and underflow (Dekker)."""
    p = a * b
    wide = 134217729.0
    ta, tb = a * wide, b * wide
    ah, bh = ta - (ta - a), tb - (tb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def round_f32(hi: Array, lo: Array, mode: str) -> Array:
    """hi + lo (float64, lo below an ulp of hi) rounded once to float32; ``mode`` is rn, rz, rm or rp."""
    r = hi.astype(np.float32)
    away = hi - r.astype(np.float64)  # what the rounding left, exact
    side = np.where(away != 0, np.sign(away), np.sign(lo))
    finite = np.isfinite(hi)
    if mode == "rn":
        step = np.nextafter(r, np.where(away > 0, np.float32(np.inf), np.float32(-np.inf)))
        tie = finite & (away != 0) & (np.sign(lo) == np.sign(away)) & (step.astype(np.float64) - hi == away)
        return np.where(tie, step, r)
    if mode == "rz":
        wrong = finite & (((r > 0) & (side < 0)) | ((r < 0) & (side > 0)))
        return np.where(wrong, np.nextafter(r, np.float32(0)), r)
    up = mode == "rp"
    wrong = finite & ((side > 0) if up else (side < 0))
    return np.where(wrong, np.nextafter(r, np.float32(np.inf if up else -np.inf)), r)


def fma_f32(a: Array, b: Array, c: Array, flushes: bool = False) -> Array:
    """a * b + c rounded once. The product is exact in float64; where the sum's rounding could matter, it is redone.

    ``flushes``: denormal results are flushed anyway, so their rounding does not matter.
    """
    p = a.astype(np.float64) * b.astype(np.float64)
    c8 = c.astype(np.float64)
    s = p + c8
    bits = s.view(np.int64) if s.flags.c_contiguous else np.ascontiguousarray(s).view(np.int64)
    odd = (bits & BELOW) == HALF
    r = s.astype(np.float32)
    if not flushes:
        odd |= (np.abs(s) < NORMAL32) & (s != 0)  # float32's denormals end elsewhere
    if odd.any():
        p, c8 = np.broadcast_to(p, s.shape)[odd], np.broadcast_to(c8, s.shape)[odd]
        r[odd] = round_f32(*two_sum(p, c8), "rn")
    return r


def add_f32(a: Array, b: Array, mode: str) -> Array:
    hi, lo = two_sum(a.astype(np.float64), b.astype(np.float64))
    return _signed_zero(round_f32(hi, lo, mode), hi, a, b, mode)


def mul_f32(a: Array, b: Array, mode: str) -> Array:
    p = a.astype(np.float64) * b.astype(np.float64)
    return round_f32(p, np.zeros_like(p), mode)


def fma_f32_directed(a: Array, b: Array, c: Array, mode: str) -> Array:
    p = a.astype(np.float64) * b.astype(np.float64)
    c8 = c.astype(np.float64)
    hi, lo = two_sum(p, c8)
    return _signed_zero(round_f32(hi, lo, mode), hi, p, c8, mode)


def _signed_zero(r: Array, exact: Array, a: Array, b: Array, mode: str) -> Array:
    """An exact zero sum is -0 when rounding down, unless both terms are zeros and not negative."""
    if mode != "rm":
        return r
    both = (a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b)
    return np.where((exact == 0) & ~both, np.float32(-0.0), r)


def product_and_sum(a: Any, b: Any, c: Any) -> Any:
    """a * b + c of fractions, or of arrays with two roundings; an infinite ``c`` is not met by an overflow."""
    if isinstance(a, Fraction):
        return a * b + c
    return np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once (Boldo and Melquiond's emulation by round-to-odd), by fractions near the range's ends."""
    a, b, c = np.broadcast_arrays(a, b, c)
    uh, ul = two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    zh, zl = two_sum(tl, vl)
    bits = zh.view(np.int64) if zh.flags.c_contiguous else np.ascontiguousarray(zh).view(np.int64)
    even = (zl != 0) & ((bits & 1) == 0)
    toward = np.where((zl > 0) == (zh > 0), 1, -1)
    zh = np.where(even & (zh != 0), (bits + toward).view(np.float64), zh)
    r = vh + zh
    plain = product_and_sum(a, b, c)
    r = np.where(np.isfinite(plain) & (uh != 0), r, plain)
    size = [np.abs(v) for v in (a, b, c, plain)]
    edge = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    far = np.zeros(edge.shape, bool)
    for v in size:
        far |= (v > 1e280) | ((v < 1e-240) & (v != 0))
    edge &= far | (np.abs(a * b) < 1e-240) | ~np.isfinite(plain)
    if edge.any():
        r = np.array(r)
        r[edge] = exactly(product_and_sum, np.float64, "rn", (0, 2))(a[edge], b[edge], c[edge])
    return r


def exactly(exact: Callable[..., Any], kind: type, mode: str, negate: tuple[int, ...] = (0,)) -> Callable[..., Array]:
    """``exact`` over fractions, rounded by ``mode`` to ``kind``, lane by lane: slow, for what is rare.

    What is not finite, and the sign of a zero, are NumPy's, which rounds to nearest; rounding down they are those of
    the negated result of operands ``negate`` negated.
    """

    def run(*arrays: Array) -> Array:
        arrays = tuple(np.broadcast_arrays(*arrays))
        mirrored = [-a if n in negate else a for n, a in enumerate(arrays)]
        plain = -exact(*mirrored) if mode == "rm" else exact(*arrays)
        out: Array = np.array(plain, kind)
        finite = np.logical_and.reduce([np.isfinite(a) for a in arrays]) & ~np.isnan(plain)
        for at in np.argwhere(finite):
            try:
                value = exact(*[Fraction(float(a[tuple(at)])) for a in arrays])
            except ZeroDivisionError:
                continue
            if value:
                out[tuple(at)] = rounded(value, kind, mode)
        return out

    return fpmode.without_flushing(run)


def rounded(value: Fraction, kind: type, mode: str) -> float:
    """``value``, not zero, rounded to float32 or float64 by ``mode``; division of ints is to nearest in Python."""
    largest = float(np.finfo(kind).max)
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    r = float(kind(near))
    if kind is np.float32 and math.isfinite(near) and Fraction(near) != value:  # once, not by way of float64
        wide = np.float64(near)
        rest = value - Fraction(near)
        r = float(round_f32(wide.reshape(1), np.array([5e-324 if rest > 0 else -5e-324]), "rn")[0])
    if mode == "rn":
        return r
    above = r == math.inf or (math.isfinite(r) and Fraction(r) > value)
    below = not above and (r == -math.inf or Fraction(r) < value)
    down = mode == "rm" or (mode == "rz" and value > 0)
    if above and down:
        return largest if r == math.inf else float(np.nextafter(kind(r), kind(-np.inf)))
    if below and not down:
        return -largest if r == -math.inf else float(np.nextafter(kind(r), kind(np.inf)))
    return r if r else math.copysign(0.0, 1 if value > 0 else -1)


def canonical_f32(values: Array) -> Array:
    """The bits of float32 results: NaN is 0x7fffffff (PTX ISA), whatever the CPU made of it."""
    if not values.flags.c_contiguous:
        values = np.ascontiguousarray(values)
    bits = values.view(np.uint32)
    nan = np.isnan(values)
    return np.where(nan, NAN32, bits) if nan.any() else bits


def canonical_f64(values: Array) -> Array:
    """The bits of float64 results."""
    return np.ascontiguousarray(values).view(np.uint64)


def maximum(a: Array, b: Array) -> Array:
    """The larger; a NaN only if both are, and +0 above -0."""
    r = np.fmax(a, b)
    if not (r == 0).any():
        return r
    zeros = (a == 0) & (b == 0)
    return np.where(zeros, np.where(np.signbit(a) & np.signbit(b), r.dtype.type(-0.0), r.dtype.type(0.0)), r)


def minimum(a: Array, b: Array) -> Array:
    """The smaller; a NaN only if both are, and -0 below +0."""
    return -maximum(-a, -b)


def f16(bits: Array) -> Array:
    """float16 bits as float32, exactly."""
    return np.ascontiguousarray(bits).view(np.float16).astype(np.float32)


def bf16(bits: Array) -> Array:
    """bfloat16 bits as float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_f16(values: Array, mode: str = "rn") -> Array:
    """float32 or float64 values as float16 bits, rounded once; NaN is 0x7fff."""
    r = values.astype(np.float16)
    bits = r.view(np.uint16)
    if mode != "rn":
        back = r.astype(values.dtype)
        over = np.abs(back) > np.abs(values)
        bits = np.where(over & _steps_back(values, mode), bits - np.uint16(1), bits)
        under = np.abs(back) < np.abs(values)
        bits = np.where(under & ~_steps_back(values, mode) & (mode != "rz"), bits + np.uint16(1), bits)
    return np.where(np.isnan(values), NAN16, bits)


def _steps_back(values: Array, mode: str) -> Array:
    """Where directed rounding goes towards zero."""
    if mode == "rz":
        return np.ones(values.shape, bool)
    return np.signbit(values) if mode == "rp" else ~np.signbit(values)


def to_bf16(values: Array, mode: str = "rn") -> Array:
    """float32 or float64 values as bfloat16 bits, rounded once; NaN is 0x7fff."""
    if values.dtype == np.float64:
        hi = values.astype(np.float32)
        rest = np.where(np.isfinite(hi), values - hi.astype(np.float64), 0)
        bits = np.ascontiguousarray(hi).view(np.uint32)
        # Keep what the first rounding left as a sticky bit: truncate towards zero and set the last bit.
        toward = np.where((rest < 0) ^ np.signbit(hi), bits - np.uint32(1), bits)
        bits = np.where(rest != 0, toward | np.uint32(1), bits)
        beyond = np.isinf(hi) & np.isfinite(values)
        bits = np.where(beyond, (bits & np.uint32(0x80000000)) | np.uint32(0x7F7FFFFF), bits)
    else:
        bits = np.ascontiguousarray(values).view(np.uint32)
    low, high = bits & np.uint32(0xFFFF), bits >> np.uint32(16)
    if mode == "rn":
        up = (low > 0x8000) | ((low == 0x8000) & ((high & np.uint32(1)) == 1))
    else:
        up = (low != 0) & ~_steps_back(values, mode) & np.full(values.shape, mode != "rz")
    r = np.where(np.isinf(values), high, high + up.astype(np.uint32)).astype(np.uint16)
    return np.where(np.isnan(values), NAN16, r)


def approx(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """``function`` over float64, rounded to float32."""

    def run(a: Array) -> Array:
        return function(a.astype(np.float64)).astype(np.float32)

    return run
