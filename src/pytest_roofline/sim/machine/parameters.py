"""The arguments of a launch as the bytes of its parameters, and the allocations they point to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DeviceError, RefusedError
from ..isa.program import Program
from .arrays import SimArray
from .memory import Allocation, Arena


@dataclass(frozen=True)
class Parameters:
    """``data`` are the bytes; by name the allocations of ``pointers``, and the positions of ``nulls``."""

    data: bytes
    pointers: dict[str, Allocation]
    nulls: dict[str, int]


def pack(program: Program, args: tuple[Any, ...]) -> Parameters:
    """``args`` for ``program``: an array, a NumPy scalar, or None for a null pointer each.

    Findings will call an allocation by its argument from now on.
    Errors: :class:`RefusedError` for an argument of another kind, :class:`DeviceError` for one of another size.
    """
    flat = program.flat
    if len(args) != len(flat.params):
        raise DeviceError(f"{program.name} takes {len(flat.params)} parameters, {len(args)} were given")
    data, pointers, nulls = bytearray(flat.param_bytes), dict[str, Allocation](), dict[str, int]()
    for number, ((name, (at, variable)), value) in enumerate(zip(flat.params.items(), args, strict=True)):
        if isinstance(value, SimArray):
            raw = value.pointer.to_bytes(8, "little")
            pointers[name] = value.allocation
            extents = "x".join(map(str, value.shape))
            value.allocation.what = f"argument {number} of {program.name} ({extents} {value.dtype})"
        elif isinstance(value, np.generic):
            raw = value.tobytes()
        elif value is None:
            raw, nulls[name] = bytes(8), number
        else:
            raise RefusedError(
                f"{program.name}: parameter {number} is a {type(value).__name__}, nothing was launched; give an array "
                "of the device, a NumPy scalar of the parameter's type, or None for a null pointer"
            )
        if len(raw) != variable.size:
            raise DeviceError(f"{program.name}: parameter {number} has {variable.size} bytes, {len(raw)} were given")
        data[at : at + variable.size] = raw
    return Parameters(bytes(data), pointers, nulls)


def read_and_written(program: Program, given: Parameters, symbols: dict[str, int], arena: Arena) -> set[int]:
    """Bases of the allocations that a launch may both read and write, by where its addresses come from."""
    everything = set(arena.bases)
    touched: dict[str, set[int]] = {"read": set(), "write": set()}
    for site in program.sites:
        base = site.opcode.split(".")[0]
        if site.space not in ("", "global") or base not in ("ld", "ldu", "st", "cp", "atom", "red"):
            continue
        where = everything
        if site.pointers:
            named = {n: given.pointers[n].base for n in site.pointers if n in given.pointers}
            named |= {n: symbols[n] for n in site.pointers if n in symbols}
            # A struct's pointers, or a whole number among the sources, have other names: then it may be anything.
            where = set(named.values()) if len(named) == len(site.pointers.difference(given.nulls)) else everything
        touched["write" if base in ("st", "atom", "red") else "read"] |= where
    return touched["read"] & touched["write"]
