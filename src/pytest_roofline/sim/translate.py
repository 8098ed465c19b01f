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

from . import fpmode
from .alu import DTYPES, TABLE, Alu
from .errors import UnsupportedError
from .floats import canonical_f32, canonical_f64
from .program import Block, Flat, crossing, defined, flatten, has_result
from .ptx import SINK, SIZES, Imm, Instr, Loc, Mem, Module, Not, Operand, Pair, Reg, Sym, Vec

SPACES = ("global", "shared", "local", "const", "param")
RAW = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}


@dataclass(frozen=True)
class Site:
    """One instruction that findings and counts refer to."""

    index: int
    opcode: str
    loc: Loc
    kernel: str
    space: str = ""
    pointers: frozenset[str] = frozenset()  # parameters the address comes from; empty if that is not known

    @property
    def place(self) -> str:
        return f"{self.loc.file}:{self.loc.line}"


@dataclass
class Program:
    """A kernel ready to run. ``functions`` by block; ``sync`` says which blocks need company to start."""

    name: str
    flat: Flat
    functions: list[Callable[..., Any]]
    sites: list[Site]
    registers: dict[str, int]
    flushes: bool
    granule: dict[str, int]
    notes: tuple[str, ...]
    gates: dict[int, Instr] = field(default_factory=dict)
    warp_masks: dict[int, int | None] = field(default_factory=dict)
    text: str = ""


def translate(module: Module, name: str) -> Program:
    """``name`` of ``module`` as a program; :class:`UnsupportedError` names each opcode that is not simulated."""
    return _Translator(module, flatten(module, name)).run()


def pick(p: Any, new: Any, old: Any) -> Any:
    """``new`` where ``p``, else ``old``; what was never written is taken as ``new``."""
    return new if old is None else np.where(p, new, old)


