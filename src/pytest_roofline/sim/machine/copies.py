"""cp.async: copies from global to shared memory that land when their group is waited for.

Until then the shared memory holds what it held: a kernel that forgets to wait reads old or unwritten data, as it may
on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from .globals import Globals
from .protocol import Running
from .shared import Shared


@dataclass
class Copy:
    """One instruction's copies that have not landed: for each lane its group, -1 once it has."""

    site: Site
    at: Array
    values: tuple[Array, ...]
    group: Array


class Copies:
    """The copies under way in a chunk; each lane counts its groups for itself."""

    def __init__(self, chunk: Running, globals_: Globals, shared: Shared) -> None:
        self.chunk, self.globals, self.shared = chunk, globals_, shared
        self.committed: Array | None = None
        self.pending: list[Copy] = []

    def _groups(self) -> Array:
        if self.committed is None:
            self.committed = np.zeros((self.chunk.blocks, self.chunk.threads), np.int64)
        return self.committed

    def start(
        self, site: Site, at: Array, source: Site, where: Array, size: int, given: Array | None, m: Array | None
    ) -> None:
        """``size`` bytes a lane; of those only the first ``given`` are read, the rest is zero."""
        self.chunk.changes += 1
        lanes = self.chunk.lanes(m)
        count = np.full(lanes.shape, size) if given is None else self.chunk.broadcast(given)
        load = self.globals.load
        if (count[lanes] == size).all():
            values = list(load(source, where, lanes, "u4", size // 4, False))
        else:
            values = [np.zeros(lanes.shape, np.uint32) for _ in range(size // 4)]
            for n in range(size):
                part = lanes & (count > n)
                if part.any():
                    byte = load(source, where + n, part, "u1", 1, False)[0].astype(np.uint32)
                    values[n // 4] |= np.where(part, byte, np.uint32(0)) << np.uint32(8 * (n % 4))
        group = np.where(lanes, self._groups(), -1)
        self.pending.append(Copy(site, self.chunk.broadcast(at), tuple(values), group))
        # The bytes are taken from now on: whoever still reads them races with the copy.
        self.shared.occupy(site, at, lanes, size)

    def commit(self, m: Array | None) -> None:
        self.chunk.changes += 1
        self._groups()[self.chunk.lanes(m)] += 1

    def wait(self, m: Array | None, left: int) -> None:
        """All groups but the latest ``left`` have landed for these lanes; with -1 what is not committed too."""
        lanes, committed = self.chunk.lanes(m), self._groups()
        for copy in self.pending:
            due = lanes & (copy.group >= 0)
            due &= (copy.group < committed - left) if left >= 0 else True
            if due.any():
                self.shared.store(copy.site, copy.at, due, copy.values, "u4", False)
                copy.group = np.where(due, -1, copy.group)
        self.pending = [copy for copy in self.pending if (copy.group >= 0).any()]
