"""The table of arithmetic instructions: opcode -> a function of NumPy arrays, with its operand and result types.

Each entry maps the first part of an opcode to a maker; the maker takes all its parts ("add", "rn", "ftz", "f32") and
returns an :class:`Alu`, or None if it does not know the combination. Definitions are those of the PTX ISA.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from . import fpmode
from .floats import (
    Array,
    add_f32,
    approx,
    bf16,
    exactly,
    f16,
    fma_f32,
    fma_f32_directed,
    fma_f64,
    maximum,
    minimum,
    mul_f32,
    product_and_sum,
    rounded,
    to_bf16,
    to_f16,
)

U, I = np.uint32, np.int32  # noqa: E741 - the usual letters
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
    return fpmode.without_flushing_if_on(flushed)


# Floating point


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


FRACTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fma": product_and_sum,
}


def _f64(op: str, mode: str) -> Callable[..., Array]:
    if mode != "rn":
        return exactly(FRACTIONS[op], np.float64, mode, {"mul": (0,), "fma": (0, 2)}.get(op, (0, 1)))
    return fma_f64 if op == "fma" else PLAIN[op]


def _narrow(kind: str) -> tuple[Callable[..., Array], Callable[..., Array]]:
    return (f16, to_f16) if kind.startswith("f16") else (bf16, to_bf16)


def _fused_narrow(a: Array, b: Array, c: Array) -> Array:
    """The product of 16-bit floats is exact in float64; where the sum is not, it is made odd, to round once."""
    p = a.astype(np.float64) * b.astype(np.float64)
    c8 = c.astype(np.float64)
    s = p + c8
    t = s - p
    rest = (p - (s - t)) + (c8 - t)
    bits = np.ascontiguousarray(s).view(np.int64)
    sticky = (rest != 0) & np.isfinite(s) & ((bits & 1) == 0)
    return np.where(sticky, np.where((rest > 0) == (s > 0), bits + 1, bits - 1).view(np.float64), s)


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
    wide, back = _narrow(kind)
    flush16 = flusher(kind, mods)

    def one(*args: Array) -> Array:
        r = saturated(run, mods)(*[wide(flush16(a)) for a in args])
        if "relu" in mods:
            r = np.where(np.isnan(r), r, np.maximum(r, r.dtype.type(0)))
        return flush16(back(r))

    # The values are float32 normals or computed with float32's denormals as they are: never flushed by the CPU.
    safe = fpmode.without_flushing_if_on(one)
    return halves(safe) if kind.endswith("x2") else safe


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
        run = {**PLAIN, "fma": _fused_narrow}[op]
        widened = run if op == "fma" else lambda a, b: run(a.astype(np.float64), b.astype(np.float64))
        return alu(narrow(widened, kind, mods), kind, count)
    return None


def divide(mods: tuple[str, ...]) -> Alu | None:
    kind, mode = mods[-1], rounding(mods)
    if kind in ("f32", "f64"):
        directed = rounds_then_flushes(exactly(operator.truediv, np.dtype(DTYPES[kind]).type, mode), mods)
        run = _approximate_quotient if "approx" in mods else operator.truediv if mode == "rn" else directed
        return Alu(run, (DTYPES[kind],) * 2, DTYPES[kind], kind == "f32")
    return alu(_int_divide(kind, want_rest=False), kind, 2) if kind in INTEGERS else None


def _approximate_quotient(a: Array, b: Array) -> Array:
    """div.approx: a * (1 / b), whose reciprocal is 0 for |b| above 2^126."""
    large = (np.abs(b) > 2.0**126) & np.isfinite(b)
    return np.where(large, a * np.copysign(b.dtype.type(0), b), a / b)


def _int_divide(kind: str, want_rest: bool) -> Callable[[Array, Array], Array]:
    """Towards zero, the remainder with the dividend's sign. By zero PTX leaves it open: all ones, and the dividend."""
    unsigned = np.dtype(DTYPES[kind].replace("i", "u"))

    def run(a: Array, b: Array) -> Array:
        negative_a, negative_b = a < 0, b < 0
        ua = np.where(negative_a, -a, a).astype(unsigned)
        ub = np.where(negative_b, -b, b).astype(unsigned)
        zero = ub == 0
        safe = np.where(zero, unsigned.type(1), ub)
        q, r = ua // safe, ua % safe
        if want_rest:
            r = np.where(zero, ua, r)
            return np.where(negative_a, -r, r).astype(a.dtype)
        q = np.where(negative_a ^ negative_b, -q, q)
        return np.where(zero, ~unsigned.type(0), q).astype(unsigned).view(a.dtype)

    return run


