"""Declarations of variables, parameters and registers."""

from __future__ import annotations

import re

from .syntax import SIZES, Variable
from .text import number, split

VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<space>global|const|shared|local|param|reg)\s*"
    r"(?:\.align\s+(?P<align>\d+)\s*)?(?:\.v(?P<vector>[24])\s+)?\.(?P<type>\w+)\s+(?P<rest>.*)",
    re.DOTALL,
)
NAME = re.compile(
    r"(?P<name>[\w$%]+)\s*(?:<(?P<many>\d+)>)?(?P<dims>(?:\[\d*\])*)\s*(?:=\s*(?P<value>.*))?$", re.DOTALL
)


def declared(statement: str) -> list[Variable] | None:
    """The variables that a declaration makes; registers given by count come one by one. None if it is none."""
    found = VARIABLE.match(statement.strip())
    if not found:
        return None
    kind, each = found["type"], SIZES.get(found["type"], 0) * int(found["vector"] or 1)
    variables = []
    for part in split(found["rest"]):
        # NVRTC says of a pointer ".ptr .align 1" from sm_100 on.
        item = NAME.match(re.sub(r"^(\.align\s+\d+|\.\w+|\s)+", "", part.strip()))
        if not item or not each:
            return None
        if item["many"]:
            variables += [Variable(f"{item['name']}{n}", "reg", kind, each, each) for n in range(int(item["many"]))]
            continue
        size = each
        for extent in re.findall(r"\[(\d*)\]", item["dims"]):
            size = size * int(extent) if extent else -1
        data, problem = _initial(item["value"], kind, size) if item["value"] else (b"", "")
        align = int(found["align"] or each)
        pointer = ".ptr" in part
        variables.append(Variable(item["name"], found["space"], kind, align, size, data, problem, pointer))
    return variables


def _initial(text: str, kind: str, size: int) -> tuple[bytes, str]:
    """The bytes of an initial value, or why they are not known."""
    each, found = SIZES[kind], bytearray()
    for value in re.findall(r"[^\s{},]+", text):
        known = number(value)
        if known is None:  # the address of something else: known at load only
            return b"", f"a variable that holds an address ({value}) is not simulated"
        found += (known.value % (1 << 8 * each)).to_bytes(each, "little")
    return bytes(found) + bytes(max(0, size - len(found))), ""
