"""Runs a program over a grid, a chunk of blocks at a time, all their threads as one vector.

Lanes part at jumps: the scheduler keeps, by block of code, the mask of the lanes that wait there, runs one at a time
and joins those that meet. Which one it runs must not matter: the second schedule takes the highest instead of the
lowest, the chunks from the last, and colliding lanes the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...build.ptx.syntax import NOWHERE
from ..isa.floats import Array
from ..isa.fpmode import available, flushing
from ..isa.program import EXIT
from ..isa.special import special
from ..isa.tensor import load_matrix, store_matrix
from ..isa.translate import Program
from ..observe.findings import CONVERGENCE, ERROR, STEPS, TRAP, Findings, Site
from ..observe.traffic import SHARED, Counts, Touch, detail, touch
from . import warp
from .barriers import Barriers
from .copies import Copies
from .globals import Globals
from .mbarrier import Mbarriers
from .memory import Arena
from .shared import Shared
from .spaces import Spaces
from .watch import Watch

LANES = 65536  # of a chunk: few enough for the cache, enough that NumPy's calls do not count
SHARED_BYTES = 2**23  # of a chunk, shadows not counted
STEPS_LIMIT = 1_000_000  # blocks of code that a chunk of few lanes may run; one of many has fewer of them
LANE_STEPS = 2**28  # so that an endless loop is told in seconds
CYCLES = 64  # by which the clock is ahead after a step; what waits by it comes to an end
# The same where work is counted: waiting is none, and must not tell one block from another. More than a kernel waits
# for its turn, less than it waits before it gives up; odd, so that 32 bits of the clock never stand still.
WORTH_A_WAIT = 1_000_003
LOOKBACK = 1000  # steps before the limit in which the code of an endless loop shows
FAIR = 64  # every so often the lanes that wait longest have their turn, or a spinning lane would starve its neighbour


@dataclass
class Executed:
    """How often a block of code ran: for how many lanes, and for how many warps with any lane."""

    lanes: int = 0
    warps: int = 0


@dataclass
class Launch:
    """One launch: program, sizes, the bytes of its parameters, and what comes of it."""

    program: Program
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    parameters: bytes
    arena: Arena
    findings: Findings
    symbols: dict[str, int]
    nulls: dict[str, int] = field(default_factory=dict)  # parameters that are null pointers, with their positions
    tracked: set[int] = field(default_factory=set)  # bases of allocations that this launch both reads and writes
    counts: dict[tuple[int, str], Counts] = field(default_factory=dict)
    time: int = 0  # of fences and of what synchronises with them
    # Once a block has fenced: up to which fence of each block (columns) each block (rows) knows; counted from 1.
    knows: Array | None = None
    carried: dict[tuple[int, int], Array] = field(default_factory=dict)  # and what each synchronising place hands on
    executed: dict[int, Executed] = field(default_factory=dict)
    reverse: bool = False
    detailed: bool = False
    touched: list[Touch] | None = None  # filled if it is a list
    steps_limit: int = STEPS_LIMIT

    def run(self, blocks: Sequence[int] | None = None) -> None:
        """Execute the blocks of the grid, or those given by number."""
        size = math.prod(self.program.flat.cluster)
        padded = -(-math.prod(self.block) // 32) * 32
        shared = self.program.flat.static_shared + self.shared
        held = padded * max(1, self.program.flat.local_bytes // 64)
        count = max(1, min(LANES // held, SHARED_BYTES // max(1, shared)))
        count = max(size, count // size * size)
        on = self.program.flushes and available()
        with np.errstate(all="ignore"), flushing(on):
            for part in self._parts(blocks, count):
                chunk = Chunk(self, part)
                chunk.run()
                chunk.__dict__.clear()  # its parts refer to each other: their arrays would wait for the collector
        self.knows = None
        self.carried.clear()

    def _parts(self, blocks: Sequence[int] | None, count: int) -> Iterator[Array]:
        """The numbers of the blocks, ``count`` at a time: all of a large grid would take gigabytes."""
        chosen = None if blocks is None else np.asarray(blocks, np.int64)
        total = math.prod(self.grid) if chosen is None else len(chosen)
        starts = range(0, total, count)
        for at in reversed(starts) if self.reverse else starts:
            end = min(at + count, total)
            yield np.arange(at, end) if chosen is None else chosen[at:end]


class Chunk:
    """Some blocks of a launch. Its methods are what the generated code calls."""

    def __init__(self, launch: Launch, numbers: Array) -> None:
        self.launch, self.program, self.numbers = launch, launch.program, numbers
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
        size = self.program.flat.static_shared + launch.shared
        self.shared = Shared(self, size, self.program.granule["shared"])
        self.globals = Globals(self)
        self.barriers = Barriers(self)
        self.copies = Copies(self)
        self.mbarriers = Mbarriers(self)
        # What the generated code calls on the chunk.
        for part in (Spaces(self), self.globals, self.barriers, self.mbarriers):
            for name in part.INSTRUCTIONS:
                setattr(self, name, getattr(part, name))
        for function in (warp.shuffle, warp.vote, warp.match, warp.redux, warp.elect, load_matrix, store_matrix):
            setattr(self, function.__name__, partial(function, self))
        self.steps = self.turn = 0
        self.steps_limit = min(launch.steps_limit, max(20_000, LANE_STEPS // (self.blocks * self.threads)))
        self.changes = 0  # how often anything was written, or read that changes by itself
        self.watch = Watch(self, self.steps_limit, FAIR)
        self.since: dict[int, int] = {}  # by block of code that lanes wait at: the turn in which the first came
        self.recent: set[int] = set()
        self._cache: dict[Any, Array] = {}

    # Scheduling

    def run(self) -> None:
        pending: dict[int, Array | None] = {0: self.alive}
        stuck: set[int] = set()
        while pending:
            ready = [block for block in pending if block not in stuck]
            if not ready:
                self.changes += 1
                self.barriers.resolve(pending)
                stuck.clear()
                continue
            self.turn += 1
            if self.turn % FAIR == 0:
                block = min(ready, key=lambda waiting: self.since.get(waiting, 0))
            else:
                block = max(ready) if self.reverse else min(ready)
            m = pending.pop(block)
            if block in self.program.gates:
                m, waiting = self.barriers.gate(block, m, pending)
                if waiting is not None:
                    self.join(pending, block, waiting)
                if isinstance(m, np.ndarray) and not m.any():
                    stuck.add(block)
                    continue
                m = self.whole(m)
            stuck.clear()
            if not self.step(block, m, pending):
                return

    def step(self, block: int, m: Array | None, pending: dict[int, Array | None]) -> bool:
        """Run ``block`` and what follows as long as all its lanes stay together and no one else waits."""
        functions, gates = self.program.functions, self.program.gates
        while True:
            self.steps += 1
            if self.steps > self.steps_limit - LOOKBACK:
                self.recent.add(block)
                if self.steps > self.steps_limit:
                    self._runaway(m, self.recent, "an endless loop, or a wait for what does not come")
                    return False
            if self.steps >= self.watch.next and self.watch.endless(block, m, pending):
                self._runaway(m, self.watch.ran, "a wait for what does not come")
                return False
            lanes, warps = self.size(m)
            ran = self.launch.executed.setdefault(block, Executed())
            ran.lanes += lanes
            ran.warps += warps
            after = functions[block](self, m)
            if type(after) is int:
                following, parted = after, False
            elif len(after) == 3:
                following, parted = self._part(after, m, pending)
            else:
                for target, lanes in after[0]:
                    self.join(pending, target, lanes)
                return True
            on = following not in gates or (m is None and following in self.program.open)
            if not parted and not pending and following != EXIT and on:
                block = following
                continue
            if not parted:
                self.join(pending, following, m)
            return True

    def _part(self, after: Any, m: Array | None, pending: dict[int, Array | None]) -> tuple[int, bool]:
        """Where the lanes go on, and whether they parted; those that did wait where they went."""
        p, yes, no = after
        if m is None:
            if p.all():
                return yes, False
            if not p.any():
                return no, False
            self.join(pending, yes, p)
            self.join(pending, no, ~p)
            return yes, True
        taken, left = m & p, m & ~p
        if not left.any():
            return yes, False
        if not taken.any():
            return no, False
        self.join(pending, yes, taken)
        self.join(pending, no, left)
        return yes, True

    def join(self, pending: dict[int, Array | None], block: int, m: Array | None) -> None:
        """Lanes ``m`` arrive at ``block``."""
        if block == EXIT:
            self._leave(m)
            return
        if block not in pending:
            self.since[block] = self.turn
        else:
            there = pending[block]
            m = None if m is None or there is None else m | there
        pending[block] = self.whole(m)

    def whole(self, m: Array | None) -> Array | None:
        """None for a mask of all lanes of the chunk."""
        if m is not None and not self.exited and self.threads == self.real_threads and m.all():
            return None
        return m

    def _leave(self, m: Array | None) -> None:
        everyone = self.everyone()
        gone = everyone if m is None else np.broadcast_to(m, (max(m.shape[0], everyone.shape[0]), self.threads))
        self.alive = everyone & ~gone
        self.exited = True
        self.barriers.left(gone)

    def indexed(self, index: Array, m: Array | None, targets: tuple[int, ...]) -> Any:
        """The jumps of brx: by target the lanes that go there."""
        lanes = self.everyone() if m is None else m
        parts = []
        for target in dict.fromkeys(targets):
            which = np.isin(index, [n for n, t in enumerate(targets) if t == target]) & lanes
            if which.any():
                parts.append((target, which))
        return (parts,)

    def _runaway(self, m: Array | None, recent: set[int], what: str) -> None:
        """Named by the first line of the code that ran in the end, which does not depend on where it was stopped."""
        bodies = [self.program.flat.blocks[block].body for block in sorted(recent)]
        loc = next((item.loc for body in bodies for item in body if item.loc.line), NOWHERE)
        site = Site(-1, "loop", loc, self.program.name)
        active = self.lanes(m)
        steps = min(self.steps, self.steps_limit)
        self.report(STEPS, f"no end after {steps} steps: {what}", (site,), active)

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

    # Values

    def parameter(self, at: int, raw: str) -> Array:
        key = (at, raw)
        if key not in self._cache:
            size = np.dtype(raw).itemsize
            self._cache[key] = np.frombuffer(self.launch.parameters[at : at + size], raw).reshape(1, 1)
        return self._cache[key]

    def special(self, name: str) -> Array:
        if name.startswith(("%clock", "%globaltimer")):
            return self.clock(name)
        if name not in self._cache:
            self._cache[name] = special(self, name)
        return self._cache[name]

    def clock(self, name: str) -> Array:
        self.changes += 1
        now = (WORTH_A_WAIT if self.launch.detailed else CYCLES) * self.steps
        if name in ("%clock64", "%globaltimer"):
            return np.full((1, 1), now, np.uint64)
        return np.full((1, 1), (now >> 32 if name.endswith("_hi") else now) & 0xFFFFFFFF, np.uint32)

    def address(self, name: str) -> Array:
        return np.full((1, 1), self.launch.symbols[name], np.uint64)

    # Company

    def full_warps(self, site: Site, m: Array | None) -> None:
        """An instruction of the whole warp: none of its lanes may have returned."""
        bits = warp.ballot(self, self.everyone() if m is None else m)
        short = warp.each_lane((bits != 0) & (bits != np.uint32(0xFFFFFFFF)))
        if short.any():
            message = f"{site.opcode} needs all 32 lanes of the warp"
            self.report(CONVERGENCE, message, (site,), self.broadcast(short & self.everyone()))

    def active(self, m: Array | None) -> Array:
        return warp.each_lane(warp.ballot(self, self.everyone() if m is None else m))

    def trap(self, site: Site, m: Array | None) -> None:
        active = self.lanes(m)
        if active.any():
            self.report(TRAP, "the kernel stopped itself (trap, or a failed assert)", (site,), active)
            self.trapped = self.trapped | active
