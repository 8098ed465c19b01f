"""Counting, fields, logic, shifts, permutes and moves, bit by bit after the text of the PTX ISA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from opcode_case import WIDTHS, Case, mask, signed

NOT_FOUND = 0xFFFFFFFF
SHIFTS = (0, 1, 2, 5, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 127, 128, 255, 256, 1 << 31, (1 << 32) - 1)
FIELD = (0, 1, 2, 5, 8, 15, 16, 24, 31, 32, 33, 40, 63, 64, 65, 128, 200, 254, 255)
LUTS = (0x00, 0x01, 0x1B, 0x3C, 0x80, 0x96, 0xCA, 0xD8, 0xE8, 0xEA, 0xF0, 0xFE, 0xFF)
# Byte numbers of the result, the highest first, for selectors 0 to 3: the ISA's own table.
PERMUTES = {
    "f4e": ((3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)),
    "b4e": ((5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)),
    "rc16": ((1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)),
}


def counting() -> Iterator[Case]:
    for width in (32, 64):
        kind = f"b{width}"
        yield Case(f"popc.{kind}", ("u32", kind), lambda a: bin(a).count("1"))
        yield Case(f"clz.{kind}", ("u32", kind), lambda a, w=width: w - a.bit_length())
        yield Case(f"brev.{kind}", (kind, kind), lambda a, w=width: int(f"{a:0{w}b}"[::-1], 2))
        for sign in "us":
            name = f"{sign}{width}"
            yield Case(f"bfind.{name}", ("u32", name), lambda a, n=name: found(a, n, False))
            yield Case(f"bfind.shiftamt.{name}", ("u32", name), lambda a, n=name: found(a, n, True))


def found(a: int, kind: str, shift_amount: bool) -> int:
    """Position of the highest bit that is not the sign's, or how far left it has to go to be the highest."""
    width = WIDTHS[kind]
    number = signed(a, width) if kind[0] == "s" else a
    position = (~number if number < 0 else number).bit_length() - 1
    if position < 0:
        return NOT_FOUND
    return width - 1 - position if shift_amount else position


def nth_set_bit(bits: int, base: int, offset: int) -> int:
    offset = signed(offset, 32)
    if offset == 0:
        return base if bits >> base & 1 else NOT_FOUND
    positions = range(base, 32) if offset > 0 else range(base, -1, -1)
    hits = [position for position in positions if bits >> position & 1]
    return hits[abs(offset) - 1] if abs(offset) <= len(hits) else NOT_FOUND


def extracted(a: int, start: int, length: int, kind: str) -> int:
    width = WIDTHS[kind]
    if length == 0:
        return 0
    value = a >> start & mask(length)
    if kind[0] == "s" and a >> min(start + length - 1, width - 1) & 1:
        available = max(0, min(length, width - start))
        value |= mask(width) & ~mask(available)
    return value & mask(width)


def inserted(a: int, b: int, start: int, length: int, width: int) -> int:
    field = mask(length) << start & mask(width)
    return b & ~field | a << start & field


def fields() -> Iterator[Case]:
    offsets = (0, 1, 2, 3, 7, 16, 31, 32, 33, *(x & mask(32) for x in (-1, -2, -3, -8, -16, -31, -32, -33)))
    base = {1: (0, 1, 2, 3, 5, 15, 16, 30, 31), 2: offsets}
    yield Case("fns.b32", ("b32", "b32", "b32", "s32"), nth_set_bit, domains=base)
    for kind in ("u32", "s32", "u64", "s64"):
        yield Case(
            f"bfe.{kind}",
            (kind, kind, "u32", "u32"),
            lambda a, b, c, kind=kind: extracted(a, b, c, kind),
            domains={1: FIELD, 2: FIELD},
        )
    for width in (32, 64):
        kind = f"b{width}"
        yield Case(
            f"bfi.{kind}",
            (kind, kind, kind, "u32", "u32"),
            lambda a, b, c, d, w=width: inserted(a, b, c, d, w),
            domains={2: FIELD, 3: FIELD},
        )


def looked_up(a: int, b: int, c: int, lut: int) -> int:
    """Bit i of the result is the table's entry at a[i] b[i] c[i]."""
    return sum((lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))


def logic() -> Iterator[Case]:
    functions: dict[str, Callable[[int, int], int]] = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    for width in (16, 32, 64):
        kind = f"b{width}"
        for name, function in functions.items():
            yield Case(f"{name}.{kind}", (kind,) * 3, function)
        yield Case(f"not.{kind}", (kind,) * 2, lambda a, w=width: ~a & mask(w))
        yield Case(f"cnot.{kind}", (kind,) * 2, lambda a: int(a == 0))
    for name, function in functions.items():
        yield predicates(f"{name}.pred", f"{name}.pred d, a, b;", 2, function)
        negated = f"not.pred b, b; {name}.pred d, a, b;"
        yield predicates(f"{name}.not.pred", negated, 2, lambda a, b, f=function: f(a, 1 - b))
    yield predicates("not.pred", "not.pred d, a;", 1, lambda a: 1 - a)
    yield predicates("mov.pred", "mov.pred d, a;", 1, lambda a: a)
    for lut in LUTS:
        yield Case(
            f"lop3.b32.lut{lut:02x}",
            ("b32",) * 4,
            lambda a, b, c, lut=lut: looked_up(a, b, c, lut),
            text=f"lop3.b32 %0, %1, %2, %3, {lut:#04x};",
        )


