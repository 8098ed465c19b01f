"""Some blocks of a launch, all their threads as one vector: their registers, masks, memory, and what they report."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..isa.floats import Array
from ..isa.program import Program
from ..isa.site import Site
from ..observe.findings import ERROR, TRAP
from ..observe.traffic import SHARED, Counts, detail, touch
from .barriers import Barriers, Clusters, Named
from .copies import Copies
from .gates import Gates
from .globals import Globals
from .handover import Handover
from .launch import Launch
from .local import Local
from .matrix import Matrices
from .mbarrier import Mbarriers
from .remote import Remote
from .shared import Shared
from .spaces import Spaces
from .special import special
from .warp import Warp

CYCLES = 64  # by which the clock is ahead after a step; what waits by it comes to an end
# The same where work is counted: waiting is none, and must not tell one block from another. More than a kernel waits
# for its turn, less than it waits before it gives up; odd, so that 32 bits of the clock never stand still.
WORTH_A_WAIT = 1_000_003


class Execution:
    """The blocks ``numbers`` of a launch: the executor of the program's code, and the chunk of those who look on."""

    def __init__(self, launch: Launch, numbers: Array) -> None:
        self.launch, self.numbers = launch, numbers
        self.program: Program = launch.program
        self.blocks = len(numbers)
        self.reverse = launch.reverse
        self.real_threads = math.prod(launch.block)
        self.threads = -(-self.real_threads // 32) * 32
        self.warps = self.threads // 32
        self.registers: list[Any] = [None] * len(self.program.registers)
        self.alive: Array | None = None
        if self.threads != self.real_threads:
            self.alive = (np.arange(self.threads) < self.real_threads)[None]
        self.carry = np.zeros((1, 1), bool)
        self.trapped = np.zeros((1, 1), bool)
        self.exited = False
        self.steps = self.turn = self.changes = 0
        self._cache: dict[Any, Array] = {}
        self._assemble()

    def _assemble(self) -> None:
        clusters, named = Clusters(self), Named(self)
        handover = Handover(self, clusters)
        shared, globals_ = Shared(self, handover), Globals(self)
        self.warp = Warp(self)
        self.memory = Spaces(self, globals_, shared, Local(self), Remote(self, shared, handover))
        self.matrices = Matrices(self, shared)
        self.barriers = Barriers(self, shared.races, named, clusters)
        self.gates = Gates(self, shared.races, named, clusters)
        self.copies = Copies(self, globals_, shared)
        self.mbarriers = Mbarriers(self, shared)

    # Masks and findings

    def everyone(self) -> Array:
        """The lanes that have not returned."""
        return np.ones((1, self.threads), bool) if self.alive is None else self.alive

    def lanes(self, m: Array | None) -> Array:
        """The lanes of a mask, over the whole chunk."""
        return self.broadcast(self.everyone() if m is None else m)

    def broadcast(self, values: Array) -> Array:
        if values.shape == (self.blocks, self.threads):
            return values
        return np.broadcast_to(values, (self.blocks, self.threads))

    def whole(self, m: Array | None) -> Array | None:
        """None for a mask of all lanes of the chunk."""
        if m is not None and not self.exited and self.threads == self.real_threads and m.all():
            return None
        return m

    def leave(self, m: Array | None) -> None:
        """Lanes return."""
        everyone = self.everyone()
        gone = everyone if m is None else np.broadcast_to(m, (max(m.shape[0], everyone.shape[0]), self.threads))
        self.alive = everyone & ~gone
        self.exited = True
        self.gates.left(gone)

    def report(
        self,
        kind: str,
        message: str,
        sites: tuple[Site, ...],
        active: Array,
        severity: str = ERROR,
        between_blocks: bool = False,
    ) -> None:
        """Note a finding of the lanes ``active``, a bool array over the chunk; the first is its example."""
        active = active & ~self.trapped  # what comes after is no news
        if not active.any():
            return
        row, column = (int(v) for v in np.argwhere(active)[0])
        x, y, _ = self.launch.grid
        number = int(self.numbers[row])
        block = (number % x, number // x % y, number // (x * y))
        bx, by, _ = self.launch.block
        thread = (column % bx, column // bx % by, column // (bx * by))
        count = int(np.count_nonzero(active))
        self.launch.findings.add(kind, message, sites, block, thread, count, severity, between_blocks)

    def count(self, site: Site, buffer: str, m: Array | None, at: Array, size: int) -> None:
        """Add an access of ``size`` bytes a lane, at addresses ``at`` over the chunk, to the site's counts."""
        counts = self.launch.counts.get((site.index, buffer))
        if counts is None:
            counts = self.launch.counts[site.index, buffer] = Counts()
        lanes, requests = self.size(m)
        counts.lanes += lanes
        counts.bytes += lanes * size
        counts.requests += requests
        if self.launch.touched is not None and buffer != SHARED:
            self.launch.touched.append(touch(self.numbers, m, at, size, site.opcode))
        if self.launch.detailed:
            detail(counts, self.lanes(m), self.broadcast(at), size, buffer)

    def size(self, m: Array | None) -> tuple[int, int]:
        """Lanes of a mask, and warps with any lane."""
        if m is None:
            return self.blocks * self.threads, self.blocks * self.warps
        times = self.blocks // m.shape[0]
        if m.shape[1] == 1:
            rows = int(np.count_nonzero(m)) * times
            return rows * self.threads, rows * self.warps
        warps = m.reshape(m.shape[0], self.warps, 32).any(axis=2)
        return int(np.count_nonzero(m)) * times, int(np.count_nonzero(warps)) * times

    # What the code asks for by itself

    def parameter(self, at: int, raw: str) -> Array:
        key = (at, raw)
        if key not in self._cache:
            size = np.dtype(raw).itemsize
            self._cache[key] = np.frombuffer(self.launch.parameters[at : at + size], raw).reshape(1, 1)
        return self._cache[key]

    def special(self, name: str) -> Array:
        if name.startswith(("%clock", "%globaltimer")):
            return self._clock(name)
        if name not in self._cache:
            self._cache[name] = special(self, name)
        return self._cache[name]

    def _clock(self, name: str) -> Array:
        self.changes += 1
        now = (WORTH_A_WAIT if self.launch.detailed else CYCLES) * self.steps
        if name in ("%clock64", "%globaltimer"):
            return np.full((1, 1), now, np.uint64)
        return np.full((1, 1), (now >> 32 if name.endswith("_hi") else now) & 0xFFFFFFFF, np.uint32)

    def address(self, name: str) -> Array:
        return np.full((1, 1), self.launch.symbols[name], np.uint64)

    def indexed(self, index: Array, m: Array | None, targets: tuple[int, ...]) -> tuple[list[tuple[int, Array]]]:
        """The jumps of brx: by target the lanes that go there."""
        lanes = self.everyone() if m is None else m
        parts = []
        for target in dict.fromkeys(targets):
            which = np.isin(index, [n for n, t in enumerate(targets) if t == target]) & lanes
            if which.any():
                parts.append((target, which))
        return (parts,)

    def trap(self, site: Site, m: Array | None) -> None:
        active = self.lanes(m)
        if active.any():
            self.report(TRAP, "the kernel stopped itself (trap, or a failed assert)", (site,), active)
            self.trapped = self.trapped | active
