"""The table of arithmetic instructions.

Each entry maps the first part of an opcode to a maker; the maker takes all its parts ("add", "rn", "ftz", "f32") and
returns an :class:`~pytest_roofline.sim.isa.operation.Alu`, or None if it does not know the combination. Definitions are
those of the PTX ISA.
"""

from __future__ import annotations

from collections.abc import Callable

from .alu_bits import (
    bitwise,
    byte_differences,
    count_bits,
    extract,
    find_nth,
    funnel,
    insert,
    lut,
    permute,
    reverse,
    shift,
)
from .alu_convert import compare, convert, select
from .alu_float import arithmetic, copysign, divide, min_max, sign, testp, unary_float
from .alu_int import dot, int_arithmetic, remainder, sad
from .operation import Alu


def first_of(*makers: Callable[[tuple[str, ...]], Alu | None]) -> Callable[[tuple[str, ...]], Alu | None]:
    def make(mods: tuple[str, ...]) -> Alu | None:
        return next((found for maker in makers if (found := maker(mods)) is not None), None)

    return make


TABLE: dict[str, Callable[[tuple[str, ...]], Alu | None]] = {
    **dict.fromkeys(("add", "sub", "mul"), first_of(arithmetic, int_arithmetic)),
    **dict.fromkeys(("mad", "mul24", "mad24", "addc", "subc", "madc"), int_arithmetic),
    "fma": arithmetic,
    "div": divide,
    "rem": remainder,
    **dict.fromkeys(("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"), unary_float),
    **dict.fromkeys(("min", "max"), min_max),
    **dict.fromkeys(("neg", "abs"), sign),
    "copysign": copysign,
    "testp": testp,
    "sad": sad,
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), bitwise),
    **dict.fromkeys(("shl", "shr"), shift),
    "shf": funnel,
    "lop3": lambda mods: Alu(lut, ("u4",) * 4, "u4"),
    "prmt": permute,
    **dict.fromkeys(("popc", "clz", "bfind"), count_bits),
    "brev": reverse,
    "bfe": extract,
    "bfi": insert,
    **dict.fromkeys(("dp4a", "dp2a"), dot),
    "fns": find_nth,
    "vabsdiff4": byte_differences,
    **dict.fromkeys(("setp", "set"), compare),
    **dict.fromkeys(("selp", "slct"), select),
    "cvt": convert,
}
