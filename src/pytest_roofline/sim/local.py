"""Local memory: arrays of a thread that did not fit its registers, or are indexed at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..device import POISON
from .errors import UnsupportedError
from .findings import MEMORY, Site
from .floats import Array

if TYPE_CHECKING:
    from .execute import Chunk


class Local:
    """Made when it is first used. What was not written is poison; reading it is no finding, compilers do."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.data: Array | None = None

    def _memory(self) -> Array:
        if self.data is None:
            size = max(16, -(-self.chunk.program.flat.local_bytes // 16) * 16)
            self.data = np.full((self.chunk.blocks, self.chunk.threads, size), POISON, np.uint8)
        return self.data

    def _places(self, at: Array, m: Array | None, each: int) -> tuple[Any, Array]:
        lanes = self.chunk.broadcast(self.chunk.everyone() if m is None else m)
        rows, columns = np.nonzero(lanes)
        return (rows, columns, np.broadcast_to(at, lanes.shape)[lanes] // each), lanes

    def _outside(self, site: Site, lanes: Array, which: Array) -> None:
        active = np.zeros(lanes.shape, bool)
        active[lanes] = which
        self.chunk.report(MEMORY, "access outside of the thread's local memory", (site,), active)

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        memory, each = self._memory(), np.dtype(raw).itemsize
        (rows, columns, where), lanes = self._places(at, m, each)
        outside = (where < 0) | ((where + count) * each > memory.shape[2])
        if outside.any():
            self._outside(site, lanes, outside)
            where = np.where(outside, 0, where)
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
        (rows, columns, where), lanes = self._places(at, m, each)
        inside = (where >= 0) & ((where + len(values)) * each <= memory.shape[2])
        if not inside.all():
            self._outside(site, lanes, ~inside)
        rows, columns, where = rows[inside], columns[inside], where[inside]
        for n, value in enumerate(values):
            memory.view(raw)[rows, columns, where + n] = np.broadcast_to(value, lanes.shape)[lanes][inside]

    def atomic(self, site: Site, *_: Any) -> Array:
        raise UnsupportedError(f"{site.loc}: an atomic access to local memory is not simulated")