def remainder(mods: tuple[str, ...]) -> Alu | None:
    return alu(_int_divide(mods[-1], want_rest=True), mods[-1], 2) if mods[-1] in INTEGERS else None


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


def _reciprocal(a: Array) -> Array:
    return a.dtype.type(1) / a


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
        directed = rounds_then_flushes(exactly(lambda a: 1 / a, number, mode), mods)
        return Alu(_reciprocal if mode == "rn" else directed, (DTYPES[kind],), DTYPES[kind], kind == "f32")
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
    return alu(fpmode.without_flushing_if_on(tests[mods[1]]), kind, 1, "pred")


# Integers


def wide_type(kind: str) -> str:
    return {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[kind]


def multiply_high(kind: str) -> Callable[[Array, Array], Array]:
    """The upper half of the whole product."""
    if kind in ("u64", "s64"):

        def high(a: Array, b: Array) -> Array:
            low = np.uint64(0xFFFFFFFF)
            ua, ub = a.astype(np.uint64), b.astype(np.uint64)
            a0, a1, b0, b1 = ua & low, ua >> np.uint64(32), ub & low, ub >> np.uint64(32)
            middle = a1 * b0 + ((a0 * b0) >> np.uint64(32))
            second = a0 * b1 + (middle & low)
            r = a1 * b1 + (middle >> np.uint64(32)) + (second >> np.uint64(32))
            if kind == "s64":
                r = r - np.where(a < 0, ub, np.uint64(0)) - np.where(b < 0, ua, np.uint64(0))
            return r.astype(np.uint64).view(a.dtype)

        return high
    wide, shift = np.dtype(DTYPES[wide_type(kind)]), bits_of(kind)
    return lambda a, b: ((a.astype(wide) * b.astype(wide)) >> wide.type(shift)).astype(DTYPES[kind])


def multiply_wide(kind: str) -> Callable[[Array, Array], Array]:
    wide = DTYPES[wide_type(kind)]
    return lambda a, b: a.astype(wide) * b.astype(wide)


def int24(kind: str, high: bool) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        wide = (np.uint64 if kind == "u32" else np.int64)(0).dtype
        x, y = (v << U(8) if kind == "u32" else v << I(8) for v in (a, b))
        eight = U(8) if kind == "u32" else I(8)
        product = (x >> eight).astype(wide) * (y >> eight).astype(wide)
        return (product >> wide.type(16 if high else 0)).astype(np.uint32).view(a.dtype)

    return run


def int_arithmetic(mods: tuple[str, ...]) -> Alu | None:
    """add, sub, mul, mad of integers; with .cc the carry goes out, addc, subc and madc take it in."""
    op, kind = mods[0], mods[-1]
    if kind in ("u16x2", "s16x2") and op == "add":
        return Alu(halves(operator.add), ("u4", "u4"), "u4")
    if kind not in INTEGERS:
        return None
    dtype = DTYPES[kind]
    if op in ("mul", "mad", "mul24", "mad24", "madc"):
        if op.endswith("24"):
            run, out = int24(kind, "hi" in mods), kind
        elif "wide" in mods:
            run, out = multiply_wide(kind), wide_type(kind)
        else:
            run, out = (multiply_high(kind) if "hi" in mods else operator.mul), kind
        if op.startswith("mul"):
            return Alu(run, (dtype, dtype), DTYPES[out])
        if op == "madc" or "cc" in mods:
            return _carried(op, kind, run, mods)
        if "sat" in mods:
            return Alu(_saturating(lambda a, b, c: run(a, b).astype(np.int64) + c), (dtype,) * 3, dtype)
        return Alu(lambda a, b, c: run(a, b) + c, (dtype, dtype, DTYPES[out]), DTYPES[out])
    if op in ("addc", "subc") or "cc" in mods:
        return _carried(op, kind, None, mods)
    plain = operator.add if op == "add" else operator.sub
    if "sat" in mods:
        return alu(_saturating(lambda a, b: plain(a.astype(np.int64), b)), kind, 2)
    return alu(plain, kind, 2)


def _saturating(run: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: np.clip(run(*args), -(2**31), 2**31 - 1).astype(np.int32)


def _carried(op: str, kind: str, product: Callable[..., Array] | None, mods: tuple[str, ...]) -> Alu:
    takes, gives = op in ("addc", "subc", "madc"), "cc" in mods
    unsigned = np.dtype(DTYPES[kind].replace("i", "u"))

    def run(*args: Array) -> Any:
        values, carry = (args[:-1], args[-1]) if takes else (args, np.zeros((1, 1), bool))
        if product is not None:
            values = (product(values[0], values[1]), values[2])
        a, b = (np.ascontiguousarray(v).view(unsigned) for v in values)
        c = carry.astype(unsigned)
        if op.startswith("sub"):
            r = a - b - c
            out = (a < b) | ((a == b) & carry)
        else:
            part = a + b
            r = part + c
            out = (part < a) | (r < part)
        return (r, out) if gives else r

    count = 3 if product is not None else 2
    flag = {(False, True): "writes", (True, False): "reads", (True, True): "both"}[takes, gives]
    return Alu(run, (DTYPES[kind],) * count, unsigned.str[1:], flag=flag)


def sad(mods: tuple[str, ...]) -> Alu | None:
    kind = mods[-1]
    unsigned = np.dtype(DTYPES[kind].replace("i", "u"))
    run = lambda a, b, c: (np.maximum(a, b) - np.minimum(a, b)).view(unsigned) + c.view(unsigned)  # noqa: E731
    return Alu(run, (DTYPES[kind],) * 3, unsigned.str[1:])


def bitwise(mods: tuple[str, ...]) -> Alu | None:
    two = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
    if mods[0] in two:
        return alu(two[mods[0]], mods[-1], 2)
    if mods[0] == "cnot":
        return alu(lambda a: (a == 0).astype(a.dtype), mods[-1], 1)
    return alu(operator.invert, mods[-1], 1)


def shift(mods: tuple[str, ...]) -> Alu | None:
    """Amounts past the width give 0, or the sign. The amount is a u32 for every type."""
    op, kind = mods[0], mods[-1]
    width, dtype = bits_of(kind), np.dtype(DTYPES[kind])

    def run(a: Array, n: Array) -> Array:
        if op == "shl":
            return np.where(n < width, a << np.minimum(n, U(width - 1)).astype(dtype), dtype.type(0))
        if dtype.kind == "i":
            return a >> np.minimum(n, U(width - 1)).astype(dtype)
        return np.where(n < width, a >> np.minimum(n, U(width - 1)).astype(dtype), dtype.type(0))

    return Alu(run, (DTYPES[kind], "u4"), DTYPES[kind])


def funnel(mods: tuple[str, ...]) -> Alu | None:
    """shf: 32 bits out of b:a, shifted by c."""

    def run(a: Array, b: Array, c: Array) -> Array:
        n = (np.minimum(c, U(32)) if "clamp" in mods else c & U(31)).astype(np.uint64)
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        if "r" in mods:
            return (both >> n).astype(np.uint32)
        return ((both << n) >> np.uint64(32)).astype(np.uint32)

    return Alu(run, ("u4",) * 3, "u4")


def _lut(a: Array, b: Array, c: Array, table: Array) -> Array:
    r = np.zeros_like(a | b | c)
    for bit in range(8):
        x, y, z = (v if bit >> n & 1 else ~v for v, n in ((a, 2), (b, 1), (c, 0)))
        r = r | np.where((table >> U(bit)) & U(1) == 1, x & y & z, U(0))
    return r


def permute(mods: tuple[str, ...]) -> Alu | None:
    """prmt: bytes of b:a, chosen by the nibbles of c, their sign replicated where bit 3 of a nibble is set."""
    mode = mods[-1] if mods[-1] != "b32" else ""

    def selector(c: Array, n: int) -> Array:
        s, k = c & U(3), U(n)
        table: dict[str, Callable[[], Array]] = {
            "": lambda: (c >> U(4 * n)) & U(15),
            "f4e": lambda: s + k,
            "b4e": lambda: (s - k) & U(7),
            "rc8": lambda: s,
            "ecl": lambda: np.maximum(s, k),
            "ecr": lambda: np.minimum(s, k),
            "rc16": lambda: ((s & U(1)) << U(1)) + (k & U(1)),
        }
        return table[mode]()

    def run(a: Array, b: Array, c: Array) -> Array:
        both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        r = np.zeros((1, 1), np.uint32)
        for n in range(4):
            s = selector(c, n)
            byte = ((both >> ((s & U(7)).astype(np.uint64) << np.uint64(3))) & np.uint64(0xFF)).astype(np.uint32)
            if mode == "":
                byte = np.where(s & U(8), np.where(byte & U(0x80), U(0xFF), U(0)), byte)
            r = r | (byte << U(8 * n))
        return r

    return Alu(run, ("u4",) * 3, "u4")


def popcount(a: Array) -> Array:
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(a).astype(np.uint32)  # NumPy 2
    as_bytes = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.itemsize)
    return np.unpackbits(as_bytes, axis=-1).sum(axis=-1, dtype=np.uint32)


def highest(a: Array) -> Array:
    """Position of the highest set bit, -1 (all ones) for none."""
    n = np.full(a.shape, -1, np.int32)
    left = a.copy()
    for step in (32, 16, 8, 4, 2, 1):
        if step < 8 * a.itemsize:
            big = left >= a.dtype.type(1 << step)
            n = np.where(big, n + step, n)
            left = np.where(big, left >> a.dtype.type(step), left)
    return np.where(left > 0, n + 1, n).view(np.uint32)


def count_bits(mods: tuple[str, ...]) -> Alu | None:
    op, kind = mods[0], mods[-1]
    width = U(bits_of(kind))
    if op == "popc":
        return Alu(popcount, (DTYPES[kind],), "u4")
    if op == "clz":
        return Alu(lambda a: width - U(1) - highest(a), (DTYPES[kind],), "u4")

    def find(a: Array) -> Array:
        unsigned = a if a.dtype.kind == "u" else np.where(a < 0, ~a, a).view(a.dtype.str.replace("i", "u"))
        n = highest(unsigned)
        return np.where(n == U(0xFFFFFFFF), n, width - U(1) - n) if "shiftamt" in mods else n

    return Alu(find, (DTYPES[kind],), "u4")


def reverse(mods: tuple[str, ...]) -> Alu | None:
    kind = DTYPES[mods[-1]]

    def run(a: Array) -> Array:
        as_bytes = np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, a.itemsize)
        flipped = np.packbits(np.unpackbits(as_bytes, axis=-1, bitorder="little"), axis=-1, bitorder="big")
        return np.ascontiguousarray(flipped[..., ::-1]).view(kind)[..., 0]

    return Alu(run, (kind,), kind)


