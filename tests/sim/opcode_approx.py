"""Approximate instructions: the special values and the largest errors that the PTX ISA documents.

True values are float64's, whose error is a millionth of what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from opcode_case import ANY, Case, Near
from opcode_float import in_pairs
from opcode_formats import BF16, F16, F32, FORMATS, NAN, Format, OneOf

INFINITY = math.inf
TURN = 2 * math.pi


def ulp(value: float, fmt: Format = F32) -> float:
    """Distance of neighbours at ``value``."""
    exponent = math.frexp(value)[1] - fmt.precision if value else fmt.lowest
    return math.ldexp(1.0, max(exponent, fmt.lowest))


def bits(value: float, fmt: Format = F32) -> int:
    """Bits of a zero, an infinity or a power of two."""
    sign = fmt.sign_bit if math.copysign(1.0, value) < 0 else 0
    if math.isinf(value):
        return sign | fmt.infinity
    return sign | (0 if value == 0 else fmt.one + (math.frexp(value)[1] - 1) * fmt.min_normal)


def within(value: float, error: float, flush: bool = False) -> Near:
    return Near(value - error, value + error, flush)


def inexact(function: Callable[[float, bool], Any], fmt: Format = F32, ftz: bool = False) -> Callable[[int], Any]:
    """NaN for NaN; otherwise what ``function`` says of the operand, flushed first under .ftz."""

    def expected(a: int) -> Any:
        if fmt.is_nan(a):
            return NAN
        return function(fmt.value(fmt.flushed(a) if ftz else a), ftz)

    return expected


def reciprocal(a: float, ftz: bool) -> Any:
    if a == 0:
        return bits(math.copysign(INFINITY, a))
    if math.isinf(a):
        return bits(math.copysign(0.0, a))
    return within(1 / a, ulp(1 / a), ftz)


def root(a: float, ftz: bool) -> Any:
    if a == 0 or a == INFINITY:
        return bits(a)
    return NAN if a < 0 else within(math.sqrt(a), math.sqrt(a) * 2.0**-23, ftz)


def reciprocal_root(a: float, relative: float, ftz: bool) -> Any:
    return NAN if a < 0 else within(1 / math.sqrt(a), relative / math.sqrt(a), ftz)


def reciprocal_root_of(fmt: Format, relative: float) -> Callable[[float, bool], Any]:
    def expected(a: float, ftz: bool) -> Any:
        if a == 0:
            return bits(math.copysign(INFINITY, a), fmt)
        return 0 if a == INFINITY else reciprocal_root(a, relative, ftz)

    return expected


def logarithm(a: float, ftz: bool) -> Any:
    if a == 0:
        return bits(-INFINITY)
    if a < 0 or a == INFINITY:
        return NAN if a < 0 else bits(a)
    value = math.log2(a)
    return within(value, 2.0**-22 if 0.5 < a < 2 else abs(value) * 2.0**-22, ftz)


def power_of_two(a: float, ftz: bool) -> Any:
    if a in (0, INFINITY, -INFINITY):
        return bits({0: 1.0, INFINITY: INFINITY, -INFINITY: 0.0}[a])
    value = 2.0 ** max(-400.0, min(a, 400.0))
    return within(value, 2 * ulp(value), ftz)


def circular(function: Callable[[float], float]) -> Callable[[float, bool], Any]:
    def expected(a: float, ftz: bool) -> Any:
        if math.isinf(a):
            return NAN
        if a == 0:
            return bits(math.copysign(function(0.0), a if function is math.sin else 1.0))
        if abs(a) > 50 * TURN:
            return ANY  # "best effort"
        return within(function(a), 2.0 ** (-20.5 if abs(a) <= TURN else -14.7), ftz)

    return expected


def hyperbolic(a: float, _: bool) -> Any:
    if a == 0 or math.isinf(a):
        return bits(math.tanh(a))
    return within(math.tanh(a), abs(math.tanh(a)) * 2.0**-11)


def half_hyperbolic(fmt: Format, error: float) -> Callable[[float, bool], Any]:
    def expected(a: float, _: bool) -> Any:
        return bits(math.tanh(a), fmt) if a == 0 or math.isinf(a) else within(math.tanh(a), error)

    return expected


def half_power(fmt: Format, relative: float) -> Callable[[float, bool], Any]:
    """A relative error can't hold for subnormal results: there one last place is allowed."""

    def expected(a: float, ftz: bool) -> Any:
        if a == 0 or math.isinf(a):
            return bits({0: 1.0, INFINITY: INFINITY, -INFINITY: 0.0}[a], fmt)
        value = 2.0 ** max(-400.0, min(a, 400.0))
        return within(value, max(value * relative, math.ldexp(1.0, fmt.lowest)), ftz)

    return expected


