"""Reads the body of a function: instructions with their operands and source lines, and what is declared among them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from .errors import UnsupportedError
from .syntax import NOWHERE, Body, Imm, Instr, Label, Loc, Mem, Not, Operand, Pair, Reg, Sym, Vec
from .text import Scanner, number, split
from .variables import declared

LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
LABEL = re.compile(r"([\w$]+)\s*:(?!:)")
TARGETS = re.compile(r"\s*\.branchtargets\s+([^;]*);")
AHEAD = re.compile(r"(?:^|[;{}:])\s*([A-Za-z_$][\w$]*)\s*:(?!:)")


def read_body(text: str, name: str, files: Mapping[int, str]) -> Body:
    """The body that stands in ``text``, without its outer braces; ``files`` are those that its lines name by number.

    Errors: :class:`UnsupportedError` for a statement that can't be read. An instruction with such operands is kept with
    its problem.
    """
    return _Reader(text, name, files).run()


class _Reader(Scanner):
    def __init__(self, text: str, name: str, files: Mapping[int, str]) -> None:
        super().__init__(text, f"PTX of {name}")
        self.files = files
        self.body, self.loc = Body(), NOWHERE
        self.places: dict[tuple[int, int, int], Loc] = {}
        self.scopes: list[dict[str, str]] = [{}]
        self.count = 0

    def run(self) -> Body:
        while self.skip_space() < len(self.text):
            self._statement()
        return self.body

    def _statement(self) -> None:
        char = self.text[self.at]
        if char in "{}":
            self.at += 1
            if char == "{":
                self.scopes.append({})
                self._labels_ahead()
            else:
                self.scopes.pop()
            return
        if label := LABEL.match(self.text, self.at):
            self._label(label)
            return
        if self.text.startswith(".loc", self.at) and self.text[self.at + 4 : self.at + 5].isspace():
            self.loc = self._place(self.until("\n"))
            return
        statement = self.until(";")
        if statement.startswith((".pragma", ".callprototype")):
            return
        if statement.startswith("."):
            self._declare(statement)
        elif statement:
            self.body.items.append(self._instr(statement))

    def _label(self, label: re.Match[str]) -> None:
        self.at = label.end()
        if table := TARGETS.match(self.text, self.at):
            self.at = table.end()
            names = tuple(self._scoped(n.strip()) for n in table[1].split(","))
            self.body.targets[self._scoped(label[1])] = names
        else:
            self.body.items.append(Label(self._scoped(label[1])))

    # Names and places

    def _labels_ahead(self) -> None:
        """Give the labels of the scope that begins here names of its own, before a jump refers to them."""
        depth, stop = 1, self.at
        while depth and stop < len(self.text):
            depth += {"{": 1, "}": -1}.get(self.text[stop], 0)
            stop += 1
        for name in AHEAD.findall(self.text[self.at : stop]):
            self._scoped(name, define=True)

    def _scoped(self, name: str, define: bool = False) -> str:
        if define and len(self.scopes) > 1:
            self.count += 1
            self.scopes[-1][name] = f"{name}@{self.count}"
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _place(self, line: str) -> Loc:
        found = LOC.match(line)
        if not found:
            raise UnsupportedError(f"PTX line can't be read: {line!r}")
        file, row, column = (int(found[n]) for n in (1, 2, 3))
        parent = None
        if found[4]:
            key = (int(found[4]), int(found[5]), int(found[6]))
            parent = self.places.get(key) or Loc(self._file(key[0]), key[1])
        place = Loc(self._file(file), row, parent)
        self.places[file, row, column] = place
        return place

    def _file(self, file: int) -> str:
        return str(self.files.get(file, "?").rsplit("/", 1)[-1])

    def _declare(self, statement: str) -> None:
        found = declared(statement)
        if found is None:
            raise UnsupportedError(f"PTX statement can't be read: {statement[:80]!r}")
        for variable in found:
            # Registers of NVRTC are %name<count>; a name of its own in a scope of inline assembly gets a new one.
            name = self._scoped(variable.name, define=len(self.scopes) > 1)
            if variable.space == "reg":
                self.body.regs[name] = variable.type
            else:
                self.body.variables[name] = dataclasses.replace(variable, name=name)

    # Instructions

    def _instr(self, statement: str) -> Instr:
        pred = None
        if statement.startswith("@"):
            guard, statement = statement[1:].split(None, 1)
            pred = (self._scoped(guard.lstrip("!")), guard.startswith("!"))
        opcode, _, rest = statement.partition(" ") if " " in statement else statement.partition("\t")
        opcode, _, more = opcode.partition("\t")
        rest = f"{more} {rest}".strip()
        if opcode.startswith("call"):
            return Instr(opcode, self._call(rest), self.loc, pred)
        try:
            return Instr(opcode, tuple(self._operand(part) for part in split(rest)), self.loc, pred)
        except (UnsupportedError, ValueError) as error:  # refused where it is used, and in no other kernel
            return Instr(opcode, (), self.loc, pred, str(error))

    def _call(self, text: str) -> tuple[Operand, ...]:
        """(results), name, (arguments) as Vec, Sym, Vec."""
        parts = [part.strip() for part in split(text)]
        results = parts.pop(0) if parts[0].startswith("(") else "()"
        name = parts.pop(0)
        given = parts.pop(0) if parts else "()"

        def names(group: str) -> Vec:
            return Vec(tuple(self._operand(n.strip()) for n in group.strip("()").split(",") if n.strip()))

        return names(results), self._operand(name), names(given)

    def _operand(self, text: str) -> Operand:
        text = text.strip()
        if text.startswith("{"):
            return Vec(tuple(self._operand(part) for part in split(text[1 : text.rindex("}")])))
        if text.startswith("["):
            return self._memory(text[1 : text.rindex("]")])
        if text.startswith("!"):
            return Not(Reg(self._scoped(text[1:].strip())))
        if "|" in text:
            first, second = text.split("|")
            return Pair(self._operand(first), self._operand(second))
        known = number(text)
        if known is not None:
            return known
        if "+" in text:
            name, _, offset = text.partition("+")
            return Sym(self._scoped(name.strip()), int(offset))
        name = self._scoped(text)
        if name in self.body.regs:
            return Reg(name)
        return Sym(name)

    def _memory(self, text: str) -> Operand:
        parts = [part.strip() for part in split(text)]
        if len(parts) > 1:
            raise UnsupportedError(f"the address [{text}] (a tensor's coordinates) is not simulated")
        found = re.match(r"(.*?)\s*(?:([+-])\s*(-?\w+))?$", parts[0])
        assert found is not None
        offset = int(found[3], 0) * (-1 if found[2] == "-" else 1) if found[3] else 0
        base = self._operand(found[1])
        if isinstance(base, Sym | Reg | Imm):
            return Mem(base, offset)
        raise UnsupportedError(f"the address [{text}] can't be read")
