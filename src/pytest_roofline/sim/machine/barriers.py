"""Barriers of a warp, a block and a cluster, once those whom they wait for are there (:mod:`.gates`)."""

from __future__ import annotations

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from ..observe.findings import BARRIER
from ..observe.races import Races
from .protocol import Running
from .warp import members

NAMED = 16  # barriers a block has


class Named:
    """What has arrived at the barriers of each block, and how many each waits for (0: nobody said)."""

    def __init__(self, chunk: Running) -> None:
        self.arrived = np.zeros((chunk.blocks, NAMED), np.int64)  # threads that arrived and did not wait
        self.warps = np.zeros((chunk.blocks, NAMED, chunk.warps), bool)
        self.expected = np.zeros((chunk.blocks, NAMED), np.int64)  # the count that came with the first to arrive


class Clusters:
    """How often each thread arrived at the cluster's barrier, and how often it went on from it."""

    def __init__(self, chunk: Running) -> None:
        self.arrived = np.zeros((chunk.blocks, chunk.threads), np.int64)
        self.passed = np.zeros((chunk.blocks, chunk.threads), np.int64)


class Barriers:
    """The instructions, over a chunk; ``races`` learns who is ordered after whom."""

    def __init__(self, chunk: Running, races: Races, named: Named, clusters: Clusters) -> None:
        self.chunk, self.races, self.named, self.clusters = chunk, races, named, clusters

    def block(self) -> None:
        """bar.sync of all threads of all blocks; what came in parts was ordered at its gate."""
        self.races.barrier(None)

    def arrive(self, site: Site, number: Array, count: Array | None, m: Array | None) -> None:
        """bar.arrive: counted, and gone on."""
        chunk = self.chunk
        chunk.changes += 1
        lanes = chunk.lanes(m)
        numbers = chunk.broadcast(number)
        for row in np.flatnonzero(lanes.any(axis=1)):
            for n in np.unique(numbers[row][lanes[row]]):
                warps = (lanes[row] & (numbers[row] == n)).reshape(chunk.warps, 32).any(axis=1)
                self.named.arrived[row, int(n)] += 32 * int(warps.sum())
                self.named.warps[row, int(n)] |= warps
                if count is not None:
                    named = lanes[row] & (numbers[row] == n)
                    self._expect(site, int(row), int(n), int(chunk.broadcast(count)[row][named][0]), lanes)

    def _expect(self, site: Site, row: int, number: int, count: int, lanes: Array) -> None:
        before = int(self.named.expected[row, number])
        if (before and before != count) or int(self.named.arrived[row, number]) > count:
            message = f"threads arrive at a named barrier with different counts, {before} and {count}"
            if before in (0, count):
                message = f"{int(self.named.arrived[row, number])} threads arrive at a named barrier for {count}"
            self.chunk.report(BARRIER, message, (site,), lanes)
        self.named.expected[row, number] = count

    def warp(self, site: Site, mask: Array, m: Array | None) -> None:
        chunk = self.chunk
        members(chunk, site, mask, m)
        lanes = chunk.lanes(m)
        rows, warps = np.nonzero(lanes.reshape(chunk.blocks, chunk.warps, 32).any(axis=2))
        self.races.warp_barrier(rows, warps)

    def reduce(self, op: str, p: Array, m: Array | None) -> Array:
        """bar.red: the predicate over all threads of the block that take part."""
        lanes = self.chunk.lanes(m)
        yes = lanes & self.chunk.broadcast(p)
        if op == "popc":
            return np.count_nonzero(yes, axis=1).astype(np.uint32)[:, None]
        result = np.any(yes, axis=1) if op == "or" else np.all(yes == lanes, axis=1)
        return np.asarray(result)[:, None]

    def cluster(self, site: Site, arrive: bool, m: Array | None) -> None:
        chunk = self.chunk
        chunk.changes += 1
        lanes = chunk.lanes(m)
        if arrive:
            self.clusters.arrived += lanes
            return
        self.clusters.passed += lanes
        self.races.barrier(np.flatnonzero(lanes.any(axis=1)))
