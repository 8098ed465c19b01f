"""Instructions, as findings and counts refer to them."""

from __future__ import annotations

from dataclasses import dataclass

from ...build.ptx.syntax import Loc


@dataclass(frozen=True)
class Site:
    """One instruction of a kernel; ``pointers`` are the parameters its address comes from, empty if not known."""

    index: int
    opcode: str
    loc: Loc
    kernel: str
    space: str = ""
    pointers: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        return f"{self.loc.file}:{self.loc.line}"

    @property
    def called(self) -> str:
        """The same, after the line that calls the inlined function which it is in."""
        parent = self.loc.parent
        return f"{parent.file}:{parent.line} > {self.place}" if parent else self.place
