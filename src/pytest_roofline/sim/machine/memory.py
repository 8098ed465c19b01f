"""Global memory: allocations with guards, poison, and shadows of what was written.

An address is a number; an allocation knows which of its bytes were written, and which of those by a kernel. Large
allocations are kept by pages that exist once they are touched.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...run.device import POISON
from ..isa.floats import Array

BASE = 0x7_0000_0000
ALIGNMENT = 4096  # bytes; cudaMalloc promises 256, and gives large arrays whole pages
GAP = 4096  # bytes between allocations that belong to nobody
SPARSE_ABOVE = 2**28  # bytes from which pages are made when touched
PAGE = 2**16
# What a byte of ``init`` holds: that it was written at all, and that a kernel stored to it.
WRITTEN, KERNEL = 1, 2
FROM_HOST, FROM_KERNEL = WRITTEN, WRITTEN | KERNEL


class Allocation:
    """``nbytes`` bytes at ``base``. ``what`` describes it in findings; ``tile`` is a pattern that fills it.

    ``init`` holds for each byte what is known of it: 0 if nobody wrote it, else ``FROM_HOST`` or ``FROM_KERNEL``.
    """

    def __init__(self, base: int, nbytes: int, what: str, tile: Array | None = None, sparse: bool = False) -> None:
        self.base, self.nbytes, self.what, self.tile, self.sparse = base, nbytes, what, tile, sparse
        self.initialised = tile is not None  # all of it, by the host: no read has to be checked
        self.stored = False  # whether a kernel ever stored to it
        size = 0 if self.sparse else -(-nbytes // 16) * 16
        self.data = np.full(size, POISON, np.uint8)
        self.init = np.zeros(size, np.uint8)
        self.table = np.full(-(-nbytes // PAGE), -1, np.int64) if self.sparse else None
        self.poisoned: list[tuple[int, int, int]] = []  # of pages that are not there yet: from, to, with which byte
        if tile is not None and not self.sparse:
            whole = np.resize(tile.view(np.uint8).ravel(), nbytes)
            self.fill(0, whole)

    def fill(self, offset: int, values: Array) -> None:
        """Copy ``values`` (bytes) from the host to ``offset``; what kernels stored there is forgotten."""
        self._exist(offset, values.size)
        for at, start, stop in self._pieces(offset, values.size):
            self.data[at : at + stop - start] = values[start - offset : stop - offset]
            self.init[at : at + stop - start] = FROM_HOST
        self.initialised = self.initialised or values.size == self.nbytes

    def poison(self, offset: int, count: int, byte: int) -> None:
        """Fill with ``byte``, as if nobody had written there."""
        for at, start, stop in self._pieces(offset, count):
            self.data[at : at + stop - start] = byte
            self.init[at : at + stop - start] = 0
        if self.sparse and count:
            self.poisoned = [one for one in self.poisoned if not offset <= one[0] <= one[1] <= offset + count]
            self.poisoned.append((offset, offset + count, byte))
        self.initialised = self.initialised and not count

    def bytes(self, offset: int, count: int) -> Array:
        """``count`` bytes from ``offset``; what was never touched is poison, or the pattern."""
        if not self.sparse:
            return self.data[offset : offset + count]
        at = self.flat(np.arange(offset, offset + count))  # first, for it may make pages and so another ``data``
        return self.data[at]

    def note_stored(self, granules: Array, granule: int) -> None:
        """Kernels stored to those of the first granules, of so many bytes each, that are true in ``granules``."""
        raw = f"u{granule}"
        self.init.view(raw)[: granules.size][granules] = all_bytes(FROM_KERNEL, raw)

    def stored_granules(self, granule: int) -> Array:
        """Sorted numbers of the granules, of 1, 2, 4 or 8 bytes, to which kernels stored, of an allocation by pages."""
        assert self.table is not None
        pages, raw = np.flatnonzero(self.table >= 0), f"u{granule}"
        in_order = self.init.reshape(-1, PAGE)[self.table[pages]].reshape(-1).view(raw)
        page, place = np.divmod(np.flatnonzero(in_order & all_bytes(KERNEL, raw)), PAGE // granule)
        return pages[page] * (PAGE // granule) + place

    def _pieces(self, offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Position in ``data``, first offset and end of each piece of a range that exists."""
        if self.table is None:
            yield offset, offset, offset + count
            return
        for page in range(offset // PAGE, -(-(offset + count) // PAGE)):
            start, stop = max(offset, page * PAGE), min(offset + count, (page + 1) * PAGE)
            if self.table[page] >= 0:
                yield int(self.table[page]) * PAGE + start % PAGE, start, stop

    def _exist(self, offset: int, count: int) -> None:
        """Make the pages of a range."""
        if self.table is not None and count:
            first, end = offset // PAGE, -(-(offset + count) // PAGE)
            self._touch(first + np.flatnonzero(self.table[first:end] < 0))

    def flat(self, offsets: Array) -> Array:
        """Byte offsets in the allocation as positions in ``data``."""
        if self.table is None:
            return offsets
        pages = offsets // PAGE
        missing = self.table[pages] < 0
        if missing.any():
            self._touch(np.unique(pages[missing]))
        return self.table[pages] * PAGE + offsets % PAGE

    def _touch(self, pages: Array) -> None:
        """Make ``pages``, which are not there yet."""
        assert self.table is not None
        if not pages.size:
            return
        first = self.data.size // PAGE
        self.table[pages] = np.arange(first, first + pages.size)
        content = np.full(pages.size * PAGE, POISON, np.uint8)
        if self.tile is not None:
            raw = self.tile.view(np.uint8).ravel()
            where = (pages[:, None] * PAGE + np.arange(PAGE)[None, :]) % raw.size
            content = raw[where].ravel()
        self.data = np.concatenate([self.data, content])
        self.init = np.concatenate([self.init, np.full(content.size, 0 if self.tile is None else FROM_HOST, np.uint8)])
        for start, stop, byte in self.poisoned:
            self._poison_pages(pages, start, stop, byte)

    def _poison_pages(self, pages: Array, start: int, stop: int, byte: int) -> None:
        """The part of the new ``pages`` that was poisoned before they were made."""
        assert self.table is not None
        for page in pages[(pages * PAGE < stop) & ((pages + 1) * PAGE > start)]:
            at = int(self.table[page]) * PAGE
            first, end = max(start - int(page) * PAGE, 0), min(stop - int(page) * PAGE, PAGE)
            self.data[at + first : at + end] = byte
            self.init[at + first : at + end] = 0


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


def all_bytes(byte: int, raw: str) -> Any:
    """A value of the NumPy type ``raw`` of which each byte is ``byte``, as shadows of bytes are compared by."""
    return np.array(int.from_bytes(bytes([byte]) * np.dtype(raw).itemsize, "little"), raw)
