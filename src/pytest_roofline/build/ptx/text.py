"""Pieces of PTX text: comments, lists, numbers."""

from __future__ import annotations

import re
import struct

from .errors import UnsupportedError
from .syntax import Imm

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
SECTION = re.compile(r"\.section\s+\.?\w+\s*\{.*?\n\s*\}", re.DOTALL)  # debug data


def without_comments(text: str) -> str:
    """``text`` without comments and without the debug data at its end."""
    return SECTION.sub("", COMMENT.sub("", text))


class Scanner:
    """A place in ``text`` that moves on; ``of`` names what it is the text of."""

    def __init__(self, text: str, of: str) -> None:
        self.text, self.of, self.at = text, of, 0

    def skip_space(self) -> int:
        """Where the next character is that is no space."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at

    def until(self, end: str) -> str:
        """What stands before the next ``end``, and moves behind it; :class:`UnsupportedError` where there is none."""
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise UnsupportedError(f"{self.of} ends within {self.text[self.at : self.at + 60]!r}")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found.strip()


def split(text: str) -> list[str]:
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


def number(text: str) -> Imm | None:
    """The integer or float that ``text`` is; None if it is none."""
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
