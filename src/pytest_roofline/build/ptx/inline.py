"""A kernel with everything it calls in one body, every name of a called function with a suffix of its own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from .errors import UnsupportedError
from .syntax import SINK, Function, Imm, Instr, Label, Loc, Mem, Module, Not, Operand, Pair, Reg, Sym, Variable, Vec

MAX_DEPTH = 16
IGNORED_CALLS = ("vprintf",)


@dataclass
class Inlined:
    """A body without calls. A parameter passed on is copied by ``copy.param``, from one variable to another.

    ``variables`` are those of the kernel and of what it calls, parameters of called functions among them; ``notes`` say
    what was left out.
    """

    items: list[Instr | Label] = field(default_factory=list)
    regs: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def inlined(module: Module, name: str, keep: bool = False) -> Inlined:
    """The kernel ``name`` of ``module``.

    Errors: :class:`UnsupportedError` for recursion, calls by address and functions without a body; with ``keep`` such a
    call stays where it is.
    """
    inliner = _Inliner(module, keep)
    inliner.made.items = inliner.body(module.functions[name], "", 0)
    return inliner.made


class _Inliner:
    def __init__(self, module: Module, keep: bool) -> None:
        self.module, self.keep = module, keep
        self.made = Inlined()
        self.calls = 0
        self.inside: list[str] = []  # names of the functions whose bodies are being copied

    def body(self, function: Function, suffix: str, depth: int) -> list[Instr | Label]:
        if depth > MAX_DEPTH:
            raise UnsupportedError(f"{function.name}: calls nest deeper than {MAX_DEPTH} (recursion?), not simulated")
        code = function.body
        self.made.regs |= {name + suffix: kind for name, kind in code.regs.items()}
        # Static shared variables of a device function exist once, whoever calls it.
        own = {v.name: v for v in code.variables.values() if v.space == "shared"}
        self.made.variables |= own
        rest = [v for v in code.variables.values() if v.space != "shared"]
        rest += [] if function.entry else [*function.params, *function.results]
        self.made.variables |= {v.name + suffix: dataclasses.replace(v, name=v.name + suffix) for v in rest}
        local = {v.name for v in rest} | set(code.regs)
        labels = {item.name for item in code.items if isinstance(item, Label)}
        local |= labels | set(code.targets)
        self.made.targets |= {
            name + suffix: tuple(target + suffix for target in found) for name, found in code.targets.items()
        }
        rename = _Renamer(local, suffix)
        done: list[Instr | Label] = []
        for item in code.items:
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
        callee = self.module.functions.get(name.name) if isinstance(name, Sym) else None
        if callee is None:
            return self._kept(call, "an indirect call")
        self.calls += 1
        if callee.name in IGNORED_CALLS and not self.keep:
            self.made.notes.append(f"{call.loc}: printf is ignored")
            return []
        if callee.name == "__assertfail":
            return [Instr("trap", (), call.loc, call.pred)]
        if callee.read is None:
            return self._kept(call, f"{callee.name} has no body here and")
        if self.keep and callee.name in self.inside:  # recursion
            return [call]
        skip = f"$skip/{self.calls}"
        done = self._body_of(callee, call, results, given, depth)
        if call.pred is None:
            return done
        return [Instr("bra", (Sym(skip),), call.loc, (call.pred[0], not call.pred[1])), *done, Label(skip)]

    def _kept(self, call: Instr, what: str) -> list[Instr | Label]:
        if not self.keep:
            raise UnsupportedError(f"{call.loc}: {what} is not simulated")
        return [call]

    def _body_of(self, callee: Function, call: Instr, results: Vec, given: Vec, depth: int) -> list[Instr | Label]:
        suffix = f"/{self.calls}"
        copies: list[Instr | Label] = []
        for outer, inner in zip(given.parts, callee.params, strict=True):
            copies.append(_copy(Sym(inner.name + suffix), outer, inner.size, call.loc))
        self.inside.append(callee.name)
        body = self.body(callee, suffix, depth + 1)
        self.inside.pop()
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
        return [*copies, *inside, Label(end), *back]


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
