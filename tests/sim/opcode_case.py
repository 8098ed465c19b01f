"""What a case of the opcode table is, the values it is tried with, and how a result is compared."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

from opcode_formats import BF16, F16, FORMATS, NAN, Format, OneOf

# Width of each type in bits and the inline assembly's register for it. 8-bit values travel in 32-bit registers, as
# PTX has no 8-bit ones; u16x2 and the like are just 32 bits, and "pred" is a predicate written as 1 or 0.
WIDTHS = {f"{kind}{width}": width for kind in "usb" for width in (8, 16, 32, 64)}
WIDTHS |= {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32, "tf32": 32, "pred": 32}
HALVES: dict[str, Format] = {"f16x2": F16, "bf16x2": BF16}
RANDOM = 200
LONGEST = {1: 400, 2: 22, 3: 9, 4: 6}  # how many edge values of each operand a grid of so many operands takes


def register(kind: str) -> str:
    return {"f32": "f", "f64": "d"}.get(kind) or {8: "r", 16: "h", 32: "r", 64: "l"}[WIDTHS[kind]]


def bits_of(kind: str) -> int:
    """Width of the register that holds ``kind``."""
    return {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64}[register(kind)]


def mask(width: int) -> int:
    return (1 << width) - 1


def signed(bits: int, width: int) -> int:
    bits &= mask(width)
    return bits - (1 << width) if bits >> (width - 1) else bits


def integer(kind: str, bits: int) -> int:
    """The number that ``bits`` mean as the integer type ``kind``; what lies above its width is ignored."""
    return signed(bits, WIDTHS[kind]) if kind[0] == "s" else bits & mask(WIDTHS[kind])


def limits(kind: str) -> tuple[int, int]:
    width = WIDTHS[kind]
    return (-(1 << (width - 1)), mask(width - 1)) if kind[0] == "s" else (0, mask(width))


class Anything:
    """Expected: PTX leaves the result unspecified."""

    def __repr__(self) -> str:
        return "anything"


class Pair(NamedTuple):
    """Expected: one result for each half of a packed register."""

    low: Any
    high: Any


@dataclass(frozen=True)
class Near:
    """Expected: a number within [low, high], or a zero for one if ``flush`` and subnormal results count as zero."""

    low: float
    high: float
    flush: bool = False

    def allows(self, fmt: Format, bits: int) -> bool:
        if fmt.is_nan(bits):
            return False
        tiny = 2.0 ** (fmt.lowest + fmt.fraction_bits)
        if self.flush and fmt.is_subnormal(bits):
            return False
        if self.flush and bits & ~fmt.sign_bit == 0 and self.low < tiny and self.high > -tiny:
            return True
        over = fmt.highest + fmt.precision  # infinity stands for the power of two that is just too large
        largest = 2.0**over if over < 1024 else float("inf")
        value = max(-largest, min(largest, fmt.value(bits)))
        return min(self.low, largest) <= value <= max(self.high, -largest)


ANY = Anything()


def matches(kind: str, expected: Any, bits: int) -> bool:
    if isinstance(expected, int):
        return bits == expected
    if isinstance(expected, Pair):
        half = HALVES[kind].name if kind in HALVES else "b16"
        return matches(half, expected.low, bits & 0xFFFF) and matches(half, expected.high, bits >> 16)
    if isinstance(expected, OneOf):
        return any(matches(kind, one, bits) for one in expected)
    if isinstance(expected, Near):
        return expected.allows(FORMATS[kind], bits)
    if expected is NAN:
        return FORMATS[kind].is_nan(bits)
    if callable(expected):
        return bool(expected(bits))
    assert expected is ANY, expected
    return True


@dataclass(frozen=True)
class Case:
    """One instruction (or, with ``text``, a short sequence) and its truth.

    ``operands``: types in the order d, a, b, c, the first ``outputs`` of them written. ``expected`` takes the raw bits
    of the inputs and returns what is expected of the output, or a tuple for several. ``domains`` replaces the default
    values of an input (counted from 0), ``values`` adds whole operand tuples. ``arch`` is the least that has the
    instruction. A case with ``warp`` is run by whole warps: ``expected`` takes 32 operand tuples, lane by lane, and
    returns 32 results; lanes whose bit in the last operand, the member mask, is 0 stay out of it (ANY expected). Its
    operand tuples are ``values`` alone, as a mask has to be the same for all lanes.
    """

    opcode: str
    operands: tuple[str, ...]
    expected: Callable[..., Any]
    values: Sequence[tuple[int, ...]] = ()
    text: str = ""
    outputs: int = 1
    domains: Mapping[int, Sequence[int]] = field(default_factory=dict)
    arch: str = "sm_89"
    warp: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.operands[self.outputs :]

    @property
    def assembly(self) -> str:
        return self.text or f"{self.opcode} {', '.join(f'%{i}' for i in range(len(self.operands)))};"

    @property
    def family(self) -> str:
        """Opcode and types without modifiers: what one test covers."""
        stem, *rest = self.opcode.split(".")
        return ".".join([stem, *(part for part in rest if part in WIDTHS)])

    @cached_property
    def rows(self) -> list[tuple[int, ...]]:
        """All operand tuples: the grid of edge values, random bit patterns, then ``values``."""
        if self.warp:
            return list(self.values)
        rows = default_rows(self.inputs, tuple(self.domains.items()))
        return [*rows, *self.values] if self.values else rows


@cache
def default_rows(inputs: tuple[str, ...], domains: tuple[tuple[int, Sequence[int]], ...]) -> list[tuple[int, ...]]:
    """The same for all cases with the same types of operands, as making them takes longer than a launch."""
    rng, chosen = random.Random(str(inputs)), dict(domains)
    grids = [chosen.get(i) or edges(kind, len(inputs)) for i, kind in enumerate(inputs)]
    rows = list(itertools.product(*grids))
    for _ in range(RANDOM):
        rows.append(
            tuple(rng.choice(chosen[i]) if i in chosen else random_bits(kind, rng) for i, kind in enumerate(inputs))
        )
    return rows


def random_bits(kind: str, rng: random.Random) -> int:
    """Any bits; for floating-point types in half of all cases a number not far from 1, where rounding happens."""
    if kind in HALVES:
        half = HALVES[kind].name
        return random_bits(half, rng) | random_bits(half, rng) << 16
    bits = rng.getrandbits(bits_of(kind))
    if kind in FORMATS and rng.random() < 0.5:
        fmt = FORMATS[kind]
        exponent = (fmt.one >> fmt.fraction_bits) + rng.randint(-12, 12)
        return bits & (fmt.sign_bit | (fmt.min_normal - 1)) | exponent << fmt.fraction_bits
    return bits


@cache
def edges(kind: str, count: int) -> tuple[int, ...]:
    """Edge values of a type, fewer where ``count`` inputs make a grid of them."""
    if kind in HALVES:
        return tuple(packed_edges(HALVES[kind].name, count))
    found = float_edges(FORMATS[kind]) if kind in FORMATS else integer_edges(bits_of(kind), WIDTHS[kind])
    return tuple(dict.fromkeys(found))[: LONGEST.get(count, 3)]


def packed_edges(half: str, count: int) -> Iterator[int]:
    """Every edge value in the lower half and, in another order, in the upper one."""
    values = edges(half, count)
    for i, low in enumerate(values):
        yield low | values[(i * 7 + 3) % len(values)] << 16


def integer_edges(width: int, narrow: int) -> Iterator[int]:
    """The most telling first: a grid of many operands takes only those."""
    top = 1 << (narrow - 1)
    yield from (0, 1, mask(width), top, top - 1, 2, mask(width) - 1, top + 1, 0x55555555 & mask(width), 3)
    yield from (5, 7, 10, 31, 32, 127, 128, 255, 100, 0x123456789ABCDEF0 >> (64 - width), top - 2, mask(narrow))
    yield from (mask(width) - 2, mask(width) - 127, mask(width) - 128, 0xAAAAAAAAAAAAAAAA & mask(width))
    yield from (1 << shift for shift in range(4, width, 4))
    yield from ((1 << shift) - 1 for shift in range(9, width, 8))
    yield from ((1 << shift) + 1 for shift in (24, 25, 53, 54, 63) if shift < width)
    yield from ((3 << shift) - 1 for shift in (23, 24, 52, 62) if shift < width)  # halves of a last place
    yield from ((3 << shift) + 1 for shift in (23, 24, 52, 62) if shift < width)


def float_edges(fmt: Format) -> Iterator[int]:
    """The most telling first, as for integers."""
    sign, one, least, infinity = fmt.sign_bit, fmt.one, fmt.min_normal, fmt.infinity
    quiet = infinity | least >> 1
    yield from (one, sign, infinity, quiet, 1, sign | least, infinity - 1, sign | (one + 1), 0)
    yield from (sign | infinity, sign | (least - 1), one - 1, sign | one, least, sign | 1, sign | (infinity - 1))
    yield from (quiet | sign | 5, infinity | 1, one + least, sign | (one - least), least + 1, least - 1)
    half = one - least
    yield from (half, sign | half, half + 1, half - 1, sign | (half + 1))
    yield from (one + 1, one + least // 2, one + least * 3 // 2)
    for power in (2, 3, 7, 8, 9, 10, 11, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64, 127, 128):
        at = one + power * least
        if at < infinity:
            yield from (at, at - 1, at + 1, sign | at, sign | (at - 1), sign | (at + 1))
    for whole in (1, 2, 3, 126, 127, 254, 255, 32766, 65534):  # halfway between two integers, and next to it
        m = 2 * whole + 1
        if m.bit_length() <= fmt.precision:
            shift = fmt.precision - m.bit_length()
            at = one + (m.bit_length() - 2) * least + ((m << shift) - least)
            yield from (at, at + 1, at - 1, sign | at, sign | (at + 1))
