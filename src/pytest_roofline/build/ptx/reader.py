"""Reads PTX text, as NVRTC emits it and inline assembly uses it; what it can't read is an error, never skipped.

Syntax of the PTX ISA.
"""

from __future__ import annotations

import dataclasses
import math
import re
import struct

from ...sim.errors import UnsupportedError
from .syntax import (
    NOWHERE,
    SIZES,
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

LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<space>global|const|shared|local|param|reg)\s*"
    r"(?:\.align\s+(?P<align>\d+)\s*)?(?:\.v(?P<vector>[24])\s+)?\.(?P<type>\w+)\s+(?P<rest>.*)",
    re.DOTALL,
)
NAME = re.compile(
    r"(?P<name>[\w$%]+)\s*(?:<(?P<many>\d+)>)?(?P<dims>(?:\[\d*\])*)\s*(?:=\s*(?P<value>.*))?$", re.DOTALL
)
HEAD = re.compile(
    r"((?:\.(?:visible|extern|weak)\s+)*)\.(entry|func)\s*(?:\.noreturn\s*)?(?:\(([^()]*)\)\s*)?([\w$]+)\s*"
    r"(?:\((.*?)\))?",
    re.DOTALL,
)


def parse(text: str) -> Module:
    """The module that ``text`` holds; :class:`UnsupportedError` for what can't be read."""
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self.files = {int(n): name for n, name in re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', text)}
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        self.text = re.sub(r"\.section\s+\.?\w+\s*\{.*?\n\s*\}", "", text, flags=re.DOTALL)
        self.at = 0
        self.module = Module()
        self.places: dict[tuple[int, int, int], Loc] = {}
        self.scopes: list[dict[str, str]] = []
        self.count = 0

    def run(self) -> Module:
        while (start := self._skip_space()) < len(self.text):
            if line := re.compile(r"\.(version|target|address_size|file)\b[^\n]*").match(self.text, start):
                if line[1] == "target":
                    self.module.target = line[0].split()[1].rstrip(",")
                self.at = line.end()
            elif head := HEAD.match(self.text, start):
                self.at = head.end()
                self._function(head)
            else:
                statement = self._until(";")
                found = self._variables(statement)
                if found is None:
                    raise UnsupportedError(f"PTX at module level can't be read: {statement[:80]!r}")
                self.module.variables |= {v.name: v for v in found}
        return self.module

    def _skip_space(self) -> int:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at

    def _until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise UnsupportedError(f"PTX ends within {self.text[self.at : self.at + 60]!r}")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found.strip()

    def _function(self, head: re.Match[str]) -> None:
        function = Function(head[4], entry=head[2] == "entry")
        function.params = [v for part in _split(head[5] or "") for v in self._variables(part) or ()]
        function.results = [v for part in _split(head[3] or "") for v in self._variables(part) or ()]
        self._skip_space()
        directives = re.compile(r"[^{;]*").match(self.text, self.at)
        assert directives is not None
        if cluster := re.search(r"\.reqnctapercluster\s+([\d, ]+)", directives[0]):
            found = [int(n) for n in cluster[1].split(",")]
            function.cluster = (*found, 1, 1)[:3]  # type: ignore[assignment]
        if bound := re.search(r"\.(?:max|req)ntid\s+([\d, ]+)", directives[0]):
            extents = [int(n) for n in bound[1].split(",")]
            function.max_threads = math.prod(extents)
            if bound[0].startswith(".req"):
                function.required_block = (*extents, 1, 1)[:3]  # type: ignore[assignment]
        self.at = directives.end()
        if self.text[self.at] == ";":  # a declaration only
            self.at += 1
            self.module.functions.setdefault(function.name, function)
            return
        self.at += 1
        self.function, self.loc, self.scopes = function, NOWHERE, [{}]
        while self.scopes:
            self._statement()
        self.module.functions[function.name] = function

    def _statement(self) -> None:
        if self._skip_space() == len(self.text):
            raise UnsupportedError(f"PTX ends within the function {self.function.name}")
        char = self.text[self.at]
        if char in "{}":
            self.at += 1
            if char == "{":
                self.scopes.append({})
                self._labels_ahead()
            else:
                self.scopes.pop()
            return
        label = re.compile(r"([\w$]+)\s*:(?!:)").match(self.text, self.at)
        if label:
            self.at = label.end()
            table = re.compile(r"\s*\.branchtargets\s+([^;]*);").match(self.text, self.at)
            if table:
                self.at = table.end()
                names = tuple(self._scoped(n.strip()) for n in table[1].split(","))
                self.function.targets[self._scoped(label[1])] = names
            else:
                self.function.body.append(Label(self._scoped(label[1])))
            return
        if re.compile(r"\.loc\s").match(self.text, self.at):
            line = self._until("\n")
            self.loc = self._place(line)
            return
        statement = self._until(";")
        if statement.startswith((".pragma", ".callprototype")):
            return
        if statement.startswith("."):
            self._declare(statement)
        elif statement:
            self.function.body.append(self._instr(statement))

    def _labels_ahead(self) -> None:
        """Give the labels of the scope that begins here names of its own, before a jump refers to them."""
        depth, stop = 1, self.at
        while depth and stop < len(self.text):
            depth += {"{": 1, "}": -1}.get(self.text[stop], 0)
            stop += 1
        for name in re.findall(r"(?:^|[;{}:])\s*([A-Za-z_$][\w$]*)\s*:(?!:)", self.text[self.at : stop]):
            self._scoped(name, define=True)

    def _place(self, line: str) -> Loc:
        found = LOC.match(line)
        if not found:
            raise UnsupportedError(f"PTX line can't be read: {line!r}")
        number, row, column = (int(found[n]) for n in (1, 2, 3))
        parent = None
        if found[4]:
            key = (int(found[4]), int(found[5]), int(found[6]))
            parent = self.places.get(key) or Loc(self._file(key[0]), key[1])
        place = Loc(self._file(number), row, parent)
        self.places[number, row, column] = place
        return place

    def _file(self, number: int) -> str:
        return str(self.files.get(number, "?").rsplit("/", 1)[-1])

    def _declare(self, statement: str) -> None:
        found = self._variables(statement)
        if found is None:
            raise UnsupportedError(f"PTX statement can't be read: {statement[:80]!r}")
        for variable in found:
            # Registers of NVRTC are %name<count>; a name of its own in a scope of inline assembly gets a new one.
            name = self._scoped(variable.name, define=len(self.scopes) > 1)
            if variable.space == "reg":
                self.function.regs[name] = variable.type
            else:
                self.function.variables[name] = dataclasses.replace(variable, name=name)

    def _scoped(self, name: str, define: bool = False) -> str:
        if define and len(self.scopes) > 1:
            self.count += 1
            self.scopes[-1][name] = f"{name}@{self.count}"
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _variables(self, statement: str) -> list[Variable] | None:
        """The variables that a declaration makes; registers given by count come one by one. None if it is none."""
        found = VARIABLE.match(statement.strip())
        if not found:
            return None
        kind, each = found["type"], SIZES.get(found["type"], 0) * int(found["vector"] or 1)
        variables = []
        for part in _split(found["rest"]):
            # NVRTC says of a pointer ".ptr .align 1" from sm_100 on.
            item = NAME.match(re.sub(r"^(\.align\s+\d+|\.\w+|\s)+", "", part.strip()))
            if not item or not each:
                return None
            if item["many"]:
                variables += [Variable(f"{item['name']}{n}", "reg", kind, each, each) for n in range(int(item["many"]))]
                continue
            size = each
            for extent in re.findall(r"\[(\d*)\]", item["dims"]):
                size = size * int(extent) if extent else -1
            data = self._initial(item["value"], kind, size) if item["value"] else b""
            variables.append(Variable(item["name"], found["space"], kind, int(found["align"] or each), size, data))
        return variables

    def _initial(self, text: str, kind: str, size: int) -> bytes:
        each, found = SIZES[kind], bytearray()
        for value in re.findall(r"[^\s{},]+", text):
            number = _number(value)
            if number is None:  # the address of something else: known at load only
                raise UnsupportedError(f"a variable that holds an address ({value}) is not simulated")
            found += (number.value % (1 << 8 * each)).to_bytes(each, "little")
        return bytes(found) + bytes(max(0, size - len(found)))

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
            return Instr(opcode, tuple(self._operand(part) for part in _split(rest)), self.loc, pred)
        except (UnsupportedError, ValueError) as error:  # refused where it is used, and in no other kernel
            return Instr(opcode, (), self.loc, pred, str(error))

    def _call(self, text: str) -> tuple[Operand, ...]:
        """(results), name, (arguments) as Vec, Sym, Vec."""
        parts = [part.strip() for part in _split(text)]
        results = parts.pop(0) if parts[0].startswith("(") else "()"
        name = parts.pop(0)
        given = parts.pop(0) if parts else "()"

        def names(group: str) -> Vec:
            return Vec(tuple(self._operand(n.strip()) for n in group.strip("()").split(",") if n.strip()))

        return names(results), self._operand(name), names(given)

    def _operand(self, text: str) -> Operand:
        text = text.strip()
        if text.startswith("{"):
            return Vec(tuple(self._operand(part) for part in _split(text[1 : text.rindex("}")])))
        if text.startswith("["):
            return self._memory(text[1 : text.rindex("]")])
        if text.startswith("!"):
            return Not(Reg(self._scoped(text[1:].strip())))
        if "|" in text:
            first, second = text.split("|")
            return Pair(self._operand(first), self._operand(second))
        number = _number(text)
        if number is not None:
            return number
        if "+" in text:
            name, _, offset = text.partition("+")
            return Sym(self._scoped(name.strip()), int(offset))
        name = self._scoped(text)
        if name in self.function.regs:
            return Reg(name)
        return Sym(name)

    def _memory(self, text: str) -> Operand:
        parts = [part.strip() for part in _split(text)]
        if len(parts) > 1:
            raise UnsupportedError(f"the address [{text}] (a tensor's coordinates) is not simulated")
        found = re.match(r"(.*?)\s*(?:([+-])\s*(-?\w+))?$", parts[0])
        assert found is not None
        offset = int(found[3], 0) * (-1 if found[2] == "-" else 1) if found[3] else 0
        base = self._operand(found[1])
        if isinstance(base, Sym | Reg | Imm):
            return Mem(base, offset)
        raise UnsupportedError(f"the address [{text}] can't be read")


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part for part in [*parts, text[start:]] if part.strip()]


def _number(text: str) -> Imm | None:
    if found := re.fullmatch(r"(-?)0[fF]([0-9a-fA-F]{8})", text):
        return Imm(int(found[2], 16) ^ (1 << 31 if found[1] else 0), 4)
    if found := re.fullmatch(r"(-?)0[dD]([0-9a-fA-F]{16})", text):
        return Imm(int(found[2], 16) ^ (1 << 63 if found[1] else 0), 8)
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|[1-9]\d*|0[0-7]*)U?", text):
        digits = text.rstrip("U")
        if re.fullmatch(r"-?0[0-7]+", digits):
            return Imm(int(digits, 8))
        return Imm(int(digits, 0))
    if re.fullmatch(r"-?\d+\.\d*(?:[eE][+-]?\d+)?", text):
        return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 8)
    return None
