"""Work on bits: logic, shifts, fields, bytes."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from .floats import Array
from .operation import DTYPES, Alu, U, alu, bits_of


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
