"""Writes the code of one instruction after the other: operands as expressions, results, sites, addresses.

A register is an array that broadcasts to (blocks of the chunk, threads of a block): what is the same for all blocks
has one row, what is the same for all threads one column, so uniform work costs next to nothing. Integers are kept
unsigned; a float register is float32 or float64 where only arithmetic writes it, else its bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...build.ptx.errors import UnsupportedError
from ...build.ptx.flow import GLOBAL, UNKNOWN, registers, sources, used
from ...build.ptx.syntax import SINK, Imm, Instr, Mem, Module, Not, Operand, Reg, Sym, Vec
from .analysis import RAW, canonical_types, crossing
from .blocks import Flat
from .floats import canonical_f32, canonical_f64
from .site import Site
from .special import known


def pick(p: Any, new: Any, old: Any) -> Any:
    """``new`` where ``p``, else ``old``; what was never written is taken as ``new``."""
    return new if old is None else np.where(p, new, old)


class Writer:
    """The code of a kernel while it is written; ``scope`` holds what the code refers to by name."""

    def __init__(self, module: Module, flat: Flat) -> None:
        self.module, self.flat = module, flat
        self.scope: dict[str, Any] = {"np": np, "pick": pick, "F4": canonical_f32, "F8": canonical_f64}
        self.registers = {name: n for n, name in enumerate(flat.regs)}
        self.sites: list[Site] = []
        self.problems: list[str] = []
        opcodes = [item.opcode for block in flat.blocks for item in block.body]
        self.flushes = any(".ftz" in opcode for opcode in opcodes)
        self.crossing = crossing(flat)
        self.read = {name for block in flat.blocks for item in block.body for name in used(item)}
        self.canonical = canonical_types(flat)
        self.pointers = sources([item for block in flat.blocks for item in block.body], flat.params)

        self.begin()

    def begin(self) -> None:
        """Forget what the block of code before had read and written."""
        self.lines: list[str] = []
        self.have: set[str] = set()
        self.wrote: dict[str, None] = {}

    def instruction(self, item: Instr) -> None:
        """What is written from now on is of ``item``; its guard is the mask of its lanes."""
        self.item, self.guard = item, "m"
        if item.pred:
            p = self.use(Reg(item.pred[0]), "?")
            p = f"~{p}" if item.pred[1] else p
            self.lines.append(f"q = {p} if m is None else m & {p}")
            self.guard = "q"

    def refused(self, why: str = "") -> UnsupportedError:
        return UnsupportedError(f"{self.item.loc}: {self.item.opcode}{' ' + why if why else ''} is not simulated")

    def constant(self, value: int | float, kind: str) -> str:
        name = f"c{kind}_{value}".replace("-", "m").replace(".", "_").replace("+", "p").replace("?", "b")
        if name not in self.scope:
            dtype = np.dtype(kind)
            if isinstance(value, int) and dtype.kind in "iu":
                value &= (1 << 8 * dtype.itemsize) - 1
                array = np.array([[value]], np.dtype(f"u{dtype.itemsize}")).view(dtype)
            else:
                array = np.array([[value]], dtype)
            array.flags.writeable = False
            self.scope[name] = array
        return name

    def use(self, operand: Operand, kind: str) -> str:
        """An expression for ``operand`` as an array of the NumPy type ``kind``."""
        dtype = np.dtype(kind)
        if isinstance(operand, Not):
            return f"~{self.use(operand.reg, '?')}"
        if isinstance(operand, Imm):
            return self._immediate(operand, dtype, kind)
        if isinstance(operand, Reg):
            n, have = self.registers[operand.name], np.dtype(self.canonical[operand.name])
            if operand.name not in self.have:
                self.have.add(operand.name)
                self.lines.append(f"v{n} = R[{n}]")
                self.lines.append(
                    f"if v{n} is None: v{n} = {self.constant(0, '?' if have.kind == 'b' else have.str[1:])}"
                )
            return _as(f"v{n}", have, dtype)
        if isinstance(operand, Vec):
            return self._packed(operand, dtype)
        if isinstance(operand, Sym):
            return self._symbol(operand, kind)
        raise self.refused("with this operand")

    def _immediate(self, operand: Imm, dtype: Any, kind: str) -> str:
        value: Any = operand.value
        if kind == "?":
            return self.constant(bool(value), "?")
        if dtype.kind == "f" and operand.float_bytes:
            name = f"k{kind}_{operand.float_bytes}_{value:x}"
            if name not in self.scope:
                bits = np.array([[value]], f"u{operand.float_bytes}").view(f"f{operand.float_bytes}")
                self.scope[name] = bits.astype(dtype) if bits.dtype != dtype else bits
            return name
        if dtype.kind == "f":
            return self.constant(float(value), kind)
        if operand.float_bytes and operand.float_bytes != dtype.itemsize:
            value = int(np.array(value, f"u{operand.float_bytes}").view(f"f{operand.float_bytes}"))
        return self.constant(value, kind)

    def _packed(self, operand: Vec, dtype: Any) -> str:
        """{a, b} as one value, the first in the low bits."""
        size = dtype.itemsize // len(operand.parts)
        parts = [self.use(part, RAW[size]) for part in operand.parts]
        shifted = [
            f"({part}.astype({dtype.str[1:]!r}) << {self.constant(8 * size * n, dtype.str[1:])})"
            for n, part in enumerate(parts)
        ]
        return f"({' | '.join(shifted)})"

    def _symbol(self, operand: Sym, kind: str) -> str:
        name, flat = operand.name, self.flat
        if known(name):
            found = f"x.special({name!r})"
            return found if kind in ("u4",) else f"{found}.astype({kind!r})"
        if name in flat.shared:
            return self.constant(flat.shared[name] + operand.offset, kind)
        if name in flat.local:
            return self.constant(flat.local[name] + operand.offset, kind)
        if name in self.module.variables:
            if self.module.variables[name].problem:
                raise UnsupportedError(f"{self.item.loc}: {self.module.variables[name].problem}")
            return f"(x.address({name!r}) + {self.constant(operand.offset, 'u8')})"
        raise self.refused(f"with {name}")

    def define(self, target: Operand, expression: str, kind: str) -> None:
        """Write ``expression``, of NumPy type ``kind``, to a register; under a predicate only where it holds."""
        if target == SINK:
            self.lines.append(expression)
            return
        if isinstance(target, Vec):
            size = np.dtype(kind).itemsize // len(target.parts)
            self.lines.append(f"t = {_as(expression, np.dtype(kind), np.dtype(RAW[np.dtype(kind).itemsize]))}")
            for n, part in enumerate(target.parts):
                shift = self.constant(8 * size * n, RAW[size * len(target.parts)])
                self.define(part, f"(t >> {shift}).astype({RAW[size]!r})", RAW[size])
            return
        if not isinstance(target, Reg):
            raise self.refused("with this destination")
        n, canonical = self.registers[target.name], np.dtype(self.canonical[target.name])
        value = _as(expression, np.dtype(kind), canonical)
        if self.guard == "q":
            if target.name not in self.have:
                self.lines.append(f"v{n} = R[{n}]")
            value = f"pick(q, {value}, v{n})"
        self.lines.append(f"v{n} = {value}")
        self.have.add(target.name)
        self.wrote[target.name] = None

    def site(self, space: str = "", address: Operand | None = None) -> str:
        pointers: set[str] = set()
        if isinstance(address, Mem):
            for name in registers(address):
                pointers |= {source.removesuffix(GLOBAL) for source in self.pointers.get(name, ())}
            if isinstance(address.base, Sym):
                pointers.add(address.base.name)
        known = frozenset() if UNKNOWN in pointers else frozenset(pointers)
        made = Site(len(self.sites), self.item.opcode, self.item.loc, self.flat.name, space, known)
        self.sites.append(made)
        self.scope[f"s{made.index}"] = made
        return f"s{made.index}"

    def address(self, operand: Operand, space: str) -> str:
        """The address as int64: absolute, or an offset in shared, local or parameter space."""
        assert isinstance(operand, Mem)
        base = operand.base
        if isinstance(base, Imm):
            return self.constant(base.value + operand.offset, "i8")
        if isinstance(base, Sym):
            return self.use(
                Sym(base.name, operand.offset),
                "i8" if base.name not in self.module.variables or (base.name in self.flat.shared) else "u8",
            ) + (".view('i8')" if base.name in self.module.variables and (base.name not in self.flat.shared) else "")
        narrow = np.dtype(self.canonical[base.name]).itemsize < 8
        value = self.use(base, "u4" if narrow else "i8")
        value = f"{value}.astype('i8')" if narrow else value
        return f"({value} + {self.constant(operand.offset, 'i8')})" if operand.offset else value


def _as(expression: str, have: Any, want: Any) -> str:
    """Code that turns an array of one type into bits of another: of the same size a view, else the low bits."""
    if have == want:
        return expression
    if want == np.dtype("?"):
        return f"({expression} != 0)"
    if have == np.dtype("?"):
        return f"({expression}).astype({want.str[1:]!r})"
    if have.kind == "f" and want.kind != "f":
        expression, have = f"F{have.itemsize}({expression})", np.dtype(RAW[have.itemsize])
    if have.itemsize == want.itemsize:
        return f"{expression}.view({want.str[1:]!r})" if have != want else expression
    middle = np.dtype(("i" if have.kind == "i" else "u") + str(want.itemsize))
    widened = f"{expression}.astype({middle.str[1:]!r})"
    return widened if middle == want else f"{widened}.view({want.str[1:]!r})"


Emit = Callable[[Writer, Instr], None]


def emits(table: dict[str, Emit], *names: str) -> Callable[[Emit], Emit]:
    """Enters a function that writes the code of instructions into ``table``, by the first parts of their opcodes."""

    def add(function: Emit) -> Emit:
        table.update(dict.fromkeys(names, function))
        return function

    return add
