"""The rules of the model of the L2 cache, line by line: what model/l2.py has to agree with, to the byte."""

from __future__ import annotations

import numpy as np

from pytest_roofline.model.l2 import LINE, Dram, Geometry, Sweep, hashed


class LineByLine:
    """Each set is a dict from line to whether it was written, the least recently used first."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.content: list[dict[int, bool]] = [{} for _ in range(geometry.partitions * geometry.sets)]
        self.read = self.written = 0

    def _put(self, where: int, line: int, written: bool) -> None:
        lines = self.content[where]
        lines[line] = written
        if len(lines) > self.geometry.ways:
            self.written += lines.pop(next(iter(lines)))

    def access(self, line: int, own: int, home: int, write: bool) -> None:
        """A block whose partition has the set ``own`` for the line reads or writes it; ``home`` is its home's set."""
        content = self.content
        mine = content[own]
        if write:
            content[home].pop(line, None)
            self._put(home, line, True)
            if own != home:
                mine.pop(line, None)
                self._put(own, line, False)
            return
        if line in mine:
            mine[line] = mine.pop(line)
            return
        if own != home and line in content[home]:
            content[home][line] = content[home].pop(line)
        else:
            self.read += 1
            self._put(home, line, False)
        if own != home:
            self._put(own, line, False)

    def run(self, sweep: Sweep, salt: int) -> Dram:
        """The launch's DRAM traffic; ``salt`` tells one launch from another."""
        read, written = self.read, self.written
        blocks = np.arange(sweep.blocks)
        side = hashed(blocks + (blocks >= sweep.in_flight) * (salt + 1) * 2**32) % self.geometry.partitions
        for wave in range(0, sweep.blocks, sweep.in_flight):
            for one in sweep.touched:
                for block, first, end in zip(one.blocks, one.first, one.end, strict=True):
                    if wave <= block < wave + sweep.in_flight:
                        self._touch(np.arange(first // LINE, (end - 1) // LINE + 1), int(side[block]), one.write)
        return Dram(LINE * (self.read - read), LINE * (self.written - written))

    def _touch(self, lines: np.ndarray, side: int, write: bool) -> None:
        partitions, sets = self.geometry.partitions, self.geometry.sets
        for line, mixed in zip(lines.tolist(), hashed(lines).tolist(), strict=True):
            index = mixed // partitions % sets
            self.access(line, index + sets * side, index + sets * (mixed % partitions), write)


def traffic(sweeps: list[Sweep], geometry: Geometry) -> list[Dram]:
    cache = LineByLine(geometry)
    return [cache.run(sweep, salt) for salt, sweep in enumerate(sweeps)]