class _Translator:
    def __init__(self, module: Module, flat: Flat) -> None:
        self.module, self.flat = module, flat
        self.scope: dict[str, Any] = {"np": np, "pick": pick, "F4": canonical_f32, "F8": canonical_f64}
        self.registers = {name: n for n, name in enumerate(flat.regs)}
        self.sites: list[Site] = []
        self.problems: list[str] = []
        opcodes = [item.opcode for block in flat.blocks for item in block.body]
        self.flushes = any(".ftz" in opcode for opcode in opcodes)
        self.crossing = crossing(flat)
        self.canonical = self._canonical()
        self.pointers = self._pointers()

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
            granule={space: self._granule(space) for space in ("shared", "global")},
            notes=self.flat.notes,
            text=text,
        )
        program.gates = {block.index: block.body[0] for block in self.flat.blocks if block.sync}
        return program

    def _granule(self, space: str) -> int:
        """The narrowest access to a space in bytes, for which its shadows are kept; a generic access counts for all."""
        sizes = [4]
        for block in self.flat.blocks:
            for item in block.body:
                if item.mods[0] in ("ld", "st", "atom", "red", "ldu") and (space in item.mods or space_of(item) == ""):
                    sizes.append(SIZES.get(item.mods[-1], 4))
        return min(sizes)

    # What is known of registers before any code is made

    def _canonical(self) -> dict[str, str]:
        """NumPy type of each register. Float where no bits come in: not from memory, shuffles or integer work."""
        floats = {name for name, kind in self.flat.regs.items() if SIZES.get(kind, 0) in (4, 8) and kind != "pred"}
        items = [item for block in self.flat.blocks for item in block.body]
        copies: list[tuple[str, list[str]]] = []
        made: dict[str, set[str]] = {}
        for item in items:
            names = defined(item)
            if item.mods[0] in ("mov", "selp") and item.mods[-1] in ("f32", "b32", "u32", "f64", "b64", "s32", "u64"):
                sources = item.operands[1:3] if item.mods[0] == "selp" else item.operands[1:2]
                if len(names) == 1 and all(isinstance(s, Reg | Imm) for s in sources):
                    copies.append((names[0], [s.name for s in sources if isinstance(s, Reg)]))
                    continue
            found = self._alu(item)
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
        sizes = {name: SIZES[kind] for name, kind in self.flat.regs.items()}
        return {
            name: "?" if kind == "pred" else kinds.get(name, RAW.get(sizes[name], "u8"))
            for name, kind in self.flat.regs.items()
        }

    def _pointers(self) -> dict[str, set[str]]:
        """For each register the kernel parameters its value comes from."""
        found: dict[str, set[str]] = {}
        items = [item for block in self.flat.blocks for item in block.body]
        changed = True
        while changed:
            changed = False
            for item in items:
                names = defined(item)
                if not names:
                    continue
                if item.mods[0] == "ld" and "param" in item.mods and isinstance(item.operands[1], Mem):
                    base = item.operands[1].base
                    given = {base.name} if isinstance(base, Sym) and SIZES.get(item.mods[-1]) == 8 else set()
                elif item.mods[0] in ("ld", "atom", "shfl"):
                    given = {"?"} if SIZES.get(item.mods[-1]) == 8 or item.mods[0] == "shfl" else set()
                else:
                    given = {p for o in item.operands[1:] for n in _names(o) for p in found.get(n, ())}
                for name in names:
                    if not given <= found.setdefault(name, set()):
                        found[name] |= given
                        changed = True
        return found

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
        if item.pred:
            p = self.use(Reg(item.pred[0]), "?")
            p = f"~{p}" if item.pred[1] else p
            self.lines.append(f"q = {p} if m is None else m & {p}")
            self.guard = "q"
        found = self._alu(item)
        if found:
            self._arithmetic(item, found)
        elif base in EMIT:
            EMIT[base](self, item)
        else:
            raise self.refused()

    def refused(self, why: str = "") -> UnsupportedError:
        return UnsupportedError(f"{self.item.loc}: {self.item.opcode}{' ' + why if why else ''} is not simulated")

    def _alu(self, item: Instr) -> Alu | None:
        if item.mods[0] not in TABLE:
            return None
        try:
            return TABLE[item.mods[0]](item.mods)
        except (KeyError, StopIteration, IndexError, ValueError):
            return None

    def _arithmetic(self, item: Instr, found: Alu) -> None:
        if "f32x2" in item.mods:
            raise self.refused()
        target, *sources = item.operands
        names = [self.use(source, kind) for source, kind in zip(sources, found.sources, strict=False)]
        if len(names) != len(found.sources):
            raise self.refused(f"with {len(sources)} operands")
        if found.flag in ("reads", "both"):
            names.append("x.carry")
        call = f"{self._function(item.opcode, found)}({', '.join(names)})"
        if found.flag in ("writes", "both"):
            self.lines.append(f"t, x.carry = {call}")
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
        if name.startswith("%") or name == "WARP_SZ":
            found = f"x.special({name!r})"
            return found if kind in ("u4",) else f"{found}.astype({kind!r})"
        if name in flat.shared:
            return self.constant(flat.shared[name] + operand.offset, kind)
        if name in flat.local:
            return self.constant(flat.local[name] + operand.offset, kind)
        if name in self.module.variables:
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
            for name in _names(address):
                pointers |= self.pointers.get(name, set())
            if isinstance(address.base, Sym):
                pointers.add(address.base.name)
        known = frozenset() if "?" in pointers else frozenset(pointers)
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


def _names(operand: Operand) -> list[str]:
    from .program import registers

    return registers(operand)


def space_of(item: Instr) -> str:
    """The state space of a memory instruction, empty for a generic address."""
    for mod in item.mods[1:]:
        if mod.split("::")[0] in SPACES:
            return mod.split("::")[0]
    return ""


# The table of instructions that are not arithmetic: name -> what writes their code

Emit = Callable[["_Translator", Instr], None]
EMIT: dict[str, Emit] = {}


def emits(*names: str) -> Callable[[Emit], Emit]:
    def add(function: Emit) -> Emit:
        EMIT.update(dict.fromkeys(names, function))
        return function

    return add


@emits("mov")
def _mov(t: _Translator, item: Instr) -> None:
    target, source = item.operands
    kind = DTYPES[item.mods[-1]] if item.mods[-1] != "pred" else "?"
    if isinstance(target, Reg):
        canonical = t.canonical[target.name]
        if np.dtype(canonical).itemsize == np.dtype(kind).itemsize and kind != "?":
            kind = canonical  # a copy of what is there, float or bits
    elif isinstance(target, Vec):
        kind = kind.replace("f", "u").replace("i", "u")
    t.define(target, t.use(source, kind), kind)


@emits("cvta")
def _cvta(t: _Translator, item: Instr) -> None:
    """Generic addresses: global ones are themselves, shared and local ones lie in windows."""
    target, source = item.operands
    space = space_of(item)
    value = t.use(source, "u8" if item.mods[-1] == "u64" else "u4")
    if space in ("shared", "local"):
        value = f"x.window({value}, {space!r}, {'to' in item.mods})"
    t.define(target, value, "u8" if item.mods[-1] == "u64" else "u4")


