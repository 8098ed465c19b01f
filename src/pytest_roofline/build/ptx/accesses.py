"""Counts in a kernel's PTX: how often it touches global memory, and how wide.

Static counts: an instruction in a loop is one instruction. PTX comes before ptxas, which neither adds nor merges
global accesses of straight-line code; ISA terms are those of NVIDIA's "PTX ISA", state spaces and ld, st, atom, red.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import ToolOutputError

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# One to a line after _body; a label, a guard or the brace of inline assembly may stand in front.
ACCESS = re.compile(
    r"^[\s{]*(?:\$?\w+:\s*)?(?:@!?%?\w+\s+)?(?P<op>ldu|ld|st|atom|red|cp\.async|cp\.reduce)(?P<how>(?:\.[\w:]+)+)\s+(?P<on>.*);$",
    re.MULTILINE,
)
UNCOUNTED = re.compile(
    r"^[\s{]*(?:@!?%?\w+\s+)?(?:call\b|(?:ld|st)(?!\.(?:[\w:]+\.)*(?:global|shared|local|const|param)\b)\.)[^;]*;",
    re.MULTILINE,
)
TYPE = re.compile(r"(?:[busf]|bf)(8|16|32|64|128)(x[24])?")


@dataclass(frozen=True)
class GlobalAccess:
    """One global memory instruction: ``op`` ("ld", "st", "atom", "red", "ldu", "cp.async") and bytes per thread."""

    op: str
    bytes: int


def global_accesses(ptx: str, kernel: str) -> list[GlobalAccess]:
    """The global memory instructions in the body of ``kernel``, in order.

    Bytes are element size times vector width. Only what names the global space counts: not generic addresses, not
    functions that the kernel calls, not prefetches.
    Errors: :class:`ToolOutputError` if there is no such kernel, or an access whose width can't be read.
    """
    accesses = []
    for found in ACCESS.finditer(_body(ptx, kernel)):
        how = found["how"].split(".")[1:]
        if "global" not in how:
            continue
        accesses.append(GlobalAccess(found["op"], _width(found, how)))
    return accesses


def uncounted(ptx: str, kernel: str) -> str | None:
    """The first instruction of ``kernel`` that may touch global memory unseen by :func:`global_accesses`.

    That is a call, or a load or store that names no state space.
    """
    return next((found.group().strip() for found in UNCOUNTED.finditer(_body(ptx, kernel))), None)


def _width(found: re.Match[str], how: list[str]) -> int:
    if found["op"].startswith("cp."):  # cp.async.ca.shared.global [to], [from], 16;
        size = re.match(r"\[[^]]*\],\s*\[[^]]*\],\s*(\d+)", found["on"])
        if size:
            return int(size.group(1))
    elif types := [match for part in how if (match := TYPE.fullmatch(part))]:
        element = int(types[0][1]) // 8 * int((types[0][2] or "x1")[1:])
        vector = next((int(part[1:]) for part in how if re.fullmatch(r"v\d", part)), 1)
        return element * vector
    raise ToolOutputError(f"the width of this global access can't be read from the PTX: {found.group().strip()}")


def _body(ptx: str, kernel: str) -> str:
    """The kernel's body, without comments, one instruction a line."""
    text = COMMENT.sub("", ptx)
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\([^)]*\)[^{{]*", text)
    if head is None:
        names = re.findall(r"\.entry\s+([\w$]+)", text)
        raise ToolOutputError(f"the PTX has no kernel {kernel}; it has {', '.join(names) or 'none'}")
    depth = 0
    for at in range(head.end(), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return re.sub(r";[ \t]*", ";\n", text[head.end() + 1 : at])
    raise ToolOutputError(f"the PTX of kernel {kernel} is cut short: its body has no end")
