"""cvt among all integer and floating-point types, and the packing forms of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from opcode_case import FORMATS, WIDTHS, Case, Pair, bits_of, integer, limits, mask, signed
from opcode_formats import BF16, F16, F32, FINITE, INFINITE, NOT_A_NUMBER, ROUNDINGS, Number, finished, rounded_integer
from opcode_hard import halfway_floats, halfway_integers

INTEGERS = tuple(f"{sign}{width}" for width in (8, 16, 32, 64) for sign in "us")
FLOATS = ("f16", "bf16", "f32", "f64")
WHOLE = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def exists(source: str, target: str) -> bool:
    """bf16 and 8-bit integers convert only in 8-bit registers, which no compiler emits and inline assembly lacks."""
    return "bf16" not in (source, target) or 8 not in (WIDTHS[source], WIDTHS[target])


def architecture(*kinds: str) -> str:
    return "sm_90" if "bf16" in kinds else "sm_89"


def register_bits(kind: str, value: int) -> int:
    """``value`` of an integer type in its register, extended where that is wider."""
    return integer(kind, value) & mask(bits_of(kind))


def clipped(kind: str, value: int) -> int:
    low, high = limits(kind)
    return max(low, min(high, value))


def integer_to_integer() -> Iterator[Case]:
    for source in INTEGERS:
        for target in INTEGERS:

            def wrapped(a: int, source: str = source, target: str = target) -> int:
                return register_bits(target, integer(source, a))

            def saturated(a: int, source: str = source, target: str = target) -> int:
                return register_bits(target, clipped(target, integer(source, a)))

            yield Case(f"cvt.{target}.{source}", (target, source), wrapped)
            (low, high), (least, most) = limits(source), limits(target)
            if low < least or high > most:
                yield Case(f"cvt.sat.{target}.{source}", (target, source), saturated)


def integer_to_float() -> Iterator[Case]:
    for source in INTEGERS:
        for target in (kind for kind in FLOATS if exists(source, kind)):
            for mode in ROUNDINGS:
                for sat in (False, True) if target == "f32" and mode in ("rn", "rz") else (False,):

                    def expected(a: int, s: str = source, t: str = target, m: str = mode, sat: bool = sat) -> Any:
                        value = integer(s, a)
                        return finished(FORMATS[t], Number(FINITE, int(value < 0), abs(value), 0), m, sat=sat)

                    name = f"cvt.{mode}{'.sat' * sat}.{target}.{source}"
                    hard = halfway_integers(WIDTHS[source], source[0] == "s", FORMATS[target])
                    yield Case(name, (target, source), expected, hard, arch=architecture(target))


def nan_as_integer(source: str, target: str) -> int:
    """0, but for f64 and the 64-bit integers only the highest bit."""
    if source != "f64" and target not in ("s64", "u64"):
        return 0
    return register_bits(target, 1 << (WIDTHS[target] - 1))


def float_to_integer() -> Iterator[Case]:
    for source in FLOATS:
        for target in (kind for kind in INTEGERS if exists(source, kind)):
            for rounding, mode in WHOLE.items():
                for ftz in (False, True) if source == "f32" else (False,):

                    def expected(a: int, s: str = source, t: str = target, m: str = mode, ftz: bool = ftz) -> int:
                        x = FORMATS[s].number(FORMATS[s].flushed(a) if ftz else a)
                        if x.kind == NOT_A_NUMBER:
                            return nan_as_integer(s, t)
                        magnitude = 1 << 64 if x.kind == INFINITE else rounded_integer(x, m)
                        return register_bits(t, clipped(t, -magnitude if x.sign else magnitude))

                    name = f"cvt.{rounding}{'.ftz' * ftz}.{target}.{source}"
                    yield Case(name, (target, source), expected, arch=architecture(source))


def converted(a: int, source: str, target: str, mode: str, ftz: bool = False, **how: bool) -> Any:
    """``ftz`` flushes single precision only, on both sides; not before f16 rounded down or up, as an H200 has it."""
    if ftz and source == "f32" and not (target == "f16" and mode in ("rm", "rp")):
        a = F32.flushed(a)
    return finished(FORMATS[target], FORMATS[source].number(a), mode, ftz=ftz and target == "f32", **how)


def float_to_float() -> Iterator[Case]:
    sizes = {"f16": 10, "bf16": 9, "f32": 23, "f64": 52}  # neither f16 nor bf16 holds all numbers of the other
    for source in FLOATS:
        for target in FLOATS:
            lossy = sizes[target] < sizes[source] or {source, target} == {"f16", "bf16"}
            if source == target:
                continue
            for mode in ROUNDINGS if lossy else ("",):
                for modifiers in ("", ".sat", ".ftz", ".ftz.sat"):
                    ftz, sat = ".ftz" in modifiers, ".sat" in modifiers
                    if ftz and "f32" not in (source, target):
                        continue
                    if modifiers and "bf16" in (source, target):
                        continue

                    def expected(a: int, s=source, t=target, m=mode or "rn", ftz=ftz, sat=sat) -> Any:
                        return converted(a, s, t, m, ftz, sat=sat)

                    name = f"cvt{'.' * bool(mode)}{mode}{modifiers}.{target}.{source}"
                    hard = halfway_floats(FORMATS[source], FORMATS[target]) if lossy else ()
                    yield Case(name, (target, source), expected, hard, arch=architecture(source, target))


def to_whole_numbers() -> Iterator[Case]:
    """Rounded to an integer that stays in the floating-point type; the sign of a zero is kept."""
    for kind in FLOATS:
        fmt = FORMATS[kind]
        for rounding, mode in WHOLE.items():
            for modifiers in ("", ".sat", ".ftz", ".ftz.sat") if kind == "f32" else ("",):
                ftz, sat = ".ftz" in modifiers, ".sat" in modifiers

                def expected(a: int, fmt=fmt, m=mode, ftz=ftz, sat=sat) -> Any:
                    x = fmt.number(fmt.flushed(a) if ftz else a)
                    if x.kind == FINITE:
                        x = x._replace(m=rounded_integer(x, m), e=0)
                    return finished(fmt, x, sat=sat)

                yield Case(f"cvt.{rounding}{modifiers}.{kind}.{kind}", (kind, kind), expected, arch=architecture(kind))
    for modifiers in (".ftz", ".sat", ".ftz.sat"):  # no rounding at all
        ftz, sat = ".ftz" in modifiers, ".sat" in modifiers
        yield Case(
            f"cvt{modifiers}.f32.f32",
            ("f32", "f32"),
            lambda a, ftz=ftz, sat=sat: converted(a, "f32", "f32", "rn", ftz, sat=sat),
        )


def narrow() -> Iterator[Case]:
    """The forms of float to half that came with sm_80: rn and rz, relu, and two at a time, a in the upper half."""
    for fmt in (F16, BF16):
        for mode in ("rn", "rz"):
            for relu in (False, True):

                def one(a: int, target: str = fmt.name, mode: str = mode, relu: bool = relu) -> Any:
                    return converted(a, "f32", target, mode, relu=relu)

                def two(a: int, b: int, one: Callable[[int], Any] = one) -> Pair:
                    return Pair(low=one(b), high=one(a))

                prefix = f"cvt.{mode}{'.relu' * relu}.{fmt.name}"
                if relu or fmt is BF16:
                    yield Case(f"{prefix}.f32", (fmt.name, "f32"), one, halfway_floats(F32, fmt))
                yield Case(f"{prefix}x2.f32", (f"{fmt.name}x2", "f32", "f32"), two)
    yield Case("cvt.f32.bf16", ("f32", "bf16"), lambda a: converted(a, "bf16", "f32", "rn"))
    yield Case("cvt.rna.tf32.f32", ("tf32", "f32"), to_tf32)


def to_tf32(a: int) -> Any:
    """Ties away from zero at ten bits of fraction; PTX leaves the thirteen bits below them open.

    A NaN with nothing but those thirteen may so become an infinity, as it does on an H200.
    """
    if F32.is_nan(a):
        return lambda bits: F32.is_nan(bits) or bits >> 13 == a >> 13
    wanted = a if a & 0x7FFFFFFF == F32.infinity else a + 0x1000
    return lambda bits: bits >> 13 == wanted >> 13


def packs() -> Iterator[Case]:
    for target in ("u16", "s16"):
        yield Case(f"cvt.pack.sat.{target}.s32", ("b32", "s32", "s32"), lambda a, b, t=target: pack(a, b, 16, t[0]))
    for width in (2, 4, 8):
        for sign in "us":
            yield Case(
                f"cvt.pack.sat.{sign}{width}.s32.b32",
                ("b32", "s32", "s32", "b32"),
                lambda a, b, c, w=width, s=sign: (pack(a, b, w, s) | c << (2 * w)) & mask(32),
            )


def pack(a: int, b: int, width: int, sign: str) -> int:
    low, high = (-(1 << (width - 1)), mask(width - 1)) if sign == "s" else (0, mask(width))
    x, y = (max(low, min(high, signed(raw, 32))) & mask(width) for raw in (a, b))
    return x << width | y


def cases() -> Iterator[Case]:
    seen = set()
    for group in (
        integer_to_integer,
        integer_to_float,
        float_to_integer,
        narrow,
        float_to_float,
        to_whole_numbers,
        packs,
    ):
        for case in group():
            if case.opcode not in seen:
                seen.add(case.opcode)
                yield case