@emits("isspacep")
def _isspacep(t: _Translator, item: Instr) -> None:
    t.define(item.operands[0], f"x.in_space({t.use(item.operands[1], 'u8')}, {space_of(item)!r})", "?")


def _vector(item: Instr) -> int:
    return next((int(mod[1]) for mod in item.mods if mod in ("v2", "v4", "v8")), 1)


@emits("ld", "ldu")
def _ld(t: _Translator, item: Instr) -> None:
    target, address = item.operands[:2]
    space, kind, count = space_of(item), DTYPES[item.mods[-1]], _vector(item)
    raw = RAW[np.dtype(kind).itemsize]
    kind = raw if kind[0] == "f" else kind  # bits: a NaN keeps its payload
    if space == "param":
        assert isinstance(address, Mem)
        if isinstance(address.base, Sym) and address.base.name in t.flat.params:
            at = t.flat.params[address.base.name][0] + address.offset
            parts = target.parts if isinstance(target, Vec) else (target,)
            for n, part in enumerate(parts):
                t.define(part, f"x.parameter({at + n * np.dtype(raw).itemsize}, {raw!r}).view({kind!r})", kind)
            return
        space = "local"  # what a function is given lies among its caller's variables
    volatile = any(m in ("volatile", "relaxed", "acquire", "mmio") for m in item.mods)
    call = f"x.load({t.site(space, address)}, {t.address(address, space)}, {t.guard}, {raw!r}, {count}, {volatile})"
    if "shared::cluster" in item.mods:
        call = call.replace("x.load(", "x.load_cluster(", 1)
    parts = target.parts if isinstance(target, Vec) else (target,)
    t.lines.append(f"l = {call}")
    for n, part in enumerate(parts):
        t.define(part, f"l[{n}]" + (f".view({kind!r})" if raw != kind else ""), kind)


@emits("st")
def _st(t: _Translator, item: Instr) -> None:
    address, value = item.operands[:2]
    space, kind = space_of(item), DTYPES[item.mods[-1]]
    raw = RAW[np.dtype(kind).itemsize]
    parts = value.parts if isinstance(value, Vec) else (value,)
    values = ", ".join(t.use(part, raw) for part in parts)
    space = "local" if space == "param" else space
    volatile = any(m in ("volatile", "relaxed", "release", "mmio") for m in item.mods)
    name = "store_cluster" if "shared::cluster" in item.mods else "store"
    t.lines.append(
        f"x.{name}({t.site(space, address)}, {t.address(address, space)}, {t.guard}, ({values},), {raw!r}, {volatile})"
    )


@emits("copy")
def _copy(t: _Translator, item: Instr) -> None:
    """A parameter between caller and callee, as bytes."""
    to, of, size = item.operands
    assert isinstance(size, Imm)
    raw = RAW.get(size.value, "u1")
    count = size.value // np.dtype(raw).itemsize
    site = t.site("local")
    if isinstance(of, Sym):
        t.lines.append(f"l = x.load({site}, {t.use(of, 'i8')}, {t.guard}, {raw!r}, {count}, True)")
        values = "l"
    else:
        values = f"({t.use(of, raw)},)"
    if isinstance(to, Sym):
        t.lines.append(f"x.store({site}, {t.use(to, 'i8')}, {t.guard}, {values}, {raw!r}, True)")
    else:
        t.define(to, f"{values}[0]", raw)


@emits("atom", "red")
def _atom(t: _Translator, item: Instr) -> None:
    base, kind, space = item.mods[0], item.mods[-1], space_of(item)
    operands = list(item.operands)
    target = operands.pop(0) if base == "atom" else SINK
    op = next((m for m in item.mods[1:] if m in ATOMIC_OPS), None)
    if op is None or isinstance(operands[1], Vec) or kind in ("b128",):
        raise t.refused()
    dtype = DTYPES[kind]
    raw = RAW[np.dtype(dtype).itemsize]
    values = [t.use(value, raw if kind in ("f16", "bf16", "f16x2", "bf16x2") else dtype) for value in operands[1:3]]
    values += values[:1] * (2 - len(values))
    site, address = t.site(space, operands[0]), t.address(operands[0], space)
    keep = target != SINK
    t.lines.append(f"t = x.atomic({site}, {address}, {t.guard}, {op!r}, {kind!r}, {values[0]}, {values[1]}, {keep})")
    if keep:
        t.define(target, f"t.view({raw!r})", raw)


