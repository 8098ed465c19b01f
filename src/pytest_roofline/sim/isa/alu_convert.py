"""Comparisons, selections and conversions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from . import fpmode
from .floats import Array, exactly, rounded
from .operation import DTYPES, Alu, U, bits_of, flusher, formats, halves, rounding, saturated

ORDERED: dict[str, Any] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
ORDERED |= {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
NARROW = ("f16", "bf16")
CONVERTIBLE = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"}


def comparison(name: str, is_float: bool) -> Callable[[Array, Array], Array]:
    if name == "ne":
        return (lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b)) if is_float else operator.ne
    if name in ORDERED:
        return ORDERED[name]
    if name in ("num", "nan"):
        return (lambda a, b: np.isnan(a) | np.isnan(b)) if name == "nan" else lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if name[-1:] != "u" or name[:-1] not in {*ORDERED, "ne"}:
        raise KeyError(name)
    # equ, neu, ltu ...: true as well where either is NaN
    ordered: Callable[[Array, Array], Array] = comparison(name[:-1], is_float)
    return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)


def compare(mods: tuple[str, ...]) -> Alu | None:
    """setp and set: the comparison, combined with a predicate where there is one."""
    op, kind = mods[0], mods[-1]
    is_float = kind.startswith(("f", "bf"))
    test = comparison(mods[1], is_float)
    combine = next((m for m in mods if m in ("and", "or", "xor")), None)
    join = {"and": operator.and_, "or": operator.or_, "xor": operator.xor, None: None}[combine]
    if kind.startswith(("f16", "bf16")):
        wide, flush16 = formats(kind)[0], flusher(kind, mods)
        base = fpmode.without_flushing(lambda a, b: test(wide(flush16(a)), wide(flush16(b))))
    else:
        base = test
    run = base if join is None else lambda a, b, c: join(base(a, b), c)
    sources = (DTYPES[kind],) * 2 + (("?",) if join else ())
    if op == "setp":
        return Alu(run, sources, "?", kind == "f32")
    if kind.endswith("x2"):
        return _set_halves(run, mods[-2], sources)
    out = mods[-2]
    true = {"f32": np.float32(1), "f16": np.uint16(0x3C00), "bf16": np.uint16(0x3F80)}.get(out)
    true = true if true is not None else np.dtype(DTYPES[out]).type(-1 if out[0] == "s" else 2 ** bits_of(out) - 1)
    return Alu(lambda *args: np.where(run(*args), true, true.dtype.type(0)), sources, DTYPES[out], kind == "f32")


def _set_halves(run: Callable[..., Array], out: str, sources: tuple[str, ...]) -> Alu:
    """set of two 16-bit values: 1.0 in each half that holds, or all ones for an integer."""
    true = np.uint16({"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(out, 0xFFFF))

    def both(a: Array, b: Array, *p: Array) -> Array:
        return halves(lambda x, y: np.where(run(x, y, *p), true, np.uint16(0)))(a, b)

    return Alu(both, sources, "u4")


def select(mods: tuple[str, ...]) -> Alu | None:
    kind = DTYPES[mods[-1]].replace("f", "u").replace("i", "u")
    if mods[0] == "slct":
        test = "f4" if mods[-1] == "f32" else "i4"
        kind = DTYPES[mods[-2]].replace("f", "u").replace("i", "u")
        return Alu(lambda a, b, c: np.where(c >= 0, a, b), (kind, kind, test), kind, float32=test == "f4")
    return Alu(lambda a, b, p: np.where(p, a, b), (kind, kind, "?"), kind)


def convert(mods: tuple[str, ...]) -> Alu | None:
    if mods[1] == "pack":
        return _pack(mods)
    to, of = mods[-2], mods[-1]
    if to in ("f16x2", "bf16x2") and of == "f32":
        return _pair(mods)
    if to == "tf32" and of == "f32":
        return Alu(_to_tf32("rna" in mods), ("f4",), "u4") if {"rna", "rn"} & {*mods} and "relu" not in mods else None
    if not {to, of} <= CONVERTIBLE:
        return None
    to_float, of_float = to.startswith(("f", "bf")), of.startswith(("f", "bf"))
    if of_float and to_float:
        run = _float_to_float(to, of, mods)
    elif of_float:
        run = _float_to_int(to, of, mods)
    elif to_float:
        run = _int_to_float(to, of, mods)
    else:
        run = _int_to_int(to, of, "sat" in mods)
    return Alu(run, (DTYPES[of],), DTYPES[to], float32="f32" in (to, of))


def _int_to_int(to: str, of: str, sat: bool) -> Callable[[Array], Array]:
    if not sat:
        return lambda a: a.astype(DTYPES[to])
    info, source = np.iinfo(DTYPES[to]), np.iinfo(DTYPES[of])
    low, high = max(info.min, source.min), min(info.max, source.max)
    return lambda a: np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(DTYPES[to])


def _wide(kind: str) -> Callable[[Array], Array]:
    return formats(kind)[0] if kind in NARROW else lambda a: a


def _float_to_int(to: str, of: str, mods: tuple[str, ...]) -> Callable[[Array], Array]:
    """Rounded and clamped to the range. NaN is 0; with 64 bits on either side it is what the hardware gives."""
    whole = TO_WHOLE[next(m for m in mods if m in TO_WHOLE)]
    info, wide = np.iinfo(DTYPES[to]), _wide(of)
    high = np.float64(info.max) if info.max < 2**53 else np.float64(info.max + 1)

    def run(a: Array) -> Array:
        v = wide(a)
        r = whole(v * v.dtype.type(1) if "ftz" in mods else v).astype(np.float64)
        inside = (r >= info.min) & (r < high) if info.max >= 2**53 else (r >= info.min) & (r <= high)
        r = np.where(inside, r, 0).astype(DTYPES[to])
        r = np.where(~inside & (v > 0), info.max, np.where(~inside & (v < 0), info.min, r)).astype(DTYPES[to])
        nan = np.isnan(v)
        return np.where(nan, _of_nan(to, of), r) if nan.any() else r

    return run if of != "f16" and of != "bf16" else fpmode.without_flushing(run)


def _of_nan(to: str, of: str) -> Any:
    """0, or with 64 bits on either side the top bit alone (PTX ISA, cvt)."""
    kind = np.dtype(DTYPES[to]).type
    if to in ("s64", "u64") or of == "f64":
        top = 1 << (bits_of(to) - 1)
        return kind(-top if to[0] == "s" else top)
    return kind(0)


def _int_to_float(to: str, of: str, mods: tuple[str, ...]) -> Callable[[Array], Array]:
    mode = rounding(mods)
    if to in NARROW:
        back = formats(to)[1]
        return saturated_bits(lambda a: back(_odd(a), mode), to, mods)
    kind = np.dtype(DTYPES[to]).type

    def run(a: Array) -> Array:
        if mode == "rn":
            return a.astype(kind)
        values = [rounded(Fraction(int(v)), kind, mode) if v else 0.0 for v in a.ravel()]
        return np.array(values, kind).reshape(a.shape)

    return saturated(run, mods)


def saturated_bits(run: Callable[[Array], Array], kind: str, mods: tuple[str, ...]) -> Callable[[Array], Array]:
    """.sat of 16-bit results."""
    wide, back = formats(kind)
    return (lambda a: back(saturated(wide, mods)(run(a)))) if "sat" in mods else run


def _odd(a: Array) -> Array:
    """Integers as float64. Where that is not exact, cut towards zero with the last bit set, to be rounded once."""
    r = a.astype(np.float64)
    if a.dtype.itemsize < 8:
        return r
    size = np.where(a < 0, -a, a).astype(np.uint64)
    low = size & np.uint64(0x7FF)
    cut = np.ascontiguousarray((size - low).astype(np.float64)).view(np.int64) | 1
    sticky = np.copysign(cut.view(np.float64), r)
    return np.where((np.abs(r) >= 2.0**53) & (low != 0), sticky, r)


def _float_to_float(to: str, of: str, mods: tuple[str, ...]) -> Callable[[Array], Array]:
    whole = next((TO_WHOLE[m] for m in mods if m in TO_WHOLE), None)
    mode, wide = rounding(mods), _wide(of)
    # Down or up to f16, sm_90 rounds a denormal as it is (measured on an H200); PTX ISA says it is flushed first.
    flushed = "ftz" in mods and of == "f32" and not (to == "f16" and mode in ("rm", "rp"))

    def run(a: Array) -> Array:
        v = wide(a)
        v = fpmode.flush(v) if flushed else v
        v = whole(v) if whole else v
        if "sat" in mods:
            v = np.where(v > 0, np.minimum(v, v.dtype.type(1)), v.dtype.type(0))
        if "relu" in mods:
            v = np.where(v < 0, v.dtype.type(0), v)
        if to in NARROW:
            return formats(to)[1](v, mode)
        if to == "f32" and of == "f64" and mode != "rn":
            r = exactly(lambda x: x, np.float32, mode)(v)
            return fpmode.flush(r) if "ftz" in mods else r
        r = v.astype(DTYPES[to])
        return r * r.dtype.type(1) if "ftz" in mods else r

    return fpmode.without_flushing(run) if to in NARROW or of in NARROW else run


def _pair(mods: tuple[str, ...]) -> Alu:
    """cvt.f16x2.f32 d, a, b: a in the upper half."""
    back, mode = formats(mods[-2])[1], rounding(mods)

    def one(v: Array) -> Array:
        v = np.where(v < 0, np.float32(0), v) if "relu" in mods else v
        return back(v, mode).astype(np.uint32)

    run = fpmode.without_flushing(lambda a, b: (one(a) << U(16)) | one(b))
    return Alu(run, ("f4", "f4"), "u4")


def _to_tf32(ties_away: bool) -> Callable[[Array], Array]:
    """10 bits of mantissa are kept, the rest is zero."""

    def run(a: Array) -> Array:
        bits = np.ascontiguousarray(a).view(np.uint32)
        half = U(0x1000) if ties_away else U(0xFFF) + ((bits >> U(13)) & U(1))
        r = (bits + half) & U(0xFFFFE000)
        return np.where(np.isnan(a), U(0x7FFFFFFF), np.where(np.isinf(a), bits, r))

    return run


def _pack(mods: tuple[str, ...]) -> Alu | None:
    """cvt.pack.sat.TO.s32{.b32} d, a, b{, c}: b in the low part, a above it, c above both."""
    signed, width = mods[3][0] == "s", int(mods[3][1:])
    least, most = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)

    def run(a: Array, b: Array, *c: Array) -> Array:
        low, high = (np.clip(v.astype(np.int64), least, most).astype(np.uint32) & U(2**width - 1) for v in (b, a))
        r = low | (high << U(width))
        return r | (c[0] << U(2 * width)) if c else r

    return Alu(run, ("i4", "i4") + (("u4",) if mods[-1] == "b32" else ()), "u4")
