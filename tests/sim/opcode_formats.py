"""Binary floating point in Python integers: every result exact first, then rounded once.

Nothing here uses NumPy or the host's floating point, so that a simulator built on them is compared with another
arithmetic. A number is (kind, sign, m, e) with value (-1)**sign * m * 2**e for the kind FINITE.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

FINITE, INFINITE, NOT_A_NUMBER = "finite", "infinite", "nan"
ROUNDINGS = ("rn", "rz", "rm", "rp")


class Number(NamedTuple):
    """``sticky``: the exact magnitude is a little above m * 2**e, by less than 2**e."""

    kind: str
    sign: int = 0
    m: int = 0
    e: int = 0
    sticky: bool = False


class Nan:
    """Expected: any NaN of the destination's format."""

    def __repr__(self) -> str:
        return "any NaN"


class OneOf(tuple):
    """Expected: one of several bit patterns (or NAN), where PTX leaves the choice open."""

    __slots__ = ()


NAN = Nan()
NAN_NUMBER = Number(NOT_A_NUMBER)


class Format:
    """An IEEE-754 format by the widths of its fields."""

    def __init__(self, name: str, exponent_bits: int, fraction_bits: int) -> None:
        self.name, self.fraction_bits = name, fraction_bits
        self.width = 1 + exponent_bits + fraction_bits
        self.precision = fraction_bits + 1
        self.sign_bit = 1 << (self.width - 1)
        self.infinity = ((1 << exponent_bits) - 1) << fraction_bits
        self.min_normal = 1 << fraction_bits
        bias = (1 << (exponent_bits - 1)) - 1
        self.one = bias << fraction_bits
        self.lowest = 1 - bias - fraction_bits  # exponent of the last place of subnormals
        self.highest = bias - fraction_bits  # exponent of the last place of the largest numbers

    def number(self, bits: int) -> Number:
        sign, magnitude = bits >> (self.width - 1), bits & (self.sign_bit - 1)
        if magnitude >= self.infinity:
            return Number(INFINITE, sign) if magnitude == self.infinity else NAN_NUMBER
        exponent, fraction = magnitude >> self.fraction_bits, magnitude & (self.min_normal - 1)
        if exponent == 0:
            return Number(FINITE, sign, fraction, self.lowest)
        return Number(FINITE, sign, fraction | self.min_normal, exponent - 1 + self.lowest)

    def is_nan(self, bits: int) -> bool:
        return bits & (self.sign_bit - 1) > self.infinity

    def is_subnormal(self, bits: int) -> bool:
        return 0 < bits & (self.sign_bit - 1) < self.min_normal

    def flushed(self, bits: int) -> int:
        """Subnormals to zero of the same sign, everything else as it is."""
        return bits & self.sign_bit if self.is_subnormal(bits) else bits

    def value(self, bits: int) -> float:
        """As a Python float, exact for every format; infinities too."""
        x = self.number(bits)
        if x.kind == NOT_A_NUMBER:
            return float("nan")
        magnitude = float("inf") if x.kind == INFINITE else float(x.m) * 2.0**x.e
        return -magnitude if x.sign else magnitude

    def rounded(self, x: Number, mode: str) -> int:
        """Bits of the finite number ``x`` rounded by ``mode``: rn, rz, rm, rp, or rna (ties away from zero)."""
        sign = self.sign_bit if x.sign else 0
        if x.m == 0:
            return sign
        last = max(x.m.bit_length() + x.e - self.precision, self.lowest)
        m = rounded_integer(x._replace(e=x.e - last), mode)
        if m.bit_length() > self.precision:
            m, last = m >> 1, last + 1
        if last > self.highest:
            to_infinity = mode in ("rn", "rna") or mode == ("rm" if x.sign else "rp")
            return sign | (self.infinity if to_infinity else self.infinity - 1)
        exponent = last - self.lowest + 1 if m >= self.min_normal else 0
        return sign | exponent << self.fraction_bits | (m & (self.min_normal - 1))

    def is_tiny(self, x: Number) -> bool:
        """Is the exact nonzero magnitude below the smallest normal number?"""
        return x.m != 0 and x.m.bit_length() + x.e < self.lowest + self.precision


F16, BF16 = Format("f16", 5, 10), Format("bf16", 8, 7)
F32, F64 = Format("f32", 8, 23), Format("f64", 11, 52)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}


