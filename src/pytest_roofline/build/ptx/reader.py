"""Reads PTX text, as NVRTC emits it and inline assembly uses it; what it can't read is told, never skipped.

Syntax of the PTX ISA. Heads are read at once, the body of a function when it is first asked for.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache, partial

from .body import read_body
from .errors import UnsupportedError
from .syntax import Function, Module
from .text import Scanner, split, without_comments
from .variables import declared

LINE = re.compile(r"\.(version|target|address_size|file)\b[^\n]*")
HEAD = re.compile(
    r"((?:\.(?:visible|extern|weak)\s+)*)\.(entry|func)\s*(?:\.noreturn\s*)?(?:\(([^()]*)\)\s*)?([\w$]+)\s*"
    r"(?:\((.*?)\))?",
    re.DOTALL,
)
DIRECTIVES = re.compile(r"[^{;]*")
NUMBERS = r"\s+(\d+(?:\s*,\s*\d+)*)"


@lru_cache(maxsize=256)
def parse(text: str) -> Module:
    """The module that ``text`` holds, which nobody changes; :class:`UnsupportedError` where it is cut short."""
    return _Parser(text).run()


class _Parser(Scanner):
    def __init__(self, text: str) -> None:
        self.files = {int(n): name for n, name in re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', text)}
        super().__init__(without_comments(text), "PTX")
        self.module = Module()

    def run(self) -> Module:
        while (start := self.skip_space()) < len(self.text):
            if line := LINE.match(self.text, start):
                if line[1] == "target":
                    self.module.target = line[0].split()[1].rstrip(",")
                self.at = line.end()
            elif head := HEAD.match(self.text, start):
                self.at = head.end()
                self._function(head)
            else:
                self._variables(self.until(";"))
        return self.module

    def _variables(self, statement: str) -> None:
        found = declared(statement)
        if found is None:
            self.module.problems.append(f"PTX at module level can't be read: {statement[:80]!r}")
        self.module.variables |= {v.name: v for v in found or ()}

    def _function(self, head: re.Match[str]) -> None:
        function = Function(head[4], entry=head[2] == "entry")
        function.params = [v for part in split(head[5] or "") for v in declared(part) or ()]
        function.results = [v for part in split(head[3] or "") for v in declared(part) or ()]
        self.skip_space()
        directives = DIRECTIVES.match(self.text, self.at)
        assert directives is not None
        _bounds(function, directives[0])
        self.at = directives.end() + 1
        if self.text[directives.end() : self.at] == ";":  # a declaration only
            self.module.functions.setdefault(function.name, function)
            return
        text = self._braces(function.name)
        function.read = partial(read_body, text, function.name, self.files)
        self.module.functions[function.name] = function

    def _braces(self, name: str) -> str:
        """The text up to the brace that closes the one just read."""
        start, depth = self.at, 1
        for brace in re.compile(r"[{}]").finditer(self.text, start):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                self.at = brace.end()
                return self.text[start : brace.start()]
        raise UnsupportedError(f"PTX ends within the function {name}")


def _bounds(function: Function, directives: str) -> None:
    """What the directives between a kernel's parameters and its body say."""

    def of(name: str) -> list[int] | None:
        found = re.search(rf"\.{name}{NUMBERS}", directives)
        return [int(n) for n in found[1].split(",")] if found else None

    def extents(given: list[int]) -> tuple[int, int, int]:
        x, y, z = (*given, 1, 1)[:3]
        return x, y, z

    if cluster := of("reqnctapercluster"):
        function.cluster = extents(cluster)
    if required := of("reqntid"):
        function.required_block = extents(required)
    if most := of("maxntid") or required:
        function.max_threads = math.prod(most)
    if registers := of("maxnreg"):
        function.max_registers = registers[0]
    if blocks := of("minnctapersm"):
        function.min_blocks = blocks[0]
