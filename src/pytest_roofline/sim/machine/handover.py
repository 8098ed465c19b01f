"""What the blocks of a cluster write into each other's shared memory, and the barrier that hands it over."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from ..observe.findings import ERROR, RACE
from .barriers import Clusters
from .protocol import Running


class Handover:
    """By word of shared memory the block that last wrote it, and which arrival at the cluster's barrier hands it over.

    What mbarriers order between blocks is not followed.
    """

    def __init__(self, chunk: Running, clusters: Clusters) -> None:
        self.chunk, self.clusters = chunk, clusters
        flat, words = chunk.program.flat, chunk.launch.shared_held // 4
        first = {item.mods[0] for block in flat.blocks for item in block.body if item.mods}
        self.on = math.prod(flat.cluster) > 1 and "mbarrier" not in first
        if self.on:
            self.writer = np.full((chunk.blocks, words), -1, np.int32)
            self.phase = np.zeros((chunk.blocks, words), np.int32)

    def wrote(self, rows: Array, own: Array, threads: Array | None, at: Array, size: int) -> None:
        """Threads of the blocks ``own`` write into the memory of the blocks ``rows``."""
        if not self.on:
            return
        arrived = self.clusters.arrived
        next_ = (arrived.max(axis=1)[own] if threads is None else arrived[own, threads]) + 1
        for word in range(max(1, size // 4)):
            self.writer[rows, at // 4 + word] = own
            self.phase[rows, at // 4 + word] = next_

    def read(
        self, site: Site, read: tuple[Array, Array, Array | None, Array], spread: Callable[[Array], Array]
    ) -> None:
        """Report reads of what another block wrote where no barrier of the cluster is between.

        ``read``: blocks whose memory is read, the readers' blocks and threads, and bytes.
        """
        if not self.on:
            return
        rows, own, threads, at = read
        passed = self.clusters.passed
        seen = passed.min(axis=1)[own] if threads is None else passed[own, threads]
        who = self.writer[rows, at // 4]
        bad = (who >= 0) & (who != own) & (seen < self.phase[rows, at // 4])
        if bad.any():
            message = "read of what another block of the cluster wrote, no cluster barrier between"
            self.chunk.report(RACE, message, (site,), spread(bad), ERROR, True)

    def writes_early(self, site: Site, early: Array) -> None:
        """Report writes into a block that may not have begun: ``early`` are the lanes, over the chunk."""
        if self.on and early.any():
            message = "write into a block of the cluster that may not run yet: no cluster barrier before"
            self.chunk.report(RACE, message, (site,), early, ERROR, True)