def quotient_special(a: int, b: int) -> Any:
    """IEEE 754's result where an operand is 0, infinite or NaN, else None."""
    x, y = F32.value(a), F32.value(b)
    sign = (a ^ b) & F32.sign_bit
    if math.isnan(x) or math.isnan(y) or (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
        return NAN
    if x == 0 or math.isinf(y):
        return sign
    return sign | F32.infinity if y == 0 or math.isinf(x) else None


def fast_quotient(ftz: bool, full: bool) -> Callable[[int, int], Any]:
    """div.full is good everywhere; div.approx only for divisors of 2**-126 to 2**126.

    Over 2**126 div.approx gives a zero (NaN for an infinite dividend), which is what 1/b flushed to zero gives:
    without .ftz, where it need not be flushed, a good quotient is as right.
    """

    def expected(a: int, b: int) -> Any:
        if ftz:
            a, b = F32.flushed(a), F32.flushed(b)
        x, y = F32.value(a), F32.value(b)
        special = quotient_special(a, b)
        good = special if special is not None else within(x / y, 2 * ulp(x / y), ftz)
        if full or math.isnan(y) or y == 0 or math.isinf(y):
            return good
        if abs(y) < 2.0**-126:
            return ANY
        if abs(y) > 2.0**126 and not math.isnan(x):
            coarse = NAN if math.isinf(x) else (a ^ b) & F32.sign_bit
            return coarse if ftz else OneOf((coarse, good))
        return good

    return expected


def single() -> Iterator[Case]:
    functions = {
        "rcp": reciprocal,
        "sqrt": root,
        "rsqrt": reciprocal_root_of(F32, 2.0**-22.9),
        "lg2": logarithm,
        "ex2": power_of_two,
        "sin": circular(math.sin),
        "cos": circular(math.cos),
    }
    some = [(a,) for a in sample()]
    for opcode, function in functions.items():
        for ftz in (False, True):
            expected = inexact(function, F32, ftz)
            yield Case(f"{opcode}.approx{'.ftz' * ftz}.f32", ("f32", "f32"), expected, values=some)
    yield Case("tanh.approx.f32", ("f32", "f32"), inexact(hyperbolic), values=some)
    for ftz in (False, True):
        kinds, modifier = ("f32",) * 3, ".ftz" * ftz
        yield Case(f"div.approx{modifier}.f32", kinds, fast_quotient(ftz, full=False), values=large_divisors())
        yield Case(f"div.full{modifier}.f32", kinds, fast_quotient(ftz, full=True), values=large_divisors())
    # PTX gives no bound for f64, but CUDA's rsqrt() is this instruction, with an error of one last place
    expected = inexact(reciprocal_root_of(FORMATS["f64"], 2.0**-51), FORMATS["f64"])
    yield Case("rsqrt.approx.f64", ("f64", "f64"), expected)


def sample() -> list[int]:
    """Numbers from -160 to 160 in uneven steps, for exponents and angles."""
    return [F32.rounded(F32.number(0)._replace(sign=i & 1, m=i * i * 419, e=-16), "rn") for i in range(1, 160)]


def large_divisors() -> list[tuple[int, int]]:
    huge = (0x7E800000, 0x7E800001, 0x7EFFFFFF, 0x7F000000, 0x7F7FFFFF, 0xFF000001)
    return [(a, b) for a in (0x3F800000, 0x7F7FFFFF, 0xFF800000, 0x7F800000, 0x00800000, 0xC2345678) for b in huge]


def half() -> Iterator[Case]:
    for opcode, fmt, function, arch in (
        ("tanh.approx", F16, half_hyperbolic(F16, 2.0**-10.987), "sm_89"),
        ("tanh.approx", BF16, half_hyperbolic(BF16, 2.0**-8), "sm_90"),
        ("ex2.approx", F16, half_power(F16, 2.0**-9.9), "sm_89"),
        ("ex2.approx.ftz", BF16, half_power(BF16, 2.0**-7), "sm_90"),
    ):
        expected, kind = inexact(function, fmt, "ftz" in opcode), fmt.name
        yield Case(f"{opcode}.{kind}", (kind, kind), expected, arch=arch)
        yield Case(f"{opcode}.{kind}x2", (f"{kind}x2",) * 2, in_pairs(expected), arch=arch)


def cases() -> Iterator[Case]:
    yield from single()
    yield from half()