ATOMIC_OPS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@emits("shfl")
def _shfl(t: _Translator, item: Instr) -> None:
    target, value, lane, clamp, mask = item.operands
    args = ", ".join(t.use(o, "u4") for o in (value, lane, clamp, mask))
    t.lines.append(f"l = x.shuffle({t.site()}, {item.mods[2]!r}, {args}, m)")
    if isinstance(target, Pair):
        t.define(target.first, "l[0]", "u4")
        t.define(target.second, "l[1]", "?")
    else:
        t.define(target, "l[0]", "u4")


@emits("vote")
def _vote(t: _Translator, item: Instr) -> None:
    target, p, mask = item.operands
    kind = "u4" if item.mods[2] == "ballot" else "?"
    t.define(target, f"x.vote({t.site()}, {item.mods[2]!r}, {t.use(p, '?')}, {t.use(mask, 'u4')}, m)", kind)


@emits("match")
def _match(t: _Translator, item: Instr) -> None:
    target, value, mask = item.operands
    kind = DTYPES[item.mods[-1]]
    t.lines.append(f"l = x.match({t.site()}, {item.mods[1]!r}, {t.use(value, kind)}, {t.use(mask, 'u4')}, m)")
    first = target.first if isinstance(target, Pair) else target
    t.define(first, "l[0]", "u4")
    if isinstance(target, Pair):
        t.define(target.second, "l[1]", "?")


@emits("redux")
def _redux(t: _Translator, item: Instr) -> None:
    target, value, mask = item.operands
    kind = DTYPES[item.mods[-1]]
    if kind == "f4":
        raise t.refused()
    call = f"x.redux({t.site()}, {item.mods[2]!r}, {t.use(value, kind)}, {t.use(mask, 'u4')}, m)"
    t.define(target, call, kind)


@emits("elect")
def _elect(t: _Translator, item: Instr) -> None:
    target, mask = item.operands
    t.lines.append(f"l = x.elect({t.site()}, {t.use(mask, 'u4')}, m)")
    assert isinstance(target, Pair)
    t.define(target.first, "l[0]", "u4")
    t.define(target.second, "l[1]", "?")


@emits("activemask")
def _activemask(t: _Translator, item: Instr) -> None:
    t.define(item.operands[0], f"x.active({t.guard})", "u4")


@emits("bar", "barrier")
def _bar(t: _Translator, item: Instr) -> None:
    mods = item.mods
    if "warp" in mods:
        t.lines.append(f"x.warp_barrier({t.site()}, {t.use(item.operands[0], 'u4')}, m)")
    elif "cluster" in mods:
        t.lines.append(f"x.cluster_barrier({t.site()}, {'arrive' in mods}, m)")
    elif "red" in mods:
        target, number, *rest = item.operands
        *_, p = rest
        op = next(m for m in mods if m in ("popc", "and", "or"))
        call = f"x.barrier_reduce({t.site()}, {op!r}, {t.use(number, 'u4')}, {t.use(p, '?')}, m)"
        t.define(target, call, "u4" if op == "popc" else "?")
    else:
        number, *count = item.operands
        threads = t.use(count[0], "u4") if count else "None"
        name = "arrive" if "arrive" in mods else "barrier"
        t.lines.append(f"x.{name}({t.site()}, {t.use(number, 'u4')}, {threads}, {t.guard})")


@emits("membar", "fence")
def _fence(t: _Translator, item: Instr) -> None:
    scope = {"gl", "gpu", "sys", "cluster"} & set(item.mods)
    if scope or item.mods == ("fence", "acq_rel"):
        t.lines.append(f"x.fence({t.guard})")