def extract(mods: tuple[str, ...]) -> Alu | None:
    """bfe: len bits from pos; past the width zeros, or for signed types the sign bit of the field."""
    kind, signed = mods[-1], mods[-1][0] == "s"
    width = bits_of(kind)
    unsigned = np.dtype(DTYPES[kind].replace("i", "u"))

    def run(a: Array, position: Array, length: Array) -> Array:
        pos, size = (position & U(0xFF)).astype(np.int64), (length & U(0xFF)).astype(np.int64)
        ua = a.view(unsigned)
        top = np.minimum(pos + size - 1, width - 1)
        bit = (ua >> np.clip(top, 0, width - 1).astype(unsigned)) & unsigned.type(1)
        fill = bit if signed else np.zeros_like(bit)
        fill = np.where(size == 0, unsigned.type(0), fill)
        shifted = np.where(pos < width, ua >> np.minimum(pos, width - 1).astype(unsigned), unsigned.type(0))
        held = np.maximum(np.minimum(size, width - pos), 0)
        mask = np.where(
            held >= width,
            ~unsigned.type(0),
            (unsigned.type(1) << np.minimum(held, width - 1).astype(unsigned)) - unsigned.type(1),
        )
        r = (shifted & mask) | np.where(fill != 0, ~mask, unsigned.type(0))
        return r.astype(unsigned).view(a.dtype)

    return Alu(run, (DTYPES[kind], "u4", "u4"), DTYPES[kind])


