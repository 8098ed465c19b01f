"""Each basic block as a Python function over lane arrays.

A register is an array that broadcasts to (blocks of the chunk, threads of a block): what is the same for all blocks
has one row, what is the same for all threads one column, so uniform work costs next to nothing. Integers are kept
unsigned; a float register is float32 or float64 where only arithmetic writes it, else its bits. A function gets the
chunk and the mask of its lanes (None: all) and returns the next block, or (predicate, block if true, block if false).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...build.ptx.errors import UnsupportedError
from ...build.ptx.flow import GLOBAL, UNKNOWN, registers, sources, used
from ...build.ptx.syntax import SINK, Imm, Instr, Mem, Module, Not, Operand, Pair, Reg, Sym, Vec
from ..observe.findings import Site
from . import fpmode
from .alu import TABLE
from .analysis import RAW, alu_of, canonical_types, crossing, granule, opens_for_all
from .emit import EMIT
from .floats import canonical_f32, canonical_f64
from .operation import Alu
from .program import Block, Flat, flatten
from .special import known


@dataclass
class Program:
    """A kernel ready to run. ``functions`` by block of code; ``gates`` are the blocks that need company to start."""

    name: str
    flat: Flat
    functions: list[Callable[..., Any]]
    sites: list[Site]
    registers: dict[str, int]
    flushes: bool
    granule: dict[str, int]
    notes: tuple[str, ...]
    gates: dict[int, Instr] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)  # gates that all lanes of a chunk together just pass


def translate(module: Module, name: str) -> Program:
    """``name`` of ``module`` as a program; :class:`UnsupportedError` names each opcode that is not simulated."""
    return Translator(module, flatten(module, name)).run()


def pick(p: Any, new: Any, old: Any) -> Any:
    """``new`` where ``p``, else ``old``; what was never written is taken as ``new``."""
    return new if old is None else np.where(p, new, old)


class Translator:
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

    def run(self) -> Program:
        text = "\n".join(self._block(block) for block in self.flat.blocks)
        if self.problems:
            raise UnsupportedError(
                f"{self.flat.name} is not checked, it can't be simulated: {'; '.join(dict.fromkeys(self.problems))}"
            )
        exec(compile(text, f"<{self.flat.name}>", "exec"), self.scope)
        program = Program(
            name=self.flat.name,
            flat=self.flat,
            functions=[self.scope[f"b{block.index}"] for block in self.flat.blocks],
            sites=self.sites,
            registers=self.registers,
            flushes=self.flushes,
            granule={space: granule(self.flat, space) for space in ("shared", "global")},
            notes=self.flat.notes,
        )
        program.gates = {block.index: block.body[0] for block in self.flat.blocks if block.sync}
        program.open = {index for index, item in program.gates.items() if opens_for_all(item)}
        return program

    # Code

    def _block(self, block: Block) -> str:
        self.lines: list[str] = []
        self.have: set[str] = set()
        self.wrote: dict[str, None] = {}
        for item in block.body:
            self.item = item
            try:
                self._instruction(item)
            except UnsupportedError as error:
                self.problems.append(str(error))
        end = self._end(block)
        for name in self.wrote:
            if name in self.crossing:
                n = self.registers[name]
                self.lines.append(f"R[{n}] = v{n} if m is None else pick(m, v{n}, R[{n}])")
        head = f"def b{block.index}(x, m):\n R = x.registers\n"
        return head + "".join(f" {line}\n" for line in [*self.lines, end])

    def _end(self, block: Block) -> str:
        if block.table is not None:
            index = self.use(block.table, "u4")
            return f"return x.indexed({index}, m, {block.targets!r})"
        if block.branch is None or len(block.targets) == 1:
            return f"return {block.targets[0]}"
        register, negated = block.branch
        taken, other = block.targets if not negated else block.targets[::-1]
        return f"return ({self.use(register, '?')}, {taken}, {other})"

    def _instruction(self, item: Instr) -> None:
        base = item.mods[0]
        self.guard = "m"
        if item.problem:
            raise UnsupportedError(f"{item.loc}: {item.opcode} is not simulated ({item.problem})")
        if item.pred:
            p = self.use(Reg(item.pred[0]), "?")
            p = f"~{p}" if item.pred[1] else p
            self.lines.append(f"q = {p} if m is None else m & {p}")
            self.guard = "q"
        found = alu_of(item)
        try:
            if found:
                self._arithmetic(item, found)
            elif base in EMIT:
                EMIT[base](self, item)
            else:
                raise self.refused()
        except (KeyError, ValueError, AssertionError, IndexError, TypeError) as error:
            raise self.refused(f"in this form ({error!r})") from error

    def refused(self, why: str = "") -> UnsupportedError:
        return UnsupportedError(f"{self.item.loc}: {self.item.opcode}{' ' + why if why else ''} is not simulated")

    def _arithmetic(self, item: Instr, found: Alu) -> None:
        if "f32x2" in item.mods:
            raise self.refused()
        target, *sources = item.operands
        names = [self.use(source, kind) for source, kind in zip(sources, found.sources, strict=False)]
        if len(sources) != len(found.sources):
            raise self.refused(f"with {len(sources)} operands")
        if found.flag in ("reads", "both"):
            names.append("x.carry")
        call = f"{self._function(item.opcode, found)}({', '.join(names)})"
        if found.flag in ("writes", "both"):
            self.lines.append(f"t, carry = {call}")
            self.lines.append("x.carry = carry" + (" if q is None else pick(q, carry, x.carry)" if item.pred else ""))
            call = "t"
        if isinstance(target, Pair) and item.mods[-1].endswith("x2"):  # setp of two: one predicate for each half
            for part, shift in ((target.first, 0), (target.second, 16)):
                halves = [f"({name} >> {self.constant(shift, 'u4')}).astype('u2')" for name in names[:2]]
                self.define(part, f"{call.partition('(')[0]}({', '.join([*halves, *names[2:]])})", "?")
            return
        if isinstance(target, Pair):  # setp p|q: the second is the comparison negated
            self.lines.append(f"t = {call}")
            self.define(target.first, "t", found.result)
            self.define(target.second, self._complement(item, names), found.result)
            return
        self.define(target, call, found.result)

    def _complement(self, item: Instr, names: list[str]) -> str:
        if item.mods[0] != "setp":
            raise self.refused("with two results")
        if len(names) == 2:
            return "~t"
        opposite = TABLE["setp"](tuple(m for m in item.mods if m not in ("and", "or", "xor")))
        assert opposite is not None
        plain = f"~{self._function(item.opcode + '!', opposite)}({names[0]}, {names[1]})"
        sign = {"and": "&", "or": "|", "xor": "^"}[next(m for m in item.mods if m in ("and", "or", "xor"))]
        return f"({plain}) {sign} {names[2]}"

    def _function(self, opcode: str, found: Alu) -> str:
        name = "f_" + "".join(c if c.isalnum() else "_" for c in opcode)
        if name not in self.scope:
            run = found.run
            if found.float32 and "ftz" in opcode.split("."):
                run = run if fpmode.available() else fpmode.flushed(run)
            elif self.flushes and (found.float32 or "f8" in (*found.sources, found.result)):
                run = fpmode.without_flushing(run)
            self.scope[name] = run
        return name

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


def supported() -> tuple[str, ...]:
    """First parts of all opcodes that are simulated, in some form at least."""
    return tuple(sorted({*TABLE, *EMIT, "bra", "brx", "ret", "exit", "call"} - {"copy"}))
