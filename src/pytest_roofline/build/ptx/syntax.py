"""What PTX text holds: instructions with operands and source lines, variables, functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

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
    """``size`` in bytes; -1 for an extern array, whose size the launch gives. ``problem`` is why it can't be made."""

    name: str
    space: str
    type: str
    align: int
    size: int
    data: bytes = b""
    problem: str = ""
    pointer: bool = False  # a parameter of which the compiler says that it is one


@dataclass
class Body:
    """What a function does. ``regs`` is name -> PTX type, ``targets`` the tables of indexed jumps."""

    items: list[Instr | Label] = field(default_factory=list)
    regs: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass
class Function:
    """A kernel or a device function. ``params`` and ``results`` in order.

    Of a kernel also what it was compiled for: blocks of a cluster in x, y, z (``.reqnctapercluster``), the most threads
    of a block, the only block it takes, the most registers of a thread, the least blocks an SM shall hold; None where
    it says nothing. Its body is read when it is first asked for.
    """

    name: str
    entry: bool = False
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    cluster: tuple[int, int, int] = (1, 1, 1)
    max_threads: int | None = None  # .maxntid or .reqntid
    required_block: tuple[int, int, int] | None = None  # .reqntid
    max_registers: int | None = None  # .maxnreg
    min_blocks: int | None = None  # .minnctapersm
    read: Callable[[], Body] | None = field(default=None, repr=False)  # None for what is only declared

    @cached_property
    def body(self) -> Body:
        """Empty for what is only declared. Errors: UnsupportedError for what can't be read in it."""
        return Body() if self.read is None else self.read()


@dataclass(eq=False)
class Module:
    """All of a PTX text. ``problems`` are statements at its level that can't be read."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    target: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of its entry functions, in order: visible ones, and weak ones such as instances of a template."""
        return tuple(name for name, function in self.functions.items() if function.entry and function.read is not None)
