"""Shared memory of a chunk of blocks: bounds, alignment, what was never written. Races: :mod:`.races`."""

from __future__ import annotations

import numpy as np

from ...run.device import POISON
from ..isa.floats import Array
from ..isa.site import Site
from ..observe.chunk import Lanes
from ..observe.findings import MEMORY, UNINITIALISED
from ..observe.races import ATOMIC, READ, WRITE, Races
from .atomics import atomic, typed_view
from .handover import Handover
from .memory import WRITTEN, all_bytes
from .protocol import Running


class Shared:
    """Static and dynamic shared memory of each of the chunk's blocks; poison until written."""

    def __init__(self, chunk: Running, handover: Handover) -> None:
        self.chunk, self.handover, self.size = chunk, handover, chunk.launch.shared_bytes
        held, blocks = chunk.launch.shared_held, chunk.blocks
        self.data = np.full((blocks, held), POISON, np.uint8)
        self.init = np.zeros((blocks, held), np.uint8)
        self.races = Races(chunk, held, chunk.program.granule["shared"])
        self.rows = np.arange(blocks)[:, None]

    # Access

    def lanes(self, m: Array | None, at: Array) -> Lanes | None:
        """The lanes of ``m`` that access ``at``; None if there are none."""
        blocks, threads = self.chunk.blocks, self.chunk.threads
        if m is None:
            each = None if at.shape[1] == 1 and threads > 1 else np.arange(threads)[None]
            return Lanes(self.rows, each, at, whole=True)
        if m.shape[0] == 1 and at.shape[0] == 1:
            columns = np.flatnonzero(np.broadcast_to(m, (1, threads))[0])
            if not columns.size:
                return None
            return Lanes(self.rows, columns[None], np.broadcast_to(at, (1, threads))[:, columns], whole=False)
        rows, columns = np.nonzero(np.broadcast_to(m, (blocks, threads)))
        if not rows.size:
            return None
        return Lanes(rows, columns, np.broadcast_to(at, (blocks, threads))[rows, columns], whole=False)

    def gathered(self, lanes: Lanes, values: Array) -> Array:
        """``values`` over the chunk, one for each lane."""
        if lanes.whole:
            return values
        shape = (self.chunk.blocks, self.chunk.threads)
        return np.broadcast_to(values, shape)[lanes.rows, lanes.threads]

    def inside(self, site: Site, m: Array | None, at: Array, size: int) -> Array | None:
        """``m`` without the lanes that are out of bounds or misaligned; those are findings."""
        limit = self.size
        bad = (at < 0) | (at > limit - size) | ((at & (size - 1)) != 0)
        if not bad.any():
            return m
        active = self.chunk.broadcast(bad if m is None else bad & m)
        if active.any():
            first = int(np.broadcast_to(at, active.shape)[active][0])
            off = "misaligned" if first % size and 0 <= first <= limit - size else "out of bounds"
            self.chunk.report(
                MEMORY,
                f"{off} shared access of {size} bytes at offset {first:#x}, the block has {limit} bytes",
                (site,),
                active,
            )
        return ~bad if m is None else m & ~bad

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        each = np.dtype(raw).itemsize
        m = self.inside(site, m, at, each * count)
        lanes = self.lanes(m, at)
        if lanes is None:
            return (np.zeros((1, 1), raw),) * count
        self.races.access(site, READ, lanes, each * count)
        self.chunk.count(site, "shared", m, at, each * count)
        self.handover.read(
            site,
            (lanes.rows, lanes.rows, lanes.threads, lanes.at),
            lambda bad: self.chunk.broadcast(lanes.spread(self.chunk, bad)),
        )
        index = lanes.at // each
        view, init = self.data.view(raw), self.init.view(raw)
        whole = all_bytes(WRITTEN, raw)
        places = [(lanes.rows, index + n) for n in range(count)]
        unwritten = np.logical_or.reduce([init[here] != whole for here in places])
        if unwritten.any():
            self.unwritten(site, lanes, unwritten, each * count)
        return tuple(lanes.spread(self.chunk, view[here]) for here in places)

    def unwritten(self, site: Site, lanes: Lanes, which: Array, size: int) -> None:
        active = self.chunk.broadcast(lanes.spread(self.chunk, which))
        at = int(np.broadcast_to(lanes.at, which.shape)[which][0])
        message = f"read of {size} bytes of shared memory at offset {at:#x} that nobody wrote"
        self.chunk.report(UNINITIALISED, message, (site,), active)

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        each = np.dtype(raw).itemsize
        m = self.inside(site, m, at, each * len(values))
        if m is None and at.shape[1] == 1:  # every thread writes the same place: the last one's value stays
            at = np.broadcast_to(at, (at.shape[0], self.chunk.threads))
        lanes = self.lanes(m, at)
        if lanes is None:
            return
        self.races.access(site, WRITE, lanes, each * len(values))
        self.chunk.count(site, "shared", m, at, each * len(values))
        self.write(lanes, values, raw)

    def occupy(self, site: Site, at: Array, m: Array, size: int) -> None:
        """A copy that is under way will write here: checked as a write is, but nothing is written yet."""
        lanes = self.lanes(self.inside(site, m, at, size), at)
        if lanes is not None:
            self.races.access(site, WRITE, lanes, size)

    def write(self, lanes: Lanes, values: tuple[Array, ...], raw: str) -> None:
        each = np.dtype(raw).itemsize
        index = lanes.at // each
        self.chunk.changes += 1
        ones = all_bytes(WRITTEN, raw)
        self.handover.wrote(lanes.rows, lanes.rows, lanes.threads, lanes.at, each * len(values))
        for n, value in enumerate(values):
            value = self.gathered(lanes, value)
            order = slice(None, None, -1) if self.chunk.reverse else slice(None)
            rows, columns, value = np.broadcast_arrays(lanes.rows, index + n, value)
            self.data.view(raw)[rows.ravel()[order], columns.ravel()[order]] = value.ravel()[order]
            self.init.view(raw)[rows, columns] = ones

    def atomic(
        self,
        site: Site,
        at: Array,
        m: Array | None,
        op: str,
        kind: str,
        b: Array,
        c: Array,
        keep: bool,
        target: Array | None = None,
    ) -> Array:
        """``target``: by lane the block whose memory it is, in a cluster; its own by default."""
        view, run, size = typed_view(self.data, op, kind)
        m = self.inside(site, m, at, size)
        active = self.chunk.lanes(m)
        rows, threads = np.nonzero(active)
        if not rows.size:
            return np.zeros((1, 1), b.dtype)
        lanes = Lanes(rows, threads, self.chunk.broadcast(at)[rows, threads], whole=False)
        if target is None:
            self.races.access(site, ATOMIC, lanes, size)
        else:
            lanes = Lanes(target[rows, threads], threads, lanes.at, whole=False)
        self.chunk.count(site, "shared", m, at, size)
        init = self.init.view(f"u{size}")[lanes.rows, lanes.at // size] != all_bytes(WRITTEN, f"u{size}")
        own = Lanes(rows, threads, lanes.at, whole=False)
        if init.any() and (op != "exch" or keep):
            self.unwritten(site, own, init, size)
        self.init.view(f"u{size}")[lanes.rows, lanes.at // size] = all_bytes(WRITTEN, f"u{size}")
        where = lanes.rows * (self.data.shape[1] // size) + lanes.at // size
        first, second = (np.ascontiguousarray(self.gathered(own, v)) for v in (b, c))
        old = atomic(view.reshape(-1), where, op, run, first, second, keep, self.chunk.reverse)
        self.chunk.changes += not keep or bool((view.reshape(-1)[where] != old).any())
        return own.spread(self.chunk, np.ascontiguousarray(old))