@emits("prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "pmevent", "griddepcontrol", "setmaxnreg")
def _nothing(t: _Translator, item: Instr) -> None:
    """Hints change no result."""


@emits("trap", "brkpt")
def _trap(t: _Translator, item: Instr) -> None:
    t.lines.append(f"x.trap({t.site()}, {t.guard})")


@emits("cp")
def _cp(t: _Translator, item: Instr) -> None:
    mods = item.mods
    if mods[1] != "async" or "bulk" in mods:
        raise t.refused()
    if "commit_group" in mods:
        t.lines.append(f"x.copies.commit({t.guard})")
    elif "wait_group" in mods or "wait_all" in mods:
        left = item.operands[0].value if item.operands and isinstance(item.operands[0], Imm) else -1
        t.lines.append(f"x.copies.wait({t.guard}, {left})")
    elif "mbarrier" in mods:
        raise t.refused()
    else:
        target, source, size, *rest = item.operands
        count = (
            t.use(rest[0], "u4") if rest and not isinstance(rest[0], Reg) else t.use(rest[0], "u4") if rest else "None"
        )
        assert isinstance(size, Imm)
        t.lines.append(
            f"x.copies.start({t.site('shared', target)}, {t.address(target, 'shared')}, {t.site('global', source)}, "
            f"{t.address(source, 'global')}, {size.value}, {count}, {t.guard})"
        )


@emits("ldmatrix", "stmatrix")
def _matrix(t: _Translator, item: Instr) -> None:
    load = item.mods[0] == "ldmatrix"
    registers, address = item.operands if load else item.operands[::-1]
    if "m8n8" not in item.mods or "b16" not in item.mods:
        raise t.refused()
    parts = registers.parts if isinstance(registers, Vec) else (registers,)
    t.lines.append(f"x.full_warps({t.site()}, m)")
    where = f"{t.site('shared', address)}, {t.address(address, 'shared')}"
    if load:
        t.lines.append(f"l = x.load_matrix({where}, {len(parts)}, {'trans' in item.mods}, m)")
        for n, part in enumerate(parts):
            t.define(part, f"l[{n}]", "u4")
    else:
        values = ", ".join(t.use(part, "u4") for part in parts)
        t.lines.append(f"x.store_matrix({where}, ({values},), {'trans' in item.mods}, m)")


@emits("mma")
def _mma(t: _Translator, item: Instr) -> None:
    from .tensor import shape_of

    target, a, b, c = item.operands[:4]
    t.lines.append(f"x.full_warps({t.site()}, m)")
    known = shape_of(item.mods)
    if known is None or len(item.operands) > 4 or not all(isinstance(o, Vec) for o in (target, a, b, c)):
        raise t.refused()
    assert isinstance(target, Vec)
    groups = ", ".join(
        "(" + "".join(f"{t.use(p, 'u4')}, " for p in o.parts) + ")" for o in (a, b, c) if isinstance(o, Vec)
    )
    t.scope["mma"] = __import__(f"{__package__}.tensor", fromlist=["mma"]).mma
    t.lines.append(f"l = mma({item.mods!r}, {groups})")
    for n, part in enumerate(target.parts):
        t.define(part, f"l[{n}]", "u4")


@emits("mapa")
def _mapa(t: _Translator, item: Instr) -> None:
    target, address, rank = item.operands
    kind = "u8" if item.mods[-1] == "u64" else "u4"
    if "shared::cluster" not in item.mods:
        raise t.refused("of a generic address")
    t.define(target, f"x.map_shared({t.use(address, 'u4')}, {t.use(rank, 'u4')}).astype({kind!r})", kind)


@emits("mbarrier")
def _mbarrier(t: _Translator, item: Instr) -> None:
    what, operands = item.mods[1], list(item.operands)
    if any(m.startswith("shared::cluster") for m in item.mods):
        raise t.refused()
    target = operands.pop(0) if has_result(item) else SINK
    if what not in ("init", "inval", "arrive", "test_wait", "try_wait") or "expect_tx" in item.mods:
        raise t.refused()
    site, address = t.site("shared", operands[0]), t.address(operands[0], "shared")
    if what in ("test_wait", "try_wait"):
        parity = "parity" in item.mods
        value = t.use(operands[1], "u4" if parity else "u8")
        t.define(target, f"x.mbarrier_test({site}, {address}, {value}, {parity}, {t.guard})", "?")
    elif what == "arrive":
        count = t.use(operands[1], "u4") if len(operands) > 1 else "None"
        t.define(target, f"x.mbarrier_arrive({site}, {address}, {count}, {t.guard})", "u8")
    else:
        count = t.use(operands[1], "u4") if len(operands) > 1 else t.constant(0, "u4")
        t.lines.append(f"x.mbarrier_init({site}, {address}, {count}, {t.guard})")


def supported() -> tuple[str, ...]:
    """First parts of all opcodes that are simulated, in some form at least."""
    return tuple(sorted({*TABLE, *EMIT, "bra", "brx", "ret", "exit", "call"} - {"copy"}))
