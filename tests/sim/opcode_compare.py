"""Comparison and selection: setp, set, selp, slct, testp."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opcode_case import FORMATS, HALVES, WIDTHS, Case, integer, mask
from opcode_formats import BF16, F16, F32, FINITE, NOT_A_NUMBER, Format, Number

ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNORDERED = tuple(f"{name}u" for name in ORDERED)
SAME = ("lo", "ls", "hi", "hs")  # lower, lower or same, higher, higher or same
LETTERS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
OPERATORS = {
    "s": ORDERED,
    "u": ORDERED + SAME,
    "b": ("eq", "ne"),
    "f": (*ORDERED, *UNORDERED, "num", "nan"),
}
BOOLEAN: dict[str, Callable[[bool, bool], bool]] = {
    "and": lambda t, c: t and c,
    "or": lambda t, c: t or c,
    "xor": lambda t, c: t != c,
}
SCALARS = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")


def holds(operator: str, order: int) -> bool:
    """Does ``operator`` hold for a and b with ``order`` -1, 0 or 1?"""
    return {
        "eq": order == 0,
        "ne": order != 0,
        "lt": order < 0,
        "le": order <= 0,
        "gt": order > 0,
        "ge": order >= 0,
    }[LETTERS.get(operator, operator)]


def compared_floats(operator: str, fmt: Format, a: int, b: int, ftz: bool = False) -> bool:
    if ftz:
        a, b = fmt.flushed(a), fmt.flushed(b)
    unordered = fmt.is_nan(a) or fmt.is_nan(b)
    if operator in ("num", "nan"):
        return unordered == (operator == "nan")
    if unordered:
        return operator in UNORDERED
    x, y = fmt.number(a), fmt.number(b)
    return holds(operator[:2], order(x, y))


def order(x: Number, y: Number) -> int:
    def key(n: Number) -> tuple[int, int]:
        infinite = 0 if n.kind == FINITE else (-1 if n.sign else 1)
        exact = 0 if infinite else (-n.m if n.sign else n.m) << (n.e + 1100)
        return infinite, exact

    assert NOT_A_NUMBER not in (x.kind, y.kind)
    return (key(x) > key(y)) - (key(x) < key(y))


def comparison(operator: str, kind: str, ftz: bool = False) -> Callable[[int, int], bool]:
    if kind in FORMATS:
        return lambda a, b: compared_floats(operator, FORMATS[kind], a, b, ftz)

    def compared(a: int, b: int) -> bool:
        x, y = integer(kind, a), integer(kind, b)
        return holds(operator, (x > y) - (x < y))

    return compared


def operators(kind: str) -> tuple[str, ...]:
    return OPERATORS["f" if kind in FORMATS else kind[0]]


def architecture(kind: str) -> str:
    return "sm_90" if kind.startswith("bf16") else "sm_89"


def setp() -> Iterator[Case]:
    plain = [(kind, False) for kind in (*SCALARS, "f16", "bf16")]
    for kind, ftz in [*plain, ("f32", True), ("f16", True)]:
        for operator in operators(kind):
            name, compare = f"setp.{operator}{'.ftz' * ftz}.{kind}", comparison(operator, kind, ftz)
            yield Case(
                name,
                ("pred", kind, kind),
                lambda a, b, f=compare: int(f(a, b)),
                text=f"{{ .reg .pred p; {name} p, %1, %2; selp.b32 %0, 1, 0, p; }}",
                arch=architecture(kind),
            )


def setp_combined() -> Iterator[Case]:
    """With a second destination for the negated comparison, and a predicate to combine both with."""
    picked = [("lt", "s32", False), ("hi", "u64", False), ("ne", "b16", False), ("gtu", "f32", True)]
    for operator, kind, ftz in [*picked, ("num", "f64", False), ("leu", "f32", False), ("ge", "s16", False)]:
        for boolean, combine in BOOLEAN.items():
            for negate in ("", "!"):
                name = f"setp.{operator}.{boolean}{'.ftz' * ftz}.{kind}"
                compare = comparison(operator, kind, ftz)

                def expected(a, b, c, compare=compare, combine=combine, negate=negate) -> tuple[int, int]:
                    t, p = compare(a, b), (c != 0) != bool(negate)
                    return int(combine(t, p)), int(combine(not t, p))

                body = f"setp.ne.u32 r, %4, 0; {name} p|q, %2, %3, {negate}r;"
                yield Case(
                    f"{name}{'.not' * bool(negate)}",
                    ("pred", "pred", kind, kind, "u32"),
                    expected,
                    text=f"{{ .reg .pred p, q, r; {body} selp.b32 %0, 1, 0, p; selp.b32 %1, 1, 0, q; }}",
                    outputs=2,
                    domains={2: (0, 1)},
                )


def setp_packed() -> Iterator[Case]:
    """Two halves, two predicates: p for the lower, q for the upper half."""
    for kind, fmt in HALVES.items():
        for operator in operators("f16"):
            name = f"setp.{operator}.{kind}"
            compare = comparison(operator, fmt.name)
            yield Case(
                name,
                ("pred", "pred", kind, kind),
                lambda a, b, f=compare: (int(f(a & 0xFFFF, b & 0xFFFF)), int(f(a >> 16, b >> 16))),
                text=f"{{ .reg .pred p, q; {name} p|q, %2, %3; selp.b32 %0, 1, 0, p; selp.b32 %1, 1, 0, q; }}",
                outputs=2,
                arch=architecture(kind),
            )


def truth(kind: str, value: bool) -> int:
    """What set writes: all ones to an integer, 1.0 to a floating-point destination."""
    if not value:
        return 0
    return FORMATS[kind].one if kind in FORMATS else mask(WIDTHS[kind])


def set_() -> Iterator[Case]:
    for source in SCALARS:
        for target in ("u32", "s32", "f32"):
            for operator in operators(source) if target == "u32" else operators(source)[-2:]:
                compare = comparison(operator, source)
                yield Case(
                    f"set.{operator}.{target}.{source}",
                    (target, source, source),
                    lambda a, b, f=compare, t=target: truth(t, f(a, b)),
                )
    combined = (("lt", "and", "u32", "s32"), ("neu", "or", "f32", "f32"), ("ge", "xor", "s32", "u64"))
    for operator, boolean, target, source in combined:
        name = f"set.{operator}.{boolean}.{target}.{source}"
        compare, combine = comparison(operator, source), BOOLEAN[boolean]
        yield Case(
            name,
            (target, source, source, "u32"),
            lambda a, b, c, f=compare, g=combine, t=target: truth(t, g(f(a, b), c != 0)),
            text=f"{{ .reg .pred r; setp.ne.u32 r, %3, 0; {name} %0, %1, %2, r; }}",
            domains={2: (0, 1)},
        )
    for operator in ("lt", "geu"):
        compare = comparison(operator, "f32", ftz=True)
        yield Case(f"set.{operator}.ftz.u32.f32", ("u32", "f32", "f32"), lambda a, b, f=compare: truth("u32", f(a, b)))


def set_half() -> Iterator[Case]:
    for fmt in (F16, BF16):
        kind, arch = fmt.name, architecture(fmt.name)
        for target in ("u16", "s16", "u32", "s32", kind):
            for operator in ("eq", "lt", "geu", "nan"):
                compare = comparison(operator, kind)
                yield Case(
                    f"set.{operator}.{target}.{kind}",
                    (target, kind, kind),
                    lambda a, b, f=compare, t=target: truth(t, f(a, b)),
                    arch=arch,
                )
    for kind, fmt in HALVES.items():
        for target in ("u32", "s32", kind):
            for operator in ("ne", "gt", "leu", "num"):
                compare = comparison(operator, fmt.name)
                half = fmt.name if target == kind else "u16"
                yield Case(
                    f"set.{operator}.{target}.{kind}",
                    (target, kind, kind),
                    lambda a, b, f=compare, t=half: truth_of_halves(a, b, f, t),
                    arch=architecture(kind),
                )


def truth_of_halves(a: int, b: int, compare: Callable[[int, int], bool], half: str) -> int:
    low = truth(half, compare(a & 0xFFFF, b & 0xFFFF))
    return low | truth(half, compare(a >> 16, b >> 16)) << 16


def selections() -> Iterator[Case]:
    for kind in SCALARS:
        yield Case(
            f"selp.{kind}",
            (kind, kind, kind, "u32"),
            lambda a, b, c: a if c else b,
            text=f"{{ .reg .pred p; setp.ne.u32 p, %3, 0; selp.{kind} %0, %1, %2, p; }}",
            domains={2: (0, 1)},
        )
        yield Case(f"slct.{kind}.s32", (kind, kind, kind, "s32"), lambda a, b, c: b if c >> 31 else a)
        for ftz in (False, True):
            yield Case(
                f"slct{'.ftz' * ftz}.{kind}.f32",
                (kind, kind, kind, "f32"),
                lambda a, b, c, z=ftz: a if compared_floats("ge", F32, c, 0, z) else b,
            )


def tests() -> Iterator[Case]:
    properties: dict[str, Callable[[Format, int], bool]] = {
        "finite": lambda f, a: a & ~f.sign_bit < f.infinity,
        "infinite": lambda f, a: a & ~f.sign_bit == f.infinity,
        "number": lambda f, a: not f.is_nan(a),
        "notanumber": lambda f, a: f.is_nan(a),
        "normal": lambda f, a: a & ~f.sign_bit < f.infinity and not f.is_subnormal(a),  # zeros are normal here
        "subnormal": lambda f, a: f.is_subnormal(a),
    }
    for kind in ("f32", "f64"):
        for name, has in properties.items():
            yield Case(
                f"testp.{name}.{kind}",
                ("pred", kind),
                lambda a, has=has, f=FORMATS[kind]: int(has(f, a)),
                text=f"{{ .reg .pred p; testp.{name}.{kind} p, %1; selp.b32 %0, 1, 0, p; }}",
            )


def cases() -> Iterator[Case]:
    for group in (setp, setp_combined, setp_packed, set_, set_half, selections, tests):
        yield from group()