def insert(mods: tuple[str, ...]) -> Alu | None:
    """bfi d, a, b, pos, len: len bits of a into b at pos."""
    kind = DTYPES[mods[-1]]
    width, number = bits_of(mods[-1]), np.dtype(kind).type

    def run(a: Array, b: Array, position: Array, length: Array) -> Array:
        pos, size = (position & U(0xFF)).astype(kind), (length & U(0xFF)).astype(kind)
        ones = np.where(size >= width, ~number(0), (number(1) << np.minimum(size, number(width - 1))) - number(1))
        inside = pos < width
        p = np.minimum(pos, number(width - 1))
        mask = np.where(inside, ones << p, number(0))
        return (b & ~mask) | (np.where(inside, a << p, number(0)) & mask)

    return Alu(run, (kind, kind, "u4", "u4"), kind)


def dot(mods: tuple[str, ...]) -> Alu | None:
    """dp4a and dp2a: sums of products of bytes (dp2a: of 16-bit halves with two bytes of b)."""
    sa, sb = mods[-2][0] == "s", mods[-1][0] == "s"

    def part(v: Array, at: int, bits: int, signed: bool) -> Array:
        field = ((v >> U(at)) & U((1 << bits) - 1)).astype(np.int64)
        return np.where(field >= 1 << (bits - 1), field - (1 << bits), field) if signed else field

    def run(a: Array, b: Array, c: Array) -> Array:
        r = c.astype(np.int64)
        for n in range(4 if mods[0] == "dp4a" else 2):
            if mods[0] == "dp4a":
                r = r + part(a, 8 * n, 8, sa) * part(b, 8 * n, 8, sb)
            else:
                r = r + part(a, 16 * n, 16, sa) * part(b, 8 * n + (16 if "hi" in mods else 0), 8, sb)
        return r.astype(np.uint32)

    return Alu(run, ("u4",) * 3, "u4")


