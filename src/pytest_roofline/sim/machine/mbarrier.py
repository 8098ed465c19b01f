"""mbarrier objects in shared memory: 64 bits that count arrivals and know the parity of their phase.

Laid out here as phase (1 bit), expected (20 bits) and pending (20 bits) arrivals; PTX leaves the layout open.
"""

from __future__ import annotations

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from .protocol import Running
from .shared import Shared

FIELD = 0xFFFFF


class Mbarriers:
    """The operations, lane by lane: few lanes arrive at such a barrier. Waiting orders the warp after who arrived."""

    def __init__(self, chunk: Running, shared: Shared) -> None:
        self.chunk, self.shared = chunk, shared
        self.seen: dict[tuple[int, int, int], Array] = {}  # (block, address, phase) -> the clock of each warp

    def _lanes(self, at: Array, m: Array | None) -> list[tuple[int, int, int]]:
        lanes = self.chunk.lanes(m)
        at = self.chunk.broadcast(at)
        return [(int(r), int(c), int(at[r, c])) for r, c in np.argwhere(lanes)]

    def _word(self) -> Array:
        return self.shared.data.view("u8")

    def init(self, site: Site, at: Array, count: Array, m: Array | None) -> None:
        value = self.chunk.broadcast(count).astype(np.uint64)
        packed = (value << np.uint64(20)) | value
        self.shared.store(site, at, m, (packed << np.uint64(1),), "u8", False)

    def arrive(self, site: Site, at: Array, count: Array | None, m: Array | None) -> Array:
        self.chunk.changes += 1
        m = self.shared.inside(site, m, at, 8)
        counts = None if count is None else self.chunk.broadcast(count)
        states = np.zeros((self.chunk.blocks, self.chunk.threads), np.uint64)
        for row, column, address in self._lanes(at, m):
            word = int(self._word()[row, address // 8])
            phase, pending, expected = word & 1, word >> 1 & FIELD, word >> 21 & FIELD
            states[row, column] = word
            self._note(row, column, address, phase)
            pending -= 1 if counts is None else int(counts[row, column])
            if pending <= 0:
                phase, pending = phase ^ 1, expected
            self._word()[row, address // 8] = phase | pending << 1 | expected << 21
        return states

    def _note(self, row: int, column: int, address: int, phase: int) -> None:
        races, warp = self.shared.races, column >> 5
        races.clock += 1
        key = (row, address, phase)
        known = races.known[row, warp].copy()
        known[warp] = races.clock
        self.seen[key] = np.maximum(self.seen[key], known) if key in self.seen else known

    def test(self, site: Site, at: Array, value: Array, parity: bool, m: Array | None) -> Array:
        """Whether the phase that ``value`` names (its parity, or the state that an arrival gave) is over."""
        m = self.shared.inside(site, m, at, 8)
        values = self.chunk.broadcast(value)
        over = np.zeros((self.chunk.blocks, self.chunk.threads), bool)
        for row, column, address in self._lanes(at, m):
            word, asked = int(self._word()[row, address // 8]), int(values[row, column]) & 1
            over[row, column] = (word & 1) != asked
            key = (row, address, asked)
            if over[row, column] and key in self.seen:
                races, warp = self.shared.races, column >> 5
                races.known[row, warp] = np.maximum(races.known[row, warp], self.seen[key])
        return over
