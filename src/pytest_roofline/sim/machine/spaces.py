"""Which memory an access goes to: by its state space, or by the window that a generic address lies in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..isa.floats import Array
from ..observe.findings import MEMORY, Site
from .local import Local

if TYPE_CHECKING:
    from .execute import Chunk

WINDOW = 1 << 56  # bytes; shared memory lies in the first, local memory in the second, global memory below
WINDOWS = {"global": 0, "shared": 1, "local": 2}


class Spaces:
    """Hands accesses on. Lanes of one instruction may go to different spaces by generic addresses."""

    INSTRUCTIONS = ("load", "store", "atomic", "load_cluster", "store_cluster", "map_shared", "window", "in_space")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.owners: dict[str, Any] = {"global": chunk.globals, "shared": chunk.shared, "local": Local(chunk)}

    def window(self, value: Array, space: str, back: bool) -> Array:
        """cvta: a generic address from one of ``space``, or ``back``."""
        base = value.dtype.type(WINDOWS[space] * WINDOW)
        return value - base if back else value + base

    def in_space(self, value: Array, space: str) -> Array:
        return value >> np.uint64(56) == WINDOWS.get(space, 0)

    def _parts(self, space: str, at: Array, m: Array | None) -> list[tuple[Any, Array, Array | None]]:
        """Whose memory, the address there, and the lanes it goes for."""
        if space:
            return [(self.owners["global" if space == "const" else space], at, m)]
        windows = at >> 56
        windows = np.where(
            (windows == 1) | (windows == 2), windows, 0
        )  # what lies in no window is for global to refuse
        first = int(windows.flat[0])
        if (windows == first).all():
            name = next(name for name, number in WINDOWS.items() if number == first)
            return [(self.owners[name], at - first * WINDOW, m)]
        lanes = self.chunk.everyone() if m is None else m
        parts = []
        for name, number in WINDOWS.items():
            part = lanes & (windows == number)
            if part.any():
                parts.append((self.owners[name], at - number * WINDOW, part))
        return parts or [(self.owners["global"], at, m)]

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        out: tuple[Array, ...] | None = None
        for owner, where, part in self._parts(site.space, at, m):
            found = owner.load(site, where, part, raw, count, volatile)
            out = found if out is None else tuple(_merged(part, v, o) for v, o in zip(found, out, strict=True))
        assert out is not None
        return out

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        for owner, where, part in self._parts(site.space, at, m):
            owner.store(site, where, part, values, raw, volatile)

    def atomic(
        self, site: Site, at: Array, m: Array | None, op: str, kind: str, b: Array, c: Array, keep: bool
    ) -> Array:
        if "shared::cluster" in site.opcode.split("."):
            lanes, target, where = self._remote(site, at, m)
            remote: Array = self.chunk.shared.atomic(site, where, lanes, op, kind, b, c, keep, target)
            return remote
        out: Array | None = None
        for owner, where, part in self._parts(site.space, at, m):
            found = owner.atomic(site, where, part, op, kind, b, c, keep)
            out = found if out is None else _merged(part, found, out)
        assert out is not None
        return out

    # Another block's shared memory, in a cluster

    def map_shared(self, address: Array, rank: Array) -> Array:
        """mapa: the address of the same place in the block of that rank of the cluster."""
        return address | ((rank + np.uint32(1)) << np.uint32(24))

    def _remote(self, site: Site, at: Array, m: Array | None) -> tuple[Array, Array, Array]:
        """Lanes, row of the block whose memory each addresses, and the offset there."""
        lanes = self.chunk.lanes(m)
        size = math.prod(self.chunk.program.flat.cluster)
        rows = np.arange(self.chunk.blocks)[:, None]
        rank = (self.chunk.broadcast(at) >> 24) - 1
        outside = lanes & (rank >= size)
        if outside.any():
            message = f"shared memory of block {int(rank[outside][0])} of a cluster of {size}"
            self.chunk.report(MEMORY, message, (site,), outside)
            lanes = lanes & ~outside
        target = np.where(rank < 0, rows, rows // size * size + np.clip(rank, 0, size - 1))
        return lanes, target, self.chunk.broadcast(at) & 0xFFFFFF

    def load_cluster(
        self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool
    ) -> tuple[Array, ...]:
        lanes, target, where = self._remote(site, at, m)
        return self.chunk.shared.load_remote(site, lanes, target, where, raw, count)

    def store_cluster(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        lanes, target, where = self._remote(site, at, m)
        self.chunk.shared.store_remote(site, lanes, target, where, values, raw)


def _merged(part: Array | None, new: Array, old: Array) -> Array:
    return new if part is None else np.where(part, new, old)
