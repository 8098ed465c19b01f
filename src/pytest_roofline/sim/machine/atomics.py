"""Atomic operations on memory: one after the other, in the order of the lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..isa.alu import TABLE
from ..isa.floats import Array
from ..isa.operation import DTYPES

Combine = Callable[[Array, Array, Array], Array]
AT: dict[str, Any] = {"add": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


def combine(op: str) -> Combine:
    """The new value from the old one and the operands."""
    table: dict[str, Combine] = {
        "add": lambda old, b, c: old + b,
        "min": lambda old, b, c: np.minimum(old, b),
        "max": lambda old, b, c: np.maximum(old, b),
        "and": lambda old, b, c: old & b,
        "or": lambda old, b, c: old | b,
        "xor": lambda old, b, c: old ^ b,
        "exch": lambda old, b, c: b,
        "cas": lambda old, b, c: np.where(old == b, c, old),
        "inc": lambda old, b, c: np.where(old >= b, b.dtype.type(0), old + b.dtype.type(1)),
        "dec": lambda old, b, c: np.where((old == 0) | (old > b), b, old - b.dtype.type(1)),
    }
    return table[op]


def ranks(where: Array) -> Array:
    """For each entry how many equal ones stand before it."""
    order = np.argsort(where, kind="stable")
    ordered = where[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    counts = np.diff(np.append(starts, where.size))
    found = np.empty(where.size, np.int64)
    found[order] = np.arange(where.size) - np.repeat(starts, counts)
    return found


def atomic(
    view: Array, where: Array, op: str, run: Combine, b: Array, c: Array, want_old: bool, reverse: bool
) -> Array:
    """Apply ``run`` at positions ``where`` of ``view``, lane by lane, the last first if ``reverse``; the old values."""
    if reverse:
        return atomic(view, where[::-1], op, run, b[::-1], c[::-1], want_old, False)[::-1]
    if not want_old and op in AT and (view.dtype.kind != "f" or op == "add"):
        AT[op].at(view, where, b)
        return b
    rank = ranks(where)
    old = np.empty(where.size, view.dtype)
    for turn in range(int(rank.max(initial=-1)) + 1):
        now = rank == turn
        at = where[now]
        old[now] = view[at]
        view[at] = run(view[at], b[now], c[now])
    return old


def typed_view(data: Array, op: str, kind: str) -> tuple[Array, Combine, int]:
    """``data`` as values of the PTX type ``kind``, how ``op`` combines them, and their size in bytes."""
    dtype = np.dtype(DTYPES[kind])
    if kind in ("f16", "bf16", "f16x2", "bf16x2"):
        found = TABLE[op]((op, "rn", kind))
        assert found is not None
        return data.view(dtype), lambda old, b, c: found.run(old, b), dtype.itemsize
    return data.view(dtype), combine(op), dtype.itemsize
