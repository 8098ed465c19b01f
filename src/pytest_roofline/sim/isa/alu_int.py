"""Integer arithmetic, and work on bits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .floats import Array
from .operation import DTYPES, INTEGERS, Alu, U, alu, bits_of, halves


def int_divide(kind: str, want_rest: bool) -> Callable[[Array, Array], Array]:
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
    return alu(int_divide(mods[-1], want_rest=True), mods[-1], 2) if mods[-1] in INTEGERS else None


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
        x, y = (v << U(8) if kind == "u32" else v << np.int32(8) for v in (a, b))
        eight = U(8) if kind == "u32" else np.int32(8)
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


def lut(a: Array, b: Array, c: Array, table: Array) -> Array:
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
