"""All cases: one for each opcode, type and set of modifiers."""

from __future__ import annotations

import opcode_approx
import opcode_bits
import opcode_compare
import opcode_convert
import opcode_float
import opcode_integer
import opcode_warp
from opcode_case import Case

PARTS: dict[str, list[Case]] = {
    module.__name__: list(module.cases())
    for module in (
        opcode_integer,
        opcode_bits,
        opcode_compare,
        opcode_convert,
        opcode_float,
        opcode_approx,
        opcode_warp,
    )
}
CASES = [case for part in PARTS.values() for case in part]
