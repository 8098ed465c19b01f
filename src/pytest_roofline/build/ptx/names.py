"""Kernels by the name a user writes: extern "C" names, mangled ones, and expressions like ``ns::scale<256, float>``."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from functools import cache
from typing import Any


@cache
def _demangler() -> Any:
    """``__cxa_demangle`` of the C++ runtime library, which CuPy needs too; None where it is not found."""
    try:
        found = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    found.restype = ctypes.c_void_p
    return found


@cache
def demangled(name: str) -> str:
    """``name`` as C++ writes it (Itanium ABI), with its parameters; ``name`` itself where it is not mangled."""
    demangler = _demangler()
    if demangler is None or not name.startswith("_Z"):
        return name
    text = demangler(name.encode(), None, None, None)
    if not text:
        return name
    found = ctypes.string_at(text).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return found


def expression(name: str) -> str:
    """How one names a kernel in C++: "ns::scale<256, float>" for "void ns::scale<256, float>(float*)", mangled."""
    text, depth = demangled(name).removeprefix("void ").replace("(anonymous namespace)::", ""), 0
    for at, char in enumerate(text):
        if char == "(" and depth == 0:
            return text[:at]
        depth += {"<": 1, ">": -1}.get(char, 0)
    return text


def plain(text: str) -> str:
    """``text`` without what an expression may be written with or without: blanks, casts and suffixes of numbers."""
    text = re.sub(r"\((?:\w+|::|\s)+\)(?=-?\d)", "", text)
    text = re.sub(r"(?<![\w.])(\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"\b(long|short) int\b", r"\1", re.sub(r"\s+", " ", text))
    text = re.sub(r"\bunsigned\b(?! (?:int|char|short|long))", "unsigned int", text)
    return re.sub(r"\s*([<>,*&:])\s*", r"\1", text).strip().removeprefix("&").removeprefix("::")


def matching(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names``, as PTX has them, that ``wanted`` names; template arguments at the end may be left out."""
    wanted = plain(wanted)
    written = {name: plain(expression(name)) for name in names}
    exact = tuple(name for name, text in written.items() if wanted in (name, text))
    if exact:
        return exact
    if "<" in wanted:  # the rest are the template's defaults
        return tuple(name for name, text in written.items() if text.startswith(f"{wanted.removesuffix('>')},"))
    return tuple(name for name, text in written.items() if text.partition("<")[0] == wanted)
