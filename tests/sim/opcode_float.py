"""Arithmetic in f32 and f64, and in f16 and bf16 alone and in pairs, with every modifier they take."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from opcode_case import FORMATS, Case, Pair
from opcode_formats import (
    BF16,
    F16,
    F32,
    F64,
    NAN,
    ROUNDINGS,
    Format,
    Number,
    finished,
    negated,
    product,
    quotient,
    square_root,
    total,
)
from opcode_hard import fused, products, sums

ONE = Number("finite", 0, 1, 0)
# Exact results of numbers; the rounding mode matters for the sign of a zero sum.
EXACT: dict[str, Callable[..., Number]] = {
    "add": lambda mode, x, y: total(x, y, mode),
    "sub": lambda mode, x, y: total(x, negated(y), mode),
    "mul": lambda mode, x, y: product(x, y),
    "fma": lambda mode, x, y, z: total(product(x, y), z, mode),
    "div": lambda mode, x, y: quotient(x, y),
    "rcp": lambda mode, x: quotient(ONE, x),
    "sqrt": lambda mode, x: square_root(x),
}
HARD = {"add": sums, "sub": sums, "mul": products, "fma": fused}
ARITY = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}


def arithmetic(opcode: str, fmt: Format, modifiers: str = "") -> Callable[..., Any]:
    """What ``opcode`` with these modifiers (".rz.ftz.sat") gives for raw operands."""
    parts = modifiers.split(".")
    mode = next((part for part in parts if part in ROUNDINGS), "rn")
    ftz, sat, relu = ("ftz" in parts, "sat" in parts, "relu" in parts)
    exact = EXACT[opcode]

    def expected(*raw: int) -> Any:
        numbers = (fmt.number(fmt.flushed(bits) if ftz else bits) for bits in raw)
        return finished(fmt, exact(mode, *numbers), mode, ftz, sat, relu)

    return expected


def in_pairs(function: Callable[..., Any]) -> Callable[..., Pair]:
    return lambda *raw: Pair(function(*(bits & 0xFFFF for bits in raw)), function(*(bits >> 16 for bits in raw)))


def single_and_double() -> Iterator[Case]:
    for opcode, modifiers in itertools.product(("add", "sub", "mul", "fma"), modifier_sets(("", ".ftz"), ("", ".sat"))):
        kinds = ("f32",) * (1 + ARITY[opcode])
        yield Case(f"{opcode}{modifiers}.f32", kinds, arithmetic(opcode, F32, modifiers), HARD[opcode](F32))
    for opcode, modifiers in itertools.product(("div", "rcp", "sqrt"), modifier_sets(("", ".ftz"))):
        kinds = ("f32",) * (1 + ARITY[opcode])
        yield Case(f"{opcode}{modifiers}.f32", kinds, arithmetic(opcode, F32, modifiers))
    for opcode in EXACT:
        kinds = ("f64",) * (1 + ARITY[opcode])
        hard = HARD[opcode](F64) if opcode in HARD else ()
        for mode in ROUNDINGS:
            yield Case(f"{opcode}.{mode}.f64", kinds, arithmetic(opcode, F64, f".{mode}"), hard)
    for opcode, kind in itertools.product(("add", "sub", "mul"), ("f32", "f64")):  # rounded to nearest by default
        yield Case(f"{opcode}.{kind}", (kind,) * 3, arithmetic(opcode, FORMATS[kind]))


def modifier_sets(*choices: tuple[str, ...]) -> Iterator[str]:
    for mode, *rest in itertools.product(ROUNDINGS, *choices):
        yield f".{mode}{''.join(rest)}"


def signs() -> Iterator[Case]:
    for kind in ("f32", "f64"):
        fmt = FORMATS[kind]
        for ftz in ("", ".ftz") if kind == "f32" else ("",):
            yield Case(f"neg{ftz}.{kind}", (kind, kind), with_sign(fmt, lambda bits, f=fmt: bits ^ f.sign_bit, ftz))
            yield Case(f"abs{ftz}.{kind}", (kind, kind), with_sign(fmt, lambda bits, f=fmt: bits & ~f.sign_bit, ftz))
        yield Case(  # the sign of a, the value of b
            f"copysign.{kind}",
            (kind,) * 3,
            lambda a, b, f=fmt: (a & f.sign_bit) | (b & ~f.sign_bit),
        )


def with_sign(fmt: Format, function: Callable[[int], int], ftz: str = "") -> Callable[[int], Any]:
    """neg and abs: exact but for subnormals, which .ftz flushes, and NaNs, of which PTX says only that they stay."""

    def expected(a: int) -> Any:
        return NAN if fmt.is_nan(a) else function(fmt.flushed(a) if ftz else a)

    return expected


def extremum(opcode: str, fmt: Format, modifiers: str) -> Callable[[int, int], Any]:
    """min and max: -0 is less than +0, and one NaN loses unless .NaN lets it win."""
    ftz, nan, xorsign = (part in modifiers.split(".") for part in ("ftz", "NaN", "xorsign"))

    def rank(bits: int) -> int:
        return -1 - (bits ^ fmt.sign_bit) if bits & fmt.sign_bit else bits

    def expected(a: int, b: int) -> Any:
        if ftz:
            a, b = fmt.flushed(a), fmt.flushed(b)
        sign = (a ^ b) & fmt.sign_bit
        if xorsign:
            a, b = a & ~fmt.sign_bit, b & ~fmt.sign_bit
        numbers = [bits for bits in (a, b) if not fmt.is_nan(bits)]
        if not numbers or (nan and len(numbers) == 1):
            return NAN
        chosen = (min if opcode == "min" else max)(numbers, key=rank)
        return chosen | sign if xorsign else chosen

    return expected


def extrema() -> Iterator[Case]:
    for opcode in ("min", "max"):
        yield Case(f"{opcode}.f64", ("f64",) * 3, extremum(opcode, FORMATS["f64"], ""))
        for kind in ("f32", "f16", "bf16"):
            flushes = ("", ".ftz") if kind != "bf16" else ("",)
            for ftz, nan, absolute in itertools.product(flushes, ("", ".NaN"), ("", ".xorsign.abs")):
                modifiers = f"{ftz}{nan}{absolute}"
                name, function = f"{opcode}{modifiers}.{kind}", extremum(opcode, FORMATS[kind], modifiers)
                yield Case(name, (kind,) * 3, function)
                if kind != "f32":
                    yield Case(f"{name}x2", (f"{kind}x2",) * 3, in_pairs(function))


def both(opcode: str, modifiers: str, fmt: Format, arch: str) -> Iterator[Case]:
    """The scalar and the packed form of arithmetic in halves."""
    name, count, function = f"{opcode}{modifiers}.{fmt.name}", ARITY[opcode] + 1, arithmetic(opcode, fmt, modifiers)
    yield Case(name, (fmt.name,) * count, function, HARD[opcode](fmt), arch=arch)
    yield Case(f"{name}x2", (f"{fmt.name}x2",) * count, in_pairs(function), arch=arch)


def halves() -> Iterator[Case]:
    for opcode in ("add", "sub", "mul"):
        for modifiers in ("", ".rn", ".ftz", ".sat", ".rn.ftz.sat"):
            yield from both(opcode, modifiers, F16, "sm_89")
        for modifiers in ("", ".rn"):
            yield from both(opcode, modifiers, BF16, "sm_90")
    for modifiers in (".rn", ".rn.ftz", ".rn.sat", ".rn.ftz.sat", ".rn.relu", ".rn.ftz.relu"):
        yield from both("fma", modifiers, F16, "sm_89")
    for modifiers in (".rn", ".rn.relu"):
        yield from both("fma", modifiers, BF16, "sm_89")
    for fmt in (F16, BF16):
        for ftz in ("", ".ftz") if fmt is F16 else ("",):
            for opcode, function in (("neg", lambda bits: bits ^ 0x8000), ("abs", lambda bits: bits & 0x7FFF)):
                signed = with_sign(fmt, function, ftz)
                yield Case(f"{opcode}{ftz}.{fmt.name}", (fmt.name,) * 2, signed)
                yield Case(f"{opcode}{ftz}.{fmt.name}x2", (f"{fmt.name}x2",) * 2, in_pairs(signed))


def cases() -> Iterator[Case]:
    for group in (single_and_double, signs, extrema, halves):
        yield from group()
