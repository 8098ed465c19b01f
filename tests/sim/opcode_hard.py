"""Operands whose exact result lies next to a halfway point, where rounding twice, or too early, shows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from opcode_formats import FINITE, Format, Number

Rows = tuple[tuple[int, ...], ...]
BOTH = (0, 1)


def encoded(fmt: Format, m: int, e: int, sign: int = 0) -> int:
    """Bits of m * 2**e, which ``fmt`` has to hold exactly."""
    x = Number(FINITE, sign, m, e)
    bits = fmt.rounded(x, "rz")
    got = fmt.number(bits)
    assert got.m << (got.e - fmt.lowest) == m << (e - fmt.lowest), (fmt.name, m, e)
    return bits


@cache
def sums(fmt: Format) -> Rows:
    """A number, and half of its last place or the neighbours of that half."""
    p = fmt.precision
    half = 1 << (p - 1)
    rows = []
    for m in (half, half + 1, half + 2, 2 * half - 1):
        for e in (0, -p, 3):
            for small in (half, half + 1, 2 * half - 1):  # 2 * half - 1 is just below the half one binade down
                for scale in (-p, -p - 1):
                    for sign in BOTH:
                        rows.append((encoded(fmt, m, e), encoded(fmt, small, e + scale, sign)))
    return (*rows, *((b, a) for a, b in rows[::5]))


@cache
def products(fmt: Format) -> Rows:
    """Significands with a product whose upper half is a significand and whose lower half is a tie, or next to it."""
    p = fmt.precision
    rng = random.Random(fmt.name)
    rows: list[tuple[int, ...]] = []
    for cut in (p, p - 1):
        while len(rows) < (24 if cut == p else 48):
            m = rng.getrandbits(p - 1) | 1 << (p - 1) | 1
            off = rng.choice((-1, 1, 3, -3))
            n = ((1 << (cut - 1)) + off) * pow(m, -1, 1 << cut) % (1 << cut)
            if (m * n).bit_length() == p + cut:
                rows.append((encoded(fmt, m, 1 - p, rng.randint(0, 1)), encoded(fmt, n, 1 - p)))
    return (*rows, *tiny_products(fmt))


def tiny_products(fmt: Format) -> Iterator[tuple[int, ...]]:
    """Products next to halfway between two subnormals: (2**k + 1) * (2**k - 1) and so on, in their last places."""
    k = fmt.precision - 1
    low, high = fmt.lowest // 2, fmt.lowest - fmt.lowest // 2
    for m, n in (((1 << k) + 1, (1 << k) - 1), ((1 << k) + 1, (1 << k) + 1), ((3 << k - 1) + 1, (1 << k) - 1)):
        for shift in (0, 1, 2, 5):
            yield encoded(fmt, m, low - k), encoded(fmt, n, high - k + shift, shift & 1)


@cache
def fused(fmt: Format) -> Rows:
    """a * b a little off a half of c's last place, far beyond what a wider format would keep; and cancellation."""
    p = fmt.precision
    k = p - 1
    rows = []
    for m in ((1 << k) + 1, (1 << k) + 2, (1 << p) - 1):
        for e in (1, 1 - p):  # the last place of c; half of it is 2**(e - 1)
            for a, b in (((1 << k) + 1, (1 << k) - 1), ((1 << k) + 1, (1 << k) + 1), (1 << k, 1 << k)):
                for sign in BOTH:
                    rows.append((encoded(fmt, a, e - 1 - k, sign), encoded(fmt, b, -k), encoded(fmt, m, e)))
                    rows.append((encoded(fmt, a, e - 1 - k, sign), encoded(fmt, b, -k), encoded(fmt, m, e, 1)))
    for a, b in products(fmt)[:24]:  # c takes the leading half of a * b away, or almost
        x, y = fmt.number(a), fmt.number(b)
        exact = Number(FINITE, 1 - (x.sign ^ y.sign), x.m * y.m, x.e + y.e)
        for mode in ("rz", "rn"):
            rows.append((a, b, fmt.rounded(exact, mode)))
    rows += [(a, b, bits) for a, b in tiny_products(fmt) for bits in (1, fmt.sign_bit | 1, 3, fmt.min_normal)]
    return tuple(rows)


@cache
def halfway_floats(source: Format, target: Format) -> Rows:
    """Numbers of the wider ``source`` halfway between two of ``target``, and their neighbours."""
    rows = []
    p = target.precision
    for m in (1 << (p - 1), (1 << (p - 1)) + 1, (1 << p) - 1, (1 << (p - 1)) + 6):
        for e in (1 - p, target.highest, target.lowest, target.lowest + 1):
            rows.append((m, e))
    rows += [(m, target.lowest) for m in (0, 1, 2, 5, (1 << (p - 1)) - 1)]  # subnormals
    found = []
    for m, e in rows:
        at = source.rounded(Number(FINITE, 0, 2 * m + 1, e - 1), "rz")
        for bits in (at, at - 1, at + 1):
            if 0 <= bits < source.infinity:
                found += [(bits,), (bits | source.sign_bit,)]
    return tuple(found)


@cache
def halfway_integers(width: int, is_signed: bool, target: Format) -> Rows:
    """Integers halfway between two of ``target``, and their neighbours, of which a detour would lose the last bit."""
    p, found = target.precision, []
    for length in range(p + 1, width + (not is_signed)):
        step = 1 << (length - p)
        for m in (1 << (p - 1), (1 << (p - 1)) + 1, (1 << p) - 1):
            at = m * step + step // 2
            for value in (at, at - 1, at + 1):
                found.append((value,))
                if is_signed:
                    found.append((-value & ((1 << width) - 1),))
    return tuple(found[:: max(1, len(found) // 120)])