def byte_differences(mods: tuple[str, ...]) -> Alu | None:
    """vabsdiff4.u32.T.T{.add} d, a, b, c: |a - b| by bytes, with .add their sum plus c."""
    if "sat" in mods or mods[1:4] not in (("u32", "u32", "u32"), ("u32", "s32", "s32"), ("s32", "s32", "s32")):
        return None
    cast = np.int8 if mods[2] == "s32" else np.uint8

    def run(a: Array, b: Array, c: Array) -> Array:
        r = c if "add" in mods else np.zeros_like(c)
        for n in range(0, 32, 8):
            x, y = (((v >> U(n)) & U(0xFF)).astype(np.uint8).view(cast).astype(np.int32) for v in (a, b))
            part = np.abs(x - y).astype(np.uint32)
            r = r + part if "add" in mods else r | ((part & U(0xFF)) << U(n))
        return r

    return Alu(run, ("u4",) * 3, "u4")


def find_nth(mods: tuple[str, ...]) -> Alu | None:
    """fns.b32 d, mask, base, offset."""

    def lane(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> (base & 31) & 1 else 0xFFFFFFFF
        step, left, at = (1, offset, base) if offset > 0 else (-1, -offset, base)
        while 0 <= at < 32:
            left -= mask >> at & 1
            if left == 0:
                return at
            at += step
        return 0xFFFFFFFF

    def run(mask: Array, base: Array, offset: Array) -> Array:
        parts = np.broadcast_arrays(mask, base, offset)
        found = [lane(*map(int, values)) for values in zip(*(p.ravel() for p in parts), strict=True)]
        return np.array(found, np.uint32).reshape(parts[0].shape)

    return Alu(run, ("u4", "u4", "i4"), "u4")


# Comparisons

ORDERED: dict[str, Any] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
ORDERED |= {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}


def comparison(name: str, is_float: bool) -> Callable[[Array, Array], Array]:
    if name == "ne":
        return (lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b)) if is_float else operator.ne
    if name in ORDERED:
        return ORDERED[name]
    if name in ("num", "nan"):
        return (lambda a, b: np.isnan(a) | np.isnan(b)) if name == "nan" else lambda a, b: ~(np.isnan(a) | np.isnan(b))
    ordered: Callable[[Array, Array], Array] = comparison(
        name[:-1], is_float
    )  # equ, neu, ltu ...: true as well where either is NaN
    return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)


def compare(mods: tuple[str, ...]) -> Alu | None:
    """setp and set: the comparison, combined with a predicate where there is one."""
    op, kind = mods[0], mods[-1]
    is_float = kind.startswith(("f", "bf"))
    test = comparison(mods[1], is_float)
    combine = next((m for m in mods if m in ("and", "or", "xor")), None)
    join = {"and": operator.and_, "or": operator.or_, "xor": operator.xor, None: None}[combine]
    if kind.startswith(("f16", "bf16")):
        wide, flush16 = _narrow(kind)[0], flusher(kind, mods)
        base = fpmode.without_flushing_if_on(lambda a, b: test(wide(flush16(a)), wide(flush16(b))))
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


# Conversions

TO_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
NARROW = ("f16", "bf16")
CONVERTIBLE = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"}


