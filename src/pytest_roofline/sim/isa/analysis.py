"""What is known of a program before it runs: which registers an instruction reads and writes, what they hold."""

from __future__ import annotations

from ...build.ptx.flow import defined, registers, space_of, used
from ...build.ptx.syntax import SIZES, Imm, Instr, Reg
from .alu import TABLE
from .blocks import Flat
from .operation import Alu

# What arithmetic instructions may carry. What is not here is not understood, and then neither is the instruction.
MODIFIERS = {*SIZES, "u16x2", "s16x2", "rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "relu"}
MODIFIERS |= {"approx", "full", "NaN", "xorsign", "abs", "lo", "hi", "wide", "cc", "and", "or", "xor", "l", "r", "wrap"}
MODIFIERS |= {"clamp", "pack", "shiftamt", "u2", "s2", "u4", "s4", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16", "add"}
MODIFIERS |= {"finite", "infinite", "number", "notanumber", "normal", "subnormal", "num", "nan", "ls", "hs"}
MODIFIERS |= {name + end for name in ("eq", "ne", "lt", "le", "gt", "ge") for end in ("", "u")}

RAW = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}


def crossing(flat: Flat) -> set[str]:
    """Registers whose value has to outlive a block: those that some block reads before it writes them."""
    found: set[str] = set()
    for block in flat.blocks:
        written: set[str] = set()
        for item in block.body:
            found |= {name for name in used(item) if name not in written}
            written |= set(defined(item)) if item.pred is None else set()
        for operand in (block.branch[0] if block.branch else None, block.table):
            if operand is not None:
                found |= {name for name in registers(operand) if name not in written}
    return found


def alu_of(item: Instr) -> Alu | None:
    """The arithmetic that an instruction is; None if it is none, or not in the table."""
    if item.mods[0] not in TABLE or not {*item.mods[1:]} <= MODIFIERS:
        return None
    if "relu" in item.mods and not item.mods[-1].startswith(("f16", "bf16")) and item.mods[0] != "cvt":
        return None
    try:
        return TABLE[item.mods[0]](item.mods)
    except (KeyError, StopIteration, IndexError, ValueError):
        return None


def canonical_types(flat: Flat) -> dict[str, str]:
    """NumPy type of each register. Float where no bits come in: not from memory, shuffles or integer work."""
    floats = {name for name, kind in flat.regs.items() if SIZES.get(kind, 0) in (4, 8) and kind != "pred"}
    items = [item for block in flat.blocks for item in block.body]
    copies: list[tuple[str, list[str]]] = []
    made: dict[str, set[str]] = {}
    for item in items:
        names = defined(item)
        if item.mods[0] in ("mov", "selp") and item.mods[-1] in ("f32", "b32", "u32", "f64", "b64", "s32", "u64"):
            sources = item.operands[1:3] if item.mods[0] == "selp" else item.operands[1:2]
            if len(names) == 1 and all(isinstance(s, Reg | Imm) for s in sources):
                copies.append((names[0], [s.name for s in sources if isinstance(s, Reg)]))
                continue
        found = alu_of(item)
        kind = found.result if found else "raw"
        for name in names:
            made.setdefault(name, set()).add(kind)
    kinds = {n: next(iter(made[n])) for n in floats if len(made.get(n, ())) == 1 and made[n] <= {"f4", "f8"}}
    changed = True
    while changed:
        changed = False
        for target, given in copies:
            if target in kinds and {kinds.get(source) for source in given} - {kinds[target]}:
                del kinds[target]
                changed = True
    sizes = {name: SIZES[kind] for name, kind in flat.regs.items()}
    return {
        name: "?" if kind == "pred" else kinds.get(name, RAW.get(sizes[name], "u8")) for name, kind in flat.regs.items()
    }


def granule(flat: Flat, space: str) -> int:
    """The narrowest access to a space in bytes, for which its shadows are kept; a generic access counts for all."""
    sizes = [4]
    for block in flat.blocks:
        for item in block.body:
            if item.mods[0] in ("ld", "st", "atom", "red", "ldu") and space_of(item) in (space, ""):
                sizes.append(SIZES.get(item.mods[-1], 4))
            if item.mods[0] in ("ldmatrix", "stmatrix") and space == "shared":
                sizes.append(2)
    return min(sizes)


def opens_for_all(item: Instr) -> bool:
    """Whether all lanes of a chunk together just pass: not at a barrier with a count, or a number in a register."""
    if "cluster" in item.mods:
        return False
    if item.mods[0] not in ("bar", "barrier") or "warp" in item.mods or "arrive" in item.mods:
        return True
    operands = item.operands[1:-1] if "red" in item.mods else item.operands
    return len(operands) == 1 and isinstance(operands[0], Imm)
