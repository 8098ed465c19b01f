"""A kernel as basic blocks: calls inlined, variables laid out, cut where lanes can diverge or have to reconverge."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ...build.ptx.errors import UnsupportedError
from ...build.ptx.inline import inlined
from ...build.ptx.syntax import (
    Instr,
    Label,
    Module,
    Operand,
    Reg,
    Sym,
    Variable,
)

EXIT = -1
WARP_SYNC: tuple[str, ...] = (
    "shfl.sync",
    "vote.sync",
    "match.",
    "redux.sync",
    "bar.warp.sync",
    "elect.sync",
    "mma.sync",
    "ldmatrix.sync",
)
WARP_SYNC += ("stmatrix.sync", "wmma.", "bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive")
BLOCK_SYNC = (
    "bar.sync",
    "bar.cta.sync",
    "bar.cta.red",
    "barrier.sync",
    "barrier.cta.sync",
    "bar.red",
    "barrier.red",
    "barrier.cta.red",
)
CLUSTER_SYNC = ("barrier.cluster.wait",)


@dataclass
class Block:
    """A basic block. ``sync`` is "warp", "block" or "cluster" if it begins with a convergence point of these lanes."""

    index: int
    body: list[Instr] = field(default_factory=list)
    sync: str = ""
    branch: tuple[Operand, bool] | None = None  # predicate and its negation of the jump at the end
    targets: tuple[int, ...] = ()  # (taken, not taken), (next,) or the table of an indexed jump; EXIT ends the lane
    table: Operand | None = None  # the index of an indexed jump


@dataclass
class Flat:
    """A kernel with everything it calls in one body, and where its variables lie."""

    name: str
    regs: dict[str, str]
    blocks: list[Block]
    params: dict[str, tuple[int, Variable]]
    param_bytes: int
    shared: dict[str, int]
    static_shared: int
    local: dict[str, int]
    local_bytes: int
    cluster: tuple[int, int, int]
    max_threads: int | None  # of a block
    required_block: tuple[int, int, int] | None
    notes: tuple[str, ...]


def flatten(module: Module, name: str) -> Flat:
    """The kernel ``name`` of ``module``; :class:`UnsupportedError` for recursion and indirect calls."""
    function = module.functions[name]
    if module.problems:
        raise UnsupportedError(f"{name} is not checked, it can't be simulated: {'; '.join(module.problems)}")
    whole = inlined(module, name)
    shared, static_shared = _layout(
        [v for v in (*module.variables.values(), *whole.variables.values()) if v.space == "shared"]
    )
    local, local_bytes = _layout([v for v in whole.variables.values() if v.space in ("local", "param")])
    params, at = {}, 0
    for variable in function.params:
        at = -(-at // variable.align) * variable.align
        params[variable.name] = (at, variable)
        at += variable.size
    cutter = _Cutter(whole.targets)
    for item in whole.items:
        cutter.add(item)
    return Flat(
        name=name,
        regs=whole.regs,
        blocks=cutter.done(),
        params=params,
        param_bytes=at,
        shared=shared,
        static_shared=static_shared,
        local=local,
        local_bytes=local_bytes,
        cluster=function.cluster,
        max_threads=function.max_threads,
        required_block=function.required_block,
        notes=tuple(dict.fromkeys(whole.notes)),
    )


def _layout(variables: list[Variable]) -> tuple[dict[str, int], int]:
    """Offsets and size of the whole; arrays whose size the launch gives begin where all others end."""
    places: dict[str, int] = {}
    at = 0
    for variable in variables:
        if variable.size >= 0:
            at = -(-at // variable.align) * variable.align
            places[variable.name] = at
            at += variable.size
    for variable in variables:
        if variable.size < 0:
            at = -(-at // max(16, variable.align)) * max(16, variable.align)
            places[variable.name] = at
    return places, at


def sync_kind(opcode: str) -> str:
    """Whose convergence point an instruction is: "warp", "block", "cluster", or "" for nobody's."""
    if opcode.startswith(WARP_SYNC):
        return "warp"
    if opcode.startswith(BLOCK_SYNC):
        return "block"
    return "cluster" if opcode.startswith(CLUSTER_SYNC) else ""


class _Cutter:
    """Cuts a body into basic blocks. A predicated convergence point becomes a jump around it."""

    def __init__(self, tables: dict[str, tuple[str, ...]]) -> None:
        self.tables = tables
        self.blocks, self.labels = [Block(0)], dict[str, int]()
        self.jumps: list[tuple[Block, str | None, bool]] = []  # block, label of the target, whether it may fall through

    def _fresh(self) -> Block:
        self.blocks.append(Block(len(self.blocks)))
        return self.blocks[-1]

    def add(self, item: Instr | Label) -> None:
        here = self.blocks[-1]
        if isinstance(item, Label):
            self.labels[item.name] = (self._fresh() if here.body else here).index
        elif item.mods[0] in ("bra", "ret", "exit"):
            target = item.operands[0] if item.mods[0] == "bra" else None
            here.branch = (Reg(item.pred[0]), item.pred[1]) if item.pred else None
            self.jumps.append((here, target.name if isinstance(target, Sym) else None, item.pred is not None))
            self._fresh()
        elif item.mods[0] == "brx":
            here.table, table = item.operands
            assert isinstance(table, Sym)
            self.jumps += [(here, name, False) for name in self.tables[table.name]]
            self._fresh()
        elif kind := sync_kind(item.opcode):
            self._gate(here, item, kind)
        else:
            here.body.append(item)

    def _gate(self, here: Block, item: Instr, kind: str) -> None:
        if item.pred:
            here.branch = (Reg(item.pred[0]), not item.pred[1])
            around = f"$around{len(self.blocks)}"
            self.jumps.append((here, around, True))
            block = self._fresh()
            block.sync, block.body = kind, [dataclasses.replace(item, pred=None)]
            self.labels[around] = self._fresh().index
        else:
            block = self._fresh() if here.body else here
            block.sync = kind
            block.body.append(item)

    def done(self) -> list[Block]:
        ends: dict[int, tuple[int, ...]] = {}
        for block, name, falls in self.jumps:
            aim = EXIT if name is None else self.labels[name]
            if block.table is not None:
                ends[block.index] = (*ends.get(block.index, ()), aim)
            else:
                ends[block.index] = (aim, block.index + 1) if falls else (aim,)
        last = len(self.blocks) - 1
        for block in self.blocks:
            block.targets = ends.get(block.index, (block.index + 1,))
            block.targets = tuple(EXIT if target > last else target for target in block.targets)
        return self.blocks