def predicates(name: str, text: str, count: int, function: Callable[..., int]) -> Case:
    """``text`` works on the predicates d, a and b; an operand is true where it is not 0."""
    setup = " ".join(f"setp.ne.b32 {letter}, %{i + 1}, 0;" for i, letter in enumerate("ab"[:count]))
    body = f"{{ .reg .pred d, a, b; {setup} {text} selp.b32 %0, 1, 0, d; }}"
    return Case(name, ("b32",) * (1 + count), function, text=body, domains=dict.fromkeys(range(count), (0, 1)))


def shifts() -> Iterator[Case]:
    for width in (16, 32, 64):
        amounts = {1: SHIFTS}
        kind = f"b{width}"
        yield Case(f"shl.{kind}", (kind, kind, "u32"), lambda a, b, w=width: a << min(b, w) & mask(w), domains=amounts)
        for sign in "bus":
            name = f"{sign}{width}"
            yield Case(f"shr.{name}", (name, name, "u32"), lambda a, b, n=name: right(a, b, n), domains=amounts)
    for mode in ("clamp", "wrap"):
        for direction in ("l", "r"):
            yield Case(
                f"shf.{direction}.{mode}.b32",
                ("b32", "b32", "b32", "u32"),
                lambda a, b, c, d=direction, m=mode: funnel(a, b, min(c, 32) if m == "clamp" else c & 31, d),
                domains={2: SHIFTS},
            )


def right(a: int, b: int, kind: str) -> int:
    width = WIDTHS[kind]
    return (signed(a, width) if kind[0] == "s" else a) >> min(b, width) & mask(width)


def funnel(a: int, b: int, count: int, direction: str) -> int:
    both = b << 32 | a
    return (both << count >> 32 if direction == "l" else both >> count) & mask(32)


def permuted(a: int, b: int, c: int) -> int:
    source, result = b << 32 | a, 0
    for i in range(4):
        control = c >> (4 * i) & 15
        byte = source >> (8 * (control & 7)) & 255
        if control & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << (8 * i)
    return result


def by_table(a: int, b: int, c: int, mode: str) -> int:
    source = b << 32 | a
    numbers = PERMUTES[mode][c & 3]
    return int.from_bytes(bytes(source >> (8 * number) & 255 for number in numbers), "big")


def permutes() -> Iterator[Case]:
    controls = (0x3210, 0x0123, 0x7654, 0x7531, 0x6420, 0x5410, 0x7632, 0x8888, 0xBA98, 0xFEDC, 0x4C0F, 0xFFFF3210)
    bytes_ = (0x83028100, 0x7F80FF01, 0x00000000, 0xFFFFFFFF, 0x04F50677)
    kinds = ("b32",) * 4
    yield Case("prmt.b32", kinds, permuted, domains={0: bytes_, 1: bytes_, 2: controls})
    random_controls = [(0x83028100, 0x0706F504, c * 2654435761 & mask(32)) for c in range(1, 200)]
    yield Case("prmt.b32.any", kinds, permuted, text="prmt.b32 %0, %1, %2, %3;", values=random_controls)
    for mode in PERMUTES:
        yield Case(
            f"prmt.b32.{mode}",
            kinds,
            lambda a, b, c, mode=mode: by_table(a, b, c, mode),
            domains={2: (0, 1, 2, 3, 4, 7, 0xFE, 0xFFFFFFFF)},
        )


def moves() -> Iterator[Case]:
    def unpacked(count: int, width: int) -> Callable[[int], Any]:
        return lambda a: tuple(a >> (i * width) & mask(width) for i in range(count))

    def packed(width: int) -> Callable[..., int]:
        return lambda *parts: sum(part << (i * width) for i, part in enumerate(parts))

    for wide, count, narrow in (("b32", 2, "b16"), ("b64", 2, "b32"), ("b64", 4, "b16")):
        many, width = (narrow,) * count, WIDTHS[narrow]
        braces = ", ".join(f"%{i + 1}" for i in range(count))
        yield Case(f"mov.{wide}.pack{count}", (wide, *many), packed(width), text=f"mov.{wide} %0, {{{braces}}};")
        braces = ", ".join(f"%{i}" for i in range(count))
        text = f"mov.{wide} {{{braces}}}, %{count};"
        yield Case(f"mov.{wide}.unpack{count}", (*many, wide), unpacked(count, width), text=text, outputs=count)
    for kind in ("b16", "b32", "b64", "u16", "s32", "u64", "f32", "f64"):
        yield Case(f"mov.{kind}", (kind, kind), lambda a: a)
    yield Case("mov.b32.f32", ("b32", "f32"), lambda a: a, text="mov.b32 %0, %1;")
    yield Case("mov.b64.f64", ("f64", "b64"), lambda a: a, text="mov.b64 %0, %1;")


def cases() -> Iterator[Case]:
    for group in (counting, fields, logic, shifts, permutes, moves):
        yield from group()
