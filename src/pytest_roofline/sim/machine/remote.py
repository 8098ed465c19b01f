"""Shared memory of the other blocks of a cluster."""

from __future__ import annotations

import math

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from ..observe.chunk import scattered
from ..observe.findings import MEMORY, UNINITIALISED
from .handover import Handover
from .memory import WRITTEN, all_bytes
from .protocol import Running
from .shared import Shared

RANK, OFFSET = 24, 0xFFFFFF  # of an address: from this bit on the rank of the block and one, below the place there


class Remote:
    """Accesses to any block of the cluster, whose memory ``shared`` holds. An address carries the rank of the block."""

    def __init__(self, chunk: Running, shared: Shared, handover: Handover) -> None:
        self.chunk, self.shared, self.handover = chunk, shared, handover

    def map_shared(self, address: Array, rank: Array) -> Array:
        """mapa: the address of the same place in the block of that rank of the cluster."""
        return address | ((rank + np.uint32(1)) << np.uint32(RANK))

    def targets(self, site: Site, at: Array, m: Array | None) -> tuple[Array, Array, Array]:
        """Lanes, row of the block whose memory each addresses, and the offset there."""
        lanes = self.chunk.lanes(m)
        size = math.prod(self.chunk.program.flat.cluster)
        rows = np.arange(self.chunk.blocks)[:, None]
        rank = (self.chunk.broadcast(at) >> RANK) - 1
        outside = lanes & (rank >= size)
        if outside.any():
            message = f"shared memory of block {int(rank[outside][0])} of a cluster of {size}"
            self.chunk.report(MEMORY, message, (site,), outside)
            lanes = lanes & ~outside
        target = np.where(rank < 0, rows, rows // size * size + np.clip(rank, 0, size - 1))
        return lanes, target, self.chunk.broadcast(at) & OFFSET

    def load(self, site: Site, lanes: Array, target: Array, at: Array, raw: str, count: int) -> tuple[Array, ...]:
        """Loads of any block of the cluster. Order between blocks is not tracked; bounds and first writes are."""
        each = np.dtype(raw).itemsize
        inside = self.shared.inside(site, lanes, at, each * count)
        assert inside is not None
        rows, index = target[inside], at[inside] // each
        whole = all_bytes(WRITTEN, raw)
        own, threads = np.nonzero(inside)
        self.handover.read(site, (rows, own, threads, at[inside]), lambda bad: scattered(inside, bad))
        values = []
        for n in range(count):
            out = np.zeros(lanes.shape, raw)
            out[inside] = self.shared.data.view(raw)[rows, index + n]
            values.append(out)
            unwritten = self.shared.init.view(raw)[rows, index + n] != whole
            if unwritten.any():
                active = np.zeros(lanes.shape, bool)
                active[inside] = unwritten
                message = f"read of {each} bytes of a cluster's shared memory that nobody wrote"
                self.chunk.report(UNINITIALISED, message, (site,), active)
        self.chunk.count(site, "shared", inside, at, each * count)
        return tuple(values)

    def store(self, site: Site, lanes: Array, target: Array, at: Array, values: tuple[Array, ...], raw: str) -> None:
        each = np.dtype(raw).itemsize
        inside = self.shared.inside(site, lanes, at, each * len(values))
        assert inside is not None
        rows, index = target[inside], at[inside] // each
        own, threads = np.nonzero(inside)
        early = (rows != own) & (self.handover.clusters.passed[own, threads] == 0)
        self.handover.writes_early(site, scattered(inside, early))
        self.handover.wrote(rows, own, threads, at[inside], each * len(values))
        self.chunk.changes += 1
        for n, value in enumerate(values):
            self.shared.data.view(raw)[rows, index + n] = self.chunk.broadcast(value)[inside]
            self.shared.init.view(raw)[rows, index + n] = all_bytes(WRITTEN, raw)
        self.chunk.count(site, "shared", inside, at, each * len(values))
