"""A kernel as basic blocks: calls inlined, variables laid out, blocks cut where lanes can part or have to meet."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ...build.ptx.syntax import (
    SINK,
    Function,
    Imm,
    Instr,
    Label,
    Loc,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Sym,
    Variable,
    Vec,
)
from ..errors import UnsupportedError

EXIT = -1
MAX_DEPTH = 16
IGNORED_CALLS = ("vprintf",)
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
    """Instructions without a jump inside. ``sync`` is "warp", "block" or "cluster" if the first one needs company."""

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
    max_threads: int  # of a block, 0 for no bound of its own
    required_block: tuple[int, int, int] | None
    notes: tuple[str, ...]


def flatten(module: Module, name: str) -> Flat:
    """The kernel ``name`` of ``module``; :class:`UnsupportedError` for recursion and indirect calls."""
    function = module.functions[name]
    inliner = _Inliner(module)
    body = inliner.body(function, "", 0)
    shared, static_shared = _layout(
        [v for v in (*module.variables.values(), *inliner.variables.values()) if v.space == "shared"]
    )
    local, local_bytes = _layout([v for v in inliner.variables.values() if v.space in ("local", "param")])
    params, at = {}, 0
    for variable in function.params:
        at = -(-at // variable.align) * variable.align
        params[variable.name] = (at, variable)
        at += variable.size
    cutter = _Cutter(inliner.targets)
    for item in body:
        cutter.add(item)
    return Flat(
        name=name,
        regs=inliner.regs,
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
        notes=tuple(dict.fromkeys(inliner.notes)),
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


class _Inliner:
    """Copies the bodies of called functions into the caller, every name with a suffix of its own."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.regs: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.targets: dict[str, tuple[str, ...]] = {}
        self.notes: list[str] = []
        self.calls = 0

    def body(self, function: Function, suffix: str, depth: int) -> list[Instr | Label]:
        if depth > MAX_DEPTH:
            raise UnsupportedError(f"{function.name}: calls nest deeper than {MAX_DEPTH} (recursion?), not simulated")
        self.regs |= {name + suffix: kind for name, kind in function.regs.items()}
        # Static shared variables of a device function exist once, whoever calls it.
        own = {v.name: v for v in function.variables.values() if v.space == "shared"}
        self.variables |= own
        rest = [v for v in function.variables.values() if v.space != "shared"]
        rest += [] if function.entry else [*function.params, *function.results]
        self.variables |= {v.name + suffix: dataclasses.replace(v, name=v.name + suffix) for v in rest}
        local = {v.name for v in rest} | set(function.regs)
        labels = {item.name for item in function.body if isinstance(item, Label)}
        local |= labels | set(function.targets)
        self.targets |= {
            name + suffix: tuple(target + suffix for target in found) for name, found in function.targets.items()
        }
        rename = _Renamer(local, suffix)
        done: list[Instr | Label] = []
        for item in function.body:
            if isinstance(item, Label):
                done.append(Label(item.name + suffix))
            elif item.opcode.startswith("call"):
                done += self._call(rename.instr(item), depth)
            else:
                done.append(rename.instr(item))
        return done

    def _call(self, call: Instr, depth: int) -> list[Instr | Label]:
        results, name, given = call.operands
        assert isinstance(results, Vec)
        assert isinstance(given, Vec)
        if not isinstance(name, Sym) or name.name not in self.module.functions:
            raise UnsupportedError(f"{call.loc}: an indirect call is not simulated")
        callee = self.module.functions[name.name]
        self.calls += 1
        if name.name in IGNORED_CALLS:
            self.notes.append(f"{call.loc}: printf is ignored")
            return []
        if name.name == "__assertfail":
            return [Instr("trap", (), call.loc, call.pred)]
        if not callee.body:
            raise UnsupportedError(f"{call.loc}: {name.name} has no body here and is not simulated")
        suffix = f"/{self.calls}"
        copies: list[Instr | Label] = []
        for outer, inner in zip(given.parts, callee.params, strict=True):
            copies.append(_copy(Sym(inner.name + suffix), outer, inner.size, call.loc))
        body = self.body(callee, suffix, depth + 1)
        end = f"$return{suffix}"
        inside: list[Instr | Label] = [
            dataclasses.replace(i, opcode="bra", operands=(Sym(end),))
            if isinstance(i, Instr) and i.opcode == "ret"
            else i
            for i in body
        ]
        back = [
            _copy(outer, Sym(i.name + suffix), i.size, call.loc)
            for outer, i in zip(results.parts, callee.results, strict=True)
        ]
        done: list[Instr | Label] = [*copies, *inside, Label(end), *back]
        if call.pred is None:
            return done
        skip = f"$skip{suffix}"
        return [Instr("bra", (Sym(skip),), call.loc, (call.pred[0], not call.pred[1])), *done, Label(skip)]


def _copy(to: Operand, of: Operand, size: int, loc: Loc) -> Instr:
    """Bytes from one variable of parameter space to another; a register stands for itself."""
    return Instr(f"copy.param.b{8 * size}", (to, of, Imm(size)), loc)


class _Renamer:
    def __init__(self, names: set[str], suffix: str) -> None:
        self.names, self.suffix = names, suffix

    def name(self, name: str) -> str:
        return name + self.suffix if name in self.names else name

    def operand(self, operand: Operand) -> Operand:
        if isinstance(operand, Reg):
            return Reg(self.name(operand.name))
        if isinstance(operand, Sym):
            return operand if operand == SINK else Sym(self.name(operand.name), operand.offset)
        if isinstance(operand, Mem):
            base = self.operand(operand.base)
            assert isinstance(base, Reg | Sym | Imm)
            return Mem(base, operand.offset)
        if isinstance(operand, Vec):
            return Vec(tuple(self.operand(part) for part in operand.parts))
        if isinstance(operand, Not):
            return Not(Reg(self.name(operand.reg.name)))
        if isinstance(operand, Pair):
            return Pair(self.operand(operand.first), self.operand(operand.second))
        return operand

    def instr(self, item: Instr) -> Instr:
        if not self.suffix:
            return item
        pred = (self.name(item.pred[0]), item.pred[1]) if item.pred else None
        return dataclasses.replace(item, operands=tuple(self.operand(o) for o in item.operands), pred=pred)


def sync_kind(opcode: str) -> str:
    """What company an instruction needs: "warp", "block", "cluster", or none."""
    if opcode.startswith(WARP_SYNC):
        return "warp"
    if opcode.startswith(BLOCK_SYNC):
        return "block"
    return "cluster" if opcode.startswith(CLUSTER_SYNC) else ""


class _Cutter:
    """Cuts a body into blocks. A predicated instruction that needs company becomes a jump around it."""

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
