"""Integer arithmetic."""

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