def convert(mods: tuple[str, ...]) -> Alu | None:
    if mods[1] == "pack":
        return _pack(mods)
    to, of = mods[-2], mods[-1]
    if to in ("f16x2", "bf16x2") and of == "f32":
        return _pair(mods)
    if to == "tf32" and of == "f32":
        return Alu(_to_tf32, ("f4",), "u4", float32=False) if "rna" in mods or "rn" in mods else None
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
    return _narrow(kind)[0] if kind in NARROW else lambda a: a


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

    return run if of != "f16" and of != "bf16" else fpmode.without_flushing_if_on(run)


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
        back = _narrow(to)[1]
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
    wide, back = _narrow(kind)
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

    def run(a: Array) -> Array:
        v = wide(a)
        v = fpmode.flush(v) if "ftz" in mods and v.dtype == np.float32 else v
        v = whole(v) if whole else v
        if "sat" in mods:
            v = np.where(v > 0, np.minimum(v, v.dtype.type(1)), v.dtype.type(0))
        if "relu" in mods:
            v = np.where(v < 0, v.dtype.type(0), v)
        if to in NARROW:
            return _narrow(to)[1](v, mode)
        if to == "f32" and of == "f64" and mode != "rn":
            r = exactly(lambda x: x, np.float32, mode)(v)
            return fpmode.flush(r) if "ftz" in mods else r
        r = v.astype(DTYPES[to])
        return r * r.dtype.type(1) if "ftz" in mods else r

    return fpmode.without_flushing_if_on(run) if to in NARROW or of in NARROW else run


def _pair(mods: tuple[str, ...]) -> Alu:
    """cvt.f16x2.f32 d, a, b: a in the upper half."""
    back, mode = _narrow(mods[-2])[1], rounding(mods)

    def one(v: Array) -> Array:
        v = np.where(v < 0, np.float32(0), v) if "relu" in mods else v
        return back(v, mode).astype(np.uint32)

    run = fpmode.without_flushing_if_on(lambda a, b: (one(a) << U(16)) | one(b))
    return Alu(run, ("f4", "f4"), "u4")


def _to_tf32(a: Array) -> Array:
    """Nearest with ties away: 10 bits of mantissa are kept, the rest is zero."""
    bits = np.ascontiguousarray(a).view(np.uint32)
    r = (bits + U(0x1000)) & U(0xFFFFE000)
    return np.where(np.isnan(a), U(0x7FFFFFFF), np.where(np.isinf(a), bits, r))


def _pack(mods: tuple[str, ...]) -> Alu | None:
    """cvt.pack.sat.TO.s32{.b32} d, a, b{, c}: b in the low part, a above it, c above both."""
    signed, width = mods[3][0] == "s", int(mods[3][1:])
    least, most = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)

    def run(a: Array, b: Array, *c: Array) -> Array:
        low, high = (np.clip(v.astype(np.int64), least, most).astype(np.uint32) & U(2**width - 1) for v in (b, a))
        r = low | (high << U(width))
        return r | (c[0] << U(2 * width)) if c else r

    return Alu(run, ("i4", "i4") + (("u4",) if mods[-1] == "b32" else ()), "u4")


def first_of(*makers: Callable[[tuple[str, ...]], Alu | None]) -> Callable[[tuple[str, ...]], Alu | None]:
    def make(mods: tuple[str, ...]) -> Alu | None:
        return next((found for maker in makers if (found := maker(mods)) is not None), None)

    return make


TABLE: dict[str, Callable[[tuple[str, ...]], Alu | None]] = {
    **dict.fromkeys(("add", "sub", "mul"), first_of(arithmetic, int_arithmetic)),
    **dict.fromkeys(("mad", "mul24", "mad24", "addc", "subc", "madc"), int_arithmetic),
    "fma": arithmetic,
    "div": divide,
    "rem": remainder,
    **dict.fromkeys(("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"), unary_float),
    **dict.fromkeys(("min", "max"), min_max),
    **dict.fromkeys(("neg", "abs"), sign),
    "copysign": copysign,
    "testp": testp,
    "sad": sad,
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), bitwise),
    **dict.fromkeys(("shl", "shr"), shift),
    "shf": funnel,
    "lop3": lambda mods: Alu(_lut, ("u4",) * 4, "u4"),
    "prmt": permute,
    **dict.fromkeys(("popc", "clz", "bfind"), count_bits),
    "brev": reverse,
    "bfe": extract,
    "bfi": insert,
    **dict.fromkeys(("dp4a", "dp2a"), dot),
    "fns": find_nth,
    "vabsdiff4": byte_differences,
    **dict.fromkeys(("setp", "set"), compare),
    **dict.fromkeys(("selp", "slct"), select),
    "cvt": convert,
}
