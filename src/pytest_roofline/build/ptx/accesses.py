"""Accesses to global memory in a kernel's PTX: what is accessed, how, how wide, and through which parameter.

Static: an instruction in a loop is one instruction. PTX comes before ptxas, which neither adds nor merges global
accesses of straight-line code; ISA terms are those of NVIDIA's "PTX ISA", state spaces and ld, st, atom, red, cp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import ToolOutputError
from .flow import GLOBAL, UNKNOWN, registers, sources, space_of, symbols
from .inline import Inlined, inlined
from .syntax import SIZES, Imm, Instr, Loc, Mem, Module, Operand, Sym

PLAIN = {"ld": "r", "ldu": "r", "st": "w", "atom": "rw", "red": "rw"}
NO_WIDTH = "the width of this global access can't be read from the PTX: {} at {}"
UNSEEN = ("call", "tex", "tld4", "suld", "sust", "sured")


@dataclass(frozen=True)
class Access:
    """One instruction that accesses global memory.

    ``op`` is "ld", "ldu", "st", "atom", "red", "cp.async", "cp.async.bulk", "cp.reduce.async.bulk", "multimem" or
    "wmma"; ``bytes`` is per thread, of a copy in bulk all of it, None where a register says how many. ``target`` is the
    position of the parameter that is pointed to, the name of a variable of the module, or None where it can't be told.
    """

    op: str
    bytes: int | None
    target: int | str | None
    reads: bool
    writes: bool
    loc: Loc

    @property
    def atomic(self) -> bool:
        """Whether blocks may work on the same place by it."""
        return self.reads and self.writes


def accesses(module: Module, kernel: str) -> tuple[Access, ...]:
    """The accesses to global memory of ``kernel`` and of the functions it calls (once for each call), in order.

    A generic access counts if it goes through a parameter or a global variable; if that can't be told,
    :func:`uncounted` names it. Prefetches do not count.
    Errors: :class:`ToolOutputError` for a kernel that is not there, or an access whose width can't be read.
    """
    return tuple(access for _, access in _found(_Kernel(module, kernel)) if access is not None)


def uncounted(module: Module, kernel: str) -> str | None:
    """The first instruction of ``kernel`` that may touch global memory unseen by :func:`accesses`; None without one.

    That is a call of what has no body here, a texture or surface access, or a generic one of which it can't be told
    where it goes.
    """
    for item, access in _found(_Kernel(module, kernel)):
        if access is None:
            return f"{item.opcode} at {item.loc}"
    return None


class _Kernel:
    """A kernel with its calls inlined, and where its addresses come from."""

    def __init__(self, module: Module, kernel: str) -> None:
        if kernel not in module.kernels:
            raise ToolOutputError(f"the PTX has no kernel {kernel}; it has {', '.join(module.kernels) or 'none'}")
        self.module, self.function = module, module.functions[kernel]
        self.whole: Inlined = inlined(module, kernel, keep=True)
        self.items = [item for item in self.whole.items if isinstance(item, Instr)]
        self.positions = {variable.name: n for n, variable in enumerate(self.function.params)}
        self.sources = sources(self.items, self.positions)
        self.pointers = {variable.name for variable in self.function.params if variable.pointer}

    def space(self, name: str) -> str:
        """The space of a variable; "" for a parameter, which may point anywhere."""
        for variables in (self.whole.variables, self.module.variables):
            if name in variables:
                return variables[name].space
        return ""

    def origin(self, address: Operand) -> str:
        """The one parameter or variable that ``address`` comes from; UNKNOWN where it can't be told."""
        if not isinstance(address, Mem):
            return UNKNOWN
        given = {*symbols(address)} or {s for name in registers(address) for s in self.sources.get(name, ())}
        names = {name.removesuffix(GLOBAL) for name in given if name.endswith(GLOBAL)} or given
        names = (names & self.pointers) or names
        return names.pop() if len(names) == 1 else UNKNOWN

    def target(self, origin: str) -> int | str | None:
        if origin in self.positions:
            alone = self.function.params[self.positions[origin]].size == 8  # not a struct with several pointers
            return self.positions[origin] if alone else None
        return origin if self.space(origin) in ("global", "const") else None


def _found(kernel: _Kernel) -> Iterator[tuple[Instr, Access | None]]:
    """Each instruction that accesses global memory, or that may do so unseen (None)."""
    for item in kernel.items:
        base = item.mods[0]
        if base in UNSEEN:
            yield item, None
        elif base in PLAIN:
            yield from _plain(kernel, item)
        elif base == "cp":
            yield from _copy(kernel, item)
        elif base == "multimem":
            how = "r" if "ld_reduce" in item.mods else "w" if "st" in item.mods else "rw"
            yield item, _access(kernel, item, "multimem", _width(item), _address(item), how)
        elif base == "wmma" and space_of(item) == "global":
            yield item, _access(kernel, item, "wmma", None, _address(item), "w" if "store" in item.mods else "r")


def _plain(kernel: _Kernel, item: Instr) -> Iterator[tuple[Instr, Access | None]]:
    space, base = space_of(item), item.mods[0]
    if space not in ("", "global"):
        return
    if space == "global":
        yield item, _access(kernel, item, base, _width(item), _address(item), PLAIN[base])
        return
    origin = kernel.origin(_address(item))
    if origin in kernel.positions or kernel.space(origin) == "global":
        yield item, _access(kernel, item, base, _width(item), _address(item), PLAIN[base])
    elif origin == UNKNOWN:
        yield item, None


def _copy(kernel: _Kernel, item: Instr) -> Iterator[tuple[Instr, Access | None]]:
    """cp.async to shared memory, and copies and reductions in bulk in either direction."""
    mods = item.mods
    spaces = [mod.split("::")[0] for mod in mods if mod.split("::")[0] in ("global", "shared")]
    if "prefetch" in mods or "global" not in spaces:
        return
    bulk, writes = "bulk" in mods, spaces[0] == "global"
    op = "cp.reduce.async.bulk" if "reduce" in mods else "cp.async.bulk" if bulk else "cp.async"
    how = "w" if writes and "reduce" not in mods else "rw" if writes else "r"
    if "tensor" in mods:  # by coordinates in a tensor map
        yield item, Access(op, None, None, "r" in how, "w" in how, item.loc)
        return
    place, size = (0 if writes else 1), item.operands[2] if len(item.operands) > 2 else None
    known = size.value if isinstance(size, Imm) else None
    if known is None and not bulk:
        raise ToolOutputError(NO_WIDTH.format(item.opcode, item.loc))
    yield item, _access(kernel, item, op, known, item.operands[place], how)


def _access(kernel: _Kernel, item: Instr, op: str, size: int | None, address: Operand, how: str) -> Access:
    return Access(op, size, kernel.target(kernel.origin(address)), "r" in how, "w" in how, item.loc)


def _address(item: Instr) -> Operand:
    """The operand that is an address, the first where there are several."""
    return next((operand for operand in item.operands if isinstance(operand, Mem)), Sym(UNKNOWN))


def _width(item: Instr) -> int:
    """Element size times vector width."""
    kind = next((SIZES[mod] for mod in item.mods[1:] if mod in SIZES and mod != "pred"), None)
    if kind is None:
        raise ToolOutputError(NO_WIDTH.format(item.opcode, item.loc))
    return kind * next((int(mod[1:]) for mod in item.mods if re.fullmatch(r"v\d", mod)), 1)
