"""Local memory: arrays of a thread that did not fit its registers, or are indexed at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...build.ptx.errors import UnsupportedError
from ...run.device import POISON
from ..isa.floats import Array
from ..isa.site import Site
from ..observe.findings import MEMORY
from .protocol import Running


class Local:
    """Made when it is first used. What was not written is poison; reading it is no finding, compilers do."""

    def __init__(self, chunk: Running) -> None:
        self.chunk = chunk
        self.data: Array | None = None

    def _memory(self) -> Array:
        if self.data is None:
            size = max(16, -(-self.chunk.program.flat.local_bytes // 16) * 16)
            self.data = np.full((self.chunk.blocks, self.chunk.threads, size), POISON, np.uint8)
        return self.data

    def _places(self, site: Site, at: Array, m: Array | None, each: int, count: int) -> tuple[Any, Array]:
        """Row, thread and index of each lane that stays inside, and the mask of those lanes."""
        lanes = self.chunk.lanes(m)
        at = self.chunk.broadcast(at)
        limit, size = self.chunk.program.flat.local_bytes, each * count
        aligned = size if count in (1, 2, 4) else each  # a struct that is passed on is no vector
        bad = lanes & ((at < 0) | (at > limit - size) | ((at & (aligned - 1)) != 0))
        if bad.any():
            first = int(at[bad][0])
            off = "misaligned" if 0 <= first <= limit - size else "out of bounds"
            message = f"{off} local access of {size} bytes at offset {first:#x}, the thread has {limit} bytes"
            self.chunk.report(MEMORY, message, (site,), bad)
            lanes = lanes & ~bad
        rows, columns = np.nonzero(lanes)
        return (rows, columns, at[lanes] // each), lanes

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        memory, each = self._memory(), np.dtype(raw).itemsize
        (rows, columns, where), lanes = self._places(site, at, m, each, count)
        values = []
        for n in range(count):
            out = np.zeros(lanes.shape, raw)
            out[lanes] = memory.view(raw)[rows, columns, where + n]
            values.append(out)
        return tuple(values)

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        memory, each = self._memory(), np.dtype(raw).itemsize
        (rows, columns, where), lanes = self._places(site, at, m, each, len(values))
        self.chunk.changes += 1
        for n, value in enumerate(values):
            memory.view(raw)[rows, columns, where + n] = np.broadcast_to(value, lanes.shape)[lanes]

    def atomic(self, site: Site, *_: Any) -> Array:
        raise UnsupportedError(f"{site.loc}: an atomic access to local memory is not simulated")
