"""Global memory: allocations with guards, poison and shadows.

An address is a number; an allocation knows which of its bytes were written, and within a launch which block wrote or
read each granule. Large allocations are kept by pages that exist once they are touched.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...run.device import POISON
from ..isa.alu import TABLE
from ..isa.floats import Array
from ..isa.operation import DTYPES

BASE = 0x7_0000_0000
ALIGNMENT = 4096  # bytes; cudaMalloc promises 256, and gives large arrays whole pages
GAP = 4096  # bytes between allocations that belong to nobody
SPARSE_ABOVE = 2**28  # bytes from which pages are made when touched
PAGE = 2**16


class Allocation:
    """``nbytes`` bytes at ``base``. ``what`` describes it in findings; ``tile`` is a pattern that fills it."""

    def __init__(self, base: int, nbytes: int, what: str, tile: Array | None = None, sparse: bool = False) -> None:
        self.base, self.nbytes, self.what, self.tile, self.sparse = base, nbytes, what, tile, sparse
        self.initialised = tile is not None
        size = 0 if self.sparse else -(-nbytes // 16) * 16
        self.data = np.full(size, POISON, np.uint8)
        self.init = np.zeros(size, np.uint8)
        self.table = np.full(-(-nbytes // PAGE), -1, np.int64) if self.sparse else None
        self.begin_launch()
        if tile is not None and not self.sparse:
            whole = np.resize(tile.view(np.uint8).ravel(), nbytes)
            self.fill(0, whole)

    def begin_launch(self) -> None:
        """Forget who wrote and read in the launch before."""
        self.owner: Array | None = None
        self.reader: Array | None = None
        self.updater: Array | None = None
        self.sites: dict[str, Array] = {}
        self.times: dict[str, Array] = {}

    def fill(self, offset: int, values: Array) -> None:
        """Copy ``values`` (bytes) from the host to ``offset``."""
        at = self.flat(np.arange(offset, offset + values.size)) if self.sparse else slice(offset, offset + values.size)
        self.data[at] = values
        self.init[at] = 1
        self.initialised = self.initialised or values.size == self.nbytes

    def bytes(self, offset: int, count: int) -> Array:
        """``count`` bytes from ``offset``; what was never touched is poison, or the pattern."""
        if not self.sparse:
            return self.data[offset : offset + count]
        at = self.flat(np.arange(offset, offset + count))  # first, for it may make pages and so another ``data``
        return self.data[at]

    def flat(self, offsets: Array) -> Array:
        """Byte offsets in the allocation as positions in ``data``."""
        if self.table is None:
            return offsets
        pages = offsets // PAGE
        missing = np.unique(pages[self.table[pages] < 0])
        if missing.size:
            self._touch(missing)
        return self.table[pages] * PAGE + offsets % PAGE

    def _touch(self, pages: Array) -> None:
        assert self.table is not None
        first = self.data.size // PAGE
        self.table[pages] = np.arange(first, first + pages.size)
        content = np.full(pages.size * PAGE, POISON, np.uint8)
        if self.tile is not None:
            raw = self.tile.view(np.uint8).ravel()
            where = (pages[:, None] * PAGE + np.arange(PAGE)[None, :]) % raw.size
            content = raw[where].ravel()
        self.data = np.concatenate([self.data, content])
        self.init = np.concatenate([self.init, np.full(content.size, self.tile is not None, np.uint8)])
        for name in ("owner", "reader", "updater"):
            if (shadow := getattr(self, name)) is not None:
                grown = np.zeros(self.data.size * shadow.size // max(1, self.data.size - content.size), np.int32)
                grown[: shadow.size] = shadow
                setattr(self, name, grown)
                for beside in (self.sites, self.times):
                    beside[name] = np.append(beside[name], np.zeros(grown.size - shadow.size, np.int32))

    def shadow(self, name: str, granule: int) -> tuple[Array, Array]:
        """Per granule the block, counted from 1, that last was its "owner" (wrote), "reader" or "updater" (atomics).

        The second array holds the number of the site where it was.
        """
        found: Array | None = getattr(self, name)
        if found is None:
            found = np.zeros(-(-self.data.size // granule), np.int32)
            setattr(self, name, found)
            self.sites[name], self.times[name] = np.zeros(found.size, np.int32), np.zeros(found.size, np.int32)
        return found, self.sites[name]


class Arena:
    """All allocations of a device, by address; those above ``sparse_above`` bytes by pages."""

    def __init__(self, sparse_above: int = SPARSE_ABOVE) -> None:
        self.sparse_above = sparse_above
        self.bases: list[int] = []
        self.allocations: list[Allocation] = []
        self.next = BASE

    def allocate(self, nbytes: int, what: str, tile: Array | None = None) -> Allocation:
        made = Allocation(self.next, nbytes, what, tile, nbytes > self.sparse_above)
        self.bases.append(self.next)
        self.allocations.append(made)
        self.next += -(-(nbytes + GAP) // ALIGNMENT) * ALIGNMENT
        return made

    def free(self, allocation: Allocation) -> None:
        at = bisect.bisect_left(self.bases, allocation.base)
        del self.bases[at], self.allocations[at]

    def at(self, address: int) -> Allocation | None:
        """The allocation that begins at or before ``address``, unless it ends before it by more than the gap."""
        at = bisect.bisect_right(self.bases, address) - 1
        if at < 0:
            return None
        found = self.allocations[at]
        return found if address < found.base + found.nbytes + GAP else None

    def near(self, address: int) -> Allocation | None:
        """The allocation to which ``address`` is nearest, if it is within the gap before or behind it."""
        at = bisect.bisect_right(self.bases, address)
        around = self.allocations[max(0, at - 1) : at + 1]
        far = {a.base: max(a.base - address, address - a.base - a.nbytes + 1, 0) for a in around}
        best = min(around, key=lambda a: far[a.base], default=None)
        return best if best is not None and far[best.base] <= GAP else None

    def begin_launch(self) -> None:
        for allocation in self.allocations:
            allocation.begin_launch()


def all_written(raw: str) -> Any:
    """What a shadow of written bytes holds for a value of the NumPy type ``raw`` all of which was written."""
    return np.array(int.from_bytes(b"\1" * np.dtype(raw).itemsize, "little"), raw)


# Atomics: one after the other, in the order of the lanes

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
