"""Integer arithmetic, against Python's own integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from opcode_case import ANY, WIDTHS, Case, integer, limits, mask, signed

SIGNED, UNSIGNED = ("s16", "s32", "s64"), ("u16", "u32", "u64")
ALL = SIGNED + UNSIGNED
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
SMALL_24 = {
    "u32": (0, 1, 2, 3, 0xFF, 0x1234, 0xFFFF, 0x10000, 0x7FFFFF, 0x800000, 0xFFFFFE, 0xFFFFFF, 0xABCDEF),
    "s32": tuple(x & mask(32) for x in (0, 1, 2, -1, -2, 0x1234, -0x1234, 0x7FFFFF, -0x800000, 0x7FFFFE, -0x7FFFFF)),
}


def typed(function: Callable[..., int | None], *kinds: str) -> Callable[..., Any]:
    """``function`` of numbers as an expectation of bits, wrapped to the first of ``kinds``; None is unspecified."""
    destination, sources = kinds[0], kinds[1:]

    def expected(*raw: int) -> Any:
        result = function(*(integer(kind, bits) for kind, bits in zip(sources, raw, strict=True)))
        return ANY if result is None else result & mask(WIDTHS[destination])

    return expected


def plain(opcode: str, function: Callable[..., int | None], *kinds: str, **more: Any) -> Case:
    return Case(opcode, kinds, typed(function, *kinds), **more)


def truncated_quotient(a: int, b: int) -> int | None:
    """a / b towards zero; PTX leaves division by zero open."""
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int | None:
    quotient = truncated_quotient(a, b)
    return None if quotient is None else a - quotient * b


def saturated(value: int, kind: str) -> int:
    low, high = limits(kind)
    return max(low, min(high, value))


def binary() -> Iterator[Case]:
    functions: dict[str, Callable[[int, int], int | None]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul.lo": lambda a, b: a * b,
        "div": truncated_quotient,
        "rem": remainder,
        "min": min,
        "max": max,
    }
    for opcode, function in functions.items():
        for kind in ALL:
            yield plain(f"{opcode}.{kind}", function, kind, kind, kind)
    for kind in ALL:
        width = WIDTHS[kind]
        yield plain(f"mul.hi.{kind}", lambda a, b, w=width: a * b >> w, kind, kind, kind)
    for kind, wide in WIDE.items():
        yield plain(f"mul.wide.{kind}", lambda a, b: a * b, wide, kind, kind)
    yield plain("add.sat.s32", lambda a, b: saturated(a + b, "s32"), "s32", "s32", "s32")
    yield plain("sub.sat.s32", lambda a, b: saturated(a - b, "s32"), "s32", "s32", "s32")


def unary() -> Iterator[Case]:
    for kind in SIGNED:
        yield plain(f"neg.{kind}", lambda a: -a, kind, kind)
        yield plain(f"abs.{kind}", abs, kind, kind)


def ternary() -> Iterator[Case]:
    for kind in ALL:
        width = WIDTHS[kind]
        yield plain(f"mad.lo.{kind}", lambda a, b, c: a * b + c, kind, kind, kind, kind)
        yield plain(f"mad.hi.{kind}", lambda a, b, c, w=width: (a * b >> w) + c, kind, kind, kind, kind)
        yield plain(f"sad.{kind}", lambda a, b, c: abs(a - b) + c, kind, kind, kind, kind)
    for kind, wide in WIDE.items():
        yield plain(f"mad.wide.{kind}", lambda a, b, c: a * b + c, wide, kind, kind, wide)
    yield plain("mad.hi.sat.s32", lambda a, b, c: saturated((a * b >> 32) + c, "s32"), *["s32"] * 4)


def of_24_bits() -> Iterator[Case]:
    """Only operands that are 24-bit numbers: PTX says nothing of others."""
    for kind in ("u32", "s32"):
        two = {0: SMALL_24[kind], 1: SMALL_24[kind]}
        yield plain(f"mul24.lo.{kind}", lambda a, b: a * b, kind, kind, kind, domains=two)
        yield plain(f"mul24.hi.{kind}", lambda a, b: a * b >> 16, kind, kind, kind, domains=two)
        yield plain(f"mad24.lo.{kind}", lambda a, b, c: a * b + c, *[kind] * 4, domains=two)
        yield plain(f"mad24.hi.{kind}", lambda a, b, c: (a * b >> 16) + c, *[kind] * 4, domains=two)
    two = {0: SMALL_24["s32"], 1: SMALL_24["s32"]}
    yield plain("mad24.hi.sat.s32", lambda a, b, c: saturated((a * b >> 16) + c, "s32"), *["s32"] * 4, domains=two)


def words(value: int, count: int, width: int) -> tuple[int, ...]:
    """``value`` as ``count`` words, the lowest first; the highest holds what is left, wrapped."""
    return tuple(value >> (i * width) & mask(width) for i in range(count))


def joined(parts: tuple[int, ...], width: int) -> int:
    return sum(part << (i * width) for i, part in enumerate(parts))


def carries() -> Iterator[Case]:
    for kind in ("u32", "s32", "u64", "s64"):
        w = WIDTHS[kind]
        for name, sign in (("add", 1), ("sub", -1)):
            carried = f"{name}.cc.{kind} %0, %2, %3; {name}c.{kind} %1, 0, 0;"
            yield Case(  # the carry alone: 0 + 0 + 1, or 0 - 0 - 1
                f"{name}c.carry.{kind}",
                (kind,) * 4,
                lambda a, b, s=sign, w=w: words(a + s * b, 2, w),
                text=carried,
                outputs=2,
            )
            yield Case(
                f"{name}.cc.{name}c.cc.{name}c.{kind}",
                (kind,) * 9,
                lambda *x, s=sign, w=w: words(joined(x[:3], w) + s * joined(x[3:], w), 3, w),
                text=f"{name}.cc.{kind} %0, %3, %6; {name}c.cc.{kind} %1, %4, %7; {name}c.{kind} %2, %5, %8;",
                outputs=3,
                domains={i: (0, 1, mask(w)) for i in (1, 4)} | {i: (0, mask(w)) for i in (0, 2, 3, 5)},
                values=[(mask(w), mask(w), 7, 1, 0, 9), (0, 0, 7, 1, 0, 9), (0, mask(w), 1, 1, mask(w), 5)],
            )


def carried_products() -> Iterator[Case]:
    for kind in ("u32", "s32", "u64", "s64"):
        w = WIDTHS[kind]

        def number(bits: int, kind: str = kind) -> int:
            return integer(kind, bits)

        yield Case(
            f"mad.lo.cc.madc.hi.{kind}",
            (kind,) * 6,
            lambda a, b, low, high, w=w, n=number: words(n(a) * n(b) + low + (high << w), 2, w),
            text=f"mad.lo.cc.{kind} %0, %2, %3, %4; madc.hi.{kind} %1, %2, %3, %5;",
            outputs=2,
        )
        yield Case(
            f"mad.lo.cc.madc.hi.cc.addc.{kind}",
            (kind,) * 7,
            lambda a, b, low, high, w=w, n=number: carried_high(n(a) * n(b), low, high, w),
            text=f"mad.lo.cc.{kind} %0, %3, %4, %5; madc.hi.cc.{kind} %1, %3, %4, %6; addc.{kind} %2, 0, 0;",
            outputs=3,
        )
        yield Case(
            f"madc.lo.{kind}",
            (kind,) * 5,
            lambda a, b, x, w=w: ((x + x) & mask(w), (a * b + x + (x + x >> w)) & mask(w)),
            text=f"add.cc.{kind} %0, %4, %4; madc.lo.{kind} %1, %2, %3, %4;",
            outputs=2,
        )


def carried_high(product: int, low: int, high: int, width: int) -> tuple[int, int, int]:
    """Words of mad.lo.cc and madc.hi.cc, and the carry out of the second."""
    first = (product & mask(width)) + low
    second = (product >> width & mask(width)) + high + (first >> width)
    return first & mask(width), second & mask(width), second >> width


def dot_products() -> Iterator[Case]:
    def part(bits: int, i: int, width: int, kind: str) -> int:
        piece = bits >> (i * width) & mask(width)
        return signed(piece, width) if kind == "s32" else piece

    def four(a: int, b: int, c: int, x: str, y: str) -> int:
        return (c + sum(part(a, i, 8, x) * part(b, i, 8, y) for i in range(4))) & mask(32)

    def two(a: int, b: int, c: int, x: str, y: str, first: int) -> int:
        return (c + sum(part(a, i, 16, x) * part(b, first + i, 8, y) for i in range(2))) & mask(32)

    for x in ("u32", "s32"):
        for y in ("u32", "s32"):
            kinds = ("u32" if x == y == "u32" else "s32", x, y, "u32" if x == y == "u32" else "s32")
            yield Case(f"dp4a.{x}.{y}", kinds, lambda a, b, c, x=x, y=y: four(a, b, c, x, y))
            for mode, first in (("lo", 0), ("hi", 2)):
                yield Case(
                    f"dp2a.{mode}.{x}.{y}",
                    kinds,
                    lambda a, b, c, x=x, y=y, first=first: two(a, b, c, x, y, first),
                )


def cases() -> Iterator[Case]:
    for group in (binary, unary, ternary, of_24_bits, carries, carried_products, dot_products):
        yield from group()