def rounded_integer(x: Number, mode: str) -> int:
    """Magnitude of the finite ``x`` rounded to an integer by ``mode``."""
    if x.e >= 0:
        assert not x.sticky
        return x.m << x.e
    kept, cut = x.m >> -x.e, x.m & ((1 << -x.e) - 1)
    if cut == 0 and not x.sticky:
        return kept
    if mode in ("rn", "rna"):
        half = 1 << (-x.e - 1)
        tie_up = kept & 1 if mode == "rn" else 1
        return kept + (cut > half or (cut == half and (x.sticky or bool(tie_up))))
    return kept + (mode == ("rm" if x.sign else "rp"))


def product(x: Number, y: Number) -> Number:
    sign = x.sign ^ y.sign
    if NOT_A_NUMBER in (x.kind, y.kind):
        return NAN_NUMBER
    if INFINITE in (x.kind, y.kind):
        zero = (x.kind == FINITE and x.m == 0) or (y.kind == FINITE and y.m == 0)
        return NAN_NUMBER if zero else Number(INFINITE, sign)
    return Number(FINITE, sign, x.m * y.m, x.e + y.e)


def total(x: Number, y: Number, mode: str) -> Number:
    """x + y; ``mode`` decides only the sign of an exact zero."""
    if NOT_A_NUMBER in (x.kind, y.kind):
        return NAN_NUMBER
    if INFINITE in (x.kind, y.kind):
        if x.kind == y.kind:
            return x if x.sign == y.sign else NAN_NUMBER
        return x if x.kind == INFINITE else y
    e = min(x.e, y.e)
    left, right = x.m << (x.e - e), y.m << (y.e - e)
    exact = (-left if x.sign else left) + (-right if y.sign else right)
    if exact == 0:
        return Number(FINITE, x.sign if x.sign == y.sign else int(mode == "rm"))
    return Number(FINITE, int(exact < 0), abs(exact), e)


def negated(x: Number) -> Number:
    return x._replace(sign=1 - x.sign)


def quotient(x: Number, y: Number) -> Number:
    sign = x.sign ^ y.sign
    if NOT_A_NUMBER in (x.kind, y.kind) or (x.kind == y.kind == INFINITE):
        return NAN_NUMBER
    if x.kind == INFINITE:
        return Number(INFINITE, sign)
    if y.kind == INFINITE:
        return Number(FINITE, sign)
    if y.m == 0:
        return NAN_NUMBER if x.m == 0 else Number(INFINITE, sign)
    m, rest = divmod(x.m << 128, y.m)
    return Number(FINITE, sign, m, x.e - 128 - y.e, rest != 0)


def square_root(x: Number) -> Number:
    if x.kind == NOT_A_NUMBER or (x.sign and (x.kind == INFINITE or x.m != 0)):
        return NAN_NUMBER
    if x.kind == INFINITE or x.m == 0:
        return x
    shift = 128 + (x.e & 1)
    m = isqrt(x.m << shift)
    return Number(FINITE, 0, m, (x.e - shift) // 2, m * m != x.m << shift)


def finished(fmt: Format, x: Number, mode: str = "rn", ftz: bool = False, sat: bool = False, relu: bool = False):
    """The expected result of an operation whose exact value is ``x``: bits, NAN or OneOf.

    A number below the smallest normal one that rounds up to it may be flushed or not, as PTX does not say whether
    tininess is found before or after rounding. Nor does it say which zero .sat and .relu make of -0.
    """
    if x.kind == NOT_A_NUMBER:
        return 0 if sat else NAN
    sign = fmt.sign_bit if x.sign else 0
    bits = sign | fmt.infinity if x.kind == INFINITE else fmt.rounded(x, mode)
    results = {bits}
    if ftz and x.kind == FINITE and fmt.is_tiny(x):
        results = {sign} if fmt.is_subnormal(bits) else {sign, bits}
    if sat or relu:
        results = {r for bits in results for r in clamped(fmt, bits, sat)}
    return results.pop() if len(results) == 1 else OneOf(sorted(results))


def clamped(fmt: Format, bits: int, sat: bool) -> tuple[int, ...]:
    """Negative results to zero, with ``sat`` also those over 1 to 1."""
    if bits == fmt.sign_bit:
        return (0, bits)
    if bits & fmt.sign_bit:
        return (0,)
    return (min(bits, fmt.one),) if sat else (bits,)
