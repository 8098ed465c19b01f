"""What PTX text holds: instructions with operands and source lines, variables, functions."""

from __future__ import annotations

from dataclasses import dataclass, field

SIZES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4, "s32": 4}
SIZES |= {"f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "pred": 1, "b128": 16}


@dataclass(frozen=True)
class Loc:
    """A source line; ``parent`` is where the function it is in was inlined."""

    file: str
    line: int
    parent: Loc | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" (inlined at {self.parent})" if self.parent else "")


NOWHERE = Loc("?", 0)


@dataclass(frozen=True)
class Reg:
    name: str


@dataclass(frozen=True)
class Imm:
    """An immediate: an integer, or the bits of a float of ``float_bytes`` bytes."""

    value: int
    float_bytes: int = 0


@dataclass(frozen=True)
class Sym:
    """The address of a variable, or a label, or a special register."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Mem:
    """[base + offset]; ``base`` is a register, a symbol or an absolute address."""

    base: Reg | Sym | Imm
    offset: int = 0


@dataclass(frozen=True)
class Vec:
    parts: tuple[Operand, ...]


@dataclass(frozen=True)
class Not:
    """!%p as a source."""

    reg: Reg


@dataclass(frozen=True)
class Pair:
    """%d|%p as a destination."""

    first: Operand
    second: Operand


Operand = Reg | Imm | Sym | Mem | Vec | Not | Pair
SINK = Sym("_")


@dataclass(frozen=True)
class Instr:
    """``@pred opcode operands``; ``pred`` is a register and whether it is negated."""

    opcode: str
    operands: tuple[Operand, ...]
    loc: Loc
    pred: tuple[str, bool] | None = None
    problem: str = ""  # why its operands could not be read

    @property
    def mods(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Variable:
    """``size`` in bytes; -1 for an extern array, whose size the launch gives."""

    name: str
    space: str
    type: str
    align: int
    size: int
    data: bytes = b""


@dataclass
class Function:
    """A kernel or a device function. ``params`` and ``results`` in order; ``regs`` is name -> PTX type."""

    name: str
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    body: list[Instr | Label] = field(default_factory=list)
    regs: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cluster: tuple[int, int, int] = (1, 1, 1)
    max_threads: int = 0  # a block may have, 0 for no bound of its own
    required_block: tuple[int, int, int] | None = None  # the only block that it takes (.reqntid)
    entry: bool = False


@dataclass
class Module:
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    target: str = ""
