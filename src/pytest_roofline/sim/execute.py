"""Runs a program over a grid, a chunk of blocks at a time, all their threads as one vector.

Lanes part at jumps: the scheduler keeps, by block of code, the mask of the lanes that wait there, runs one at a time
and joins those that meet. Which one it runs must not matter: the second schedule takes the highest instead of the
lowest, the chunks from the last, and colliding lanes the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..device import POISON
from . import tensor, warp
from .barriers import Barriers
from .copies import Copies
from .findings import CONVERGENCE, MEMORY, STEPS, TRAP, Findings
from .floats import Array
from .fpmode import available, flushing
from .globals import Globals
from .mbarrier import Mbarriers
from .memory import Arena, combine
from .program import EXIT
from .ptx import NOWHERE
from .shared import Shared
from .special import special
from .translate import Program, Site

LANES = 65536  # of a chunk: few enough for the cache, enough that NumPy's calls do not count
SHARED_BYTES = 2**23  # of a chunk, shadows not counted
STEPS_LIMIT = 100_000  # blocks of code that a chunk may run
LOOKBACK = 1000  # steps before the limit in which the code of an endless loop shows
FAIR = 64  # every so often the lanes that wait longest have their turn, or a spinning lane would starve its neighbour
SHARED_WINDOW, LOCAL_WINDOW, WINDOW = 1 << 56, 2 << 56, 1 << 56


@dataclass
class Counts:
    """What was accessed at a site, per buffer: lanes, bytes, and requests (warps with any lane)."""

    lanes: int = 0
    bytes: int = 0
    requests: int = 0


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
    pointers: dict[str, int] = field(default_factory=dict)
    tracked: set[int] = field(default_factory=set)  # bases of allocations that this launch both reads and writes
    counts: dict[tuple[int, str], Counts] = field(default_factory=dict)
    acquired: set[int] = field(default_factory=set)
    executed: dict[int, Executed] = field(default_factory=dict)
    reverse: bool = False
    steps_limit: int = STEPS_LIMIT

    def run(self, blocks: Sequence[int] | None = None) -> None:
        """Execute the blocks of the grid, or those given by number."""
        numbers = np.arange(math.prod(self.grid)) if blocks is None else np.asarray(blocks, np.int64)
        size = math.prod(self.program.flat.cluster)
        padded = -(-math.prod(self.block) // 32) * 32
        shared = self.program.flat.static_shared + self.shared
        held = padded * max(1, self.program.flat.local_bytes // 64)
        count = max(1, min(LANES // held, SHARED_BYTES // max(1, shared)))
        count = max(size, count // size * size)
        parts = [numbers[at : at + count] for at in range(0, len(numbers), count)]
        on = self.program.flushes and available()
        with np.errstate(all="ignore"), flushing(on):
            for part in reversed(parts) if self.reverse else parts:
                Chunk(self, part[::-1] if self.reverse and size == 1 else part).run()


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
        self.exited = False
        size = self.program.flat.static_shared + launch.shared
        self.shared = Shared(self, size, self.program.granule["shared"])
        self.globals = Globals(self)
        self.barriers = Barriers(self)
        self.copies = Copies(self)
        self.mbarriers = Mbarriers(self)
        for part in (self.globals, self.barriers, self.copies, self.mbarriers):
            for name in part.INSTRUCTIONS:  # what the generated code calls on the chunk
                setattr(self, name, getattr(part, name))
        self.local: Array | None = None
        self.steps = 0
        self.recent: set[int] = set()
        self._cache: dict[Any, Array] = {}

    # Scheduling

    def run(self) -> None:
        pending: dict[int, Array | None] = {0: self.alive}
        stuck: set[int] = set()
        turn = 0
        while pending:
            ready = [block for block in pending if block not in stuck]
            if not ready:
                self.barriers.resolve(pending)
                stuck.clear()
                continue
            turn += 1
            low = (turn % FAIR != 0) != self.reverse
            block = min(ready) if low else max(ready)
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
            if self.steps > self.launch.steps_limit - LOOKBACK:
                self.recent.add(block)
                if self.steps > self.launch.steps_limit:
                    self._runaway(m)
                    return False
            lanes, warps = self.size(m)
            ran = self.launch.executed.setdefault(block, Executed())
            ran.lanes += lanes
            ran.warps += warps
            after = functions[block](self, m)
            if type(after) is int:
                following, other = after, None
            elif len(after) == 3:
                following, other = self._part(after, m, pending)
            else:
                for target, lanes in after[0]:
                    self.join(pending, target, lanes)
                return True
            if other is None and not pending and following != EXIT and (m is None or following not in gates):
                block = following
                continue
            if other is None:
                self.join(pending, following, m)
            return True

    def _part(self, after: Any, m: Array | None, pending: dict[int, Array | None]) -> tuple[int, bool | None]:
        p, yes, no = after
        if m is None:
            if p.all():
                return yes, None
            if not p.any():
                return no, None
            self.join(pending, yes, p)
            self.join(pending, no, ~p)
            return yes, True
        taken, left = m & p, m & ~p
        if not left.any():
            return yes, None
        if not taken.any():
            return no, None
        self.join(pending, yes, taken)
        self.join(pending, no, left)
        return yes, True

    def join(self, pending: dict[int, Array | None], block: int, m: Array | None) -> None:
        """Lanes ``m`` arrive at ``block``."""
        if block == EXIT:
            self._leave(m)
            return
        if block in pending:
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

    def _runaway(self, m: Array | None) -> None:
        """Named by the first line of the code that ran in the end, which does not depend on where it was stopped."""
        bodies = [self.program.flat.blocks[block].body for block in sorted(self.recent)]
        loc = next((item.loc for body in bodies for item in body if item.loc.line), NOWHERE)
        site = Site(-1, "loop", loc, self.program.name)
        active = self.broadcast(self.everyone() if m is None else m)
        message = f"no end after {self.launch.steps_limit} steps: an endless loop, or a wait for what does not come"
        self.report(STEPS, message, (site,), active)

    # Masks and findings

    def everyone(self) -> Array:
        """The lanes that have not returned."""
        return np.ones((1, self.threads), bool) if self.alive is None else self.alive

    def broadcast(self, values: Array) -> Array:
        if values.shape == (self.blocks, self.threads):
            return values
        return np.broadcast_to(values, (self.blocks, self.threads))

    def report(self, kind: str, message: str, sites: tuple[Site, ...], active: Array, severity: str = "error") -> None:
        """Note a finding of the lanes ``active``, a bool array over the chunk; the first is its example."""
        row, column = (int(v) for v in np.argwhere(active)[0])
        x, y, _ = self.launch.grid
        number = int(self.numbers[row])
        block = (number % x, number // x % y, number // (x * y))
        bx, by, _ = self.launch.block
        thread = (column % bx, column // bx % by, column // (bx * by))
        self.launch.findings.add(kind, message, sites, block, thread, int(np.count_nonzero(active)), severity)

    def count(self, site: Site, buffer: str, m: Array | None, at: Array, size: int) -> None:
        """Add an access of ``size`` bytes a lane to the site's counts."""
        counts = self.launch.counts.get((site.index, buffer))
        if counts is None:
            counts = self.launch.counts[site.index, buffer] = Counts()
        lanes, requests = self.size(m)
        counts.lanes += lanes
        counts.bytes += lanes * size
        counts.requests += requests

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
            return np.full((1, 1), self.steps, np.uint32)
        if name not in self._cache:
            self._cache[name] = special(self, name)
        return self._cache[name]

    def address(self, name: str) -> Array:
        return np.full((1, 1), self.launch.symbols[name], np.uint64)

    def window(self, value: Array, space: str, back: bool) -> Array:
        base = value.dtype.type(SHARED_WINDOW if space == "shared" else LOCAL_WINDOW)
        return value - base if back else value + base

    def in_space(self, value: Array, space: str) -> Array:
        window = value >> np.uint64(56)
        return window == {"shared": 1, "local": 2}.get(space, 0)

    # Memory

    def _generic(self, at: Array) -> int | None:
        """0 for global, 1 for shared, 2 for local addresses; None if lanes differ."""
        windows = at >> 56
        first = int(windows.flat[0])
        return first if (windows == first).all() else None

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        space = site.space
        if space == "":
            return self._generic_load(site, at, m, raw, count, volatile)
        if space == "shared":
            return self.shared.load(site, at, m, raw, count, volatile)
        if space == "local":
            return self._local_load(site, at, m, raw, count)
        return self.globals.load(site, at, m, raw, count, volatile)

    def _generic_load(
        self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool
    ) -> tuple[Array, ...]:
        window = self._generic(at)
        lanes = self.everyone() if m is None else m
        out: list[Any] = [None] * count
        for which in (0, 1, 2) if window is None else (window,):
            part = m if window is not None else lanes & ((at >> 56) == which)
            if isinstance(part, np.ndarray) and not part.any():
                continue
            where = at - which * WINDOW
            found = {
                0: lambda p=part, w=where: self.globals.load(site, w, p, raw, count, volatile),
                1: lambda p=part, w=where: self.shared.load(site, w, p, raw, count, volatile),
                2: lambda p=part, w=where: self._local_load(site, w, p, raw, count),
            }[which]()
            out = [v if o is None else np.where(np.asarray(part), v, o) for v, o in zip(found, out, strict=True)]
        return tuple(np.zeros((1, 1), raw) if v is None else v for v in out)

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        space = site.space
        if space == "":
            window = self._generic(at)
            lanes = self.everyone() if m is None else m
            for which in (0, 1, 2) if window is None else (window,):
                part = m if window is not None else lanes & ((at >> 56) == which)
                self._store_in(
                    ("global", "shared", "local")[which], site, at - which * WINDOW, part, values, raw, volatile
                )
            return
        self._store_in(space, site, at, m, values, raw, volatile)

    def _store_in(
        self, space: str, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        if isinstance(m, np.ndarray) and not m.any():
            return
        if space == "shared":
            self.shared.store(site, at, m, values, raw, volatile)
        elif space == "local":
            self._local_store(site, at, m, values, raw)
        else:
            self.globals.store(site, at, m, values, raw, volatile)

    def atomic(
        self, site: Site, at: Array, m: Array | None, op: str, kind: str, b: Array, c: Array, keep: bool
    ) -> Array:
        space = site.space
        if space == "":
            window = self._generic(at)
            space = "shared" if window == 1 else "global"
            at = at - (window or 0) * WINDOW
        target = self.shared if space == "shared" else self.globals
        return target.atomic(site, at, m, op, kind, b, c, keep)

    def atomic_view(self, data: Array, op: str, kind: str) -> tuple[Array, Any, int]:
        """``data`` as values of the PTX type ``kind``, how ``op`` combines them, and their size in bytes."""
        from .alu import DTYPES, TABLE

        dtype = np.dtype(DTYPES[kind])
        if kind in ("f16", "bf16", "f16x2", "bf16x2"):
            found = TABLE[op]((op, "rn", kind))
            assert found is not None
            return data.view(dtype), lambda old, b, c: found.run(old, b), dtype.itemsize
        return data.view(dtype), combine(op, kind), dtype.itemsize

    def _local_memory(self) -> Array:
        if self.local is None:
            size = max(16, -(-self.program.flat.local_bytes // 16) * 16)
            self.local = np.full((self.blocks, self.threads, size), POISON, np.uint8)
        return self.local

    def _local_at(self, at: Array, m: Array | None, each: int) -> tuple[Any, Array]:
        lanes = self.broadcast(self.everyone() if m is None else m)
        rows, columns = np.nonzero(lanes)
        return (rows, columns, np.broadcast_to(at, lanes.shape)[lanes] // each), lanes

    def _local_load(self, site: Site, at: Array, m: Array | None, raw: str, count: int) -> tuple[Array, ...]:
        memory, each = self._local_memory(), np.dtype(raw).itemsize
        (rows, columns, where), lanes = self._local_at(at, m, each)
        outside = (where < 0) | ((where + count) * each > memory.shape[2])
        if outside.any():
            self._local_outside(site, lanes, outside)
            where = np.where(outside, 0, where)
        values = []
        for n in range(count):
            out = np.zeros((self.blocks, self.threads), raw)
            out[lanes] = memory.view(raw)[rows, columns, where + n]
            values.append(out)
        return tuple(values)

    def _local_outside(self, site: Site, lanes: Array, which: Array) -> None:
        active = np.zeros((self.blocks, self.threads), bool)
        active[lanes] = which
        self.report(MEMORY, "access outside of the thread's local memory", (site,), active)

    def _local_store(self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str) -> None:
        memory, each = self._local_memory(), np.dtype(raw).itemsize
        (rows, columns, where), lanes = self._local_at(at, m, each)
        inside = (where >= 0) & ((where + len(values)) * each <= memory.shape[2])
        if not inside.all():
            self._local_outside(site, lanes, ~inside)
        rows, columns, where = rows[inside], columns[inside], where[inside]
        for n, value in enumerate(values):
            memory.view(raw)[rows, columns, where + n] = np.broadcast_to(value, lanes.shape)[lanes][inside]

    def map_shared(self, address: Array, rank: Array) -> Array:
        """mapa: the address of the same place in the block of that rank of the cluster."""
        return address | ((rank + np.uint32(1)) << np.uint32(24))

    def _remote(self, site: Site, at: Array, m: Array | None) -> tuple[Array, Array, Array]:
        """Lanes, row of the block whose memory each addresses, and the offset there."""
        lanes = self.broadcast(self.everyone() if m is None else m)
        size = math.prod(self.program.flat.cluster)
        rows = np.arange(self.blocks)[:, None]
        rank = (self.broadcast(at) >> 24) - 1
        outside = lanes & (rank >= size)
        if outside.any():
            message = f"shared memory of block {int(rank[outside][0])} of a cluster of {size}"
            self.report(MEMORY, message, (site,), outside)
            lanes = lanes & ~outside
        target = np.where(rank < 0, rows, rows // size * size + np.clip(rank, 0, size - 1))
        return lanes, target, self.broadcast(at) & 0xFFFFFF

    def load_cluster(
        self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool
    ) -> tuple[Array, ...]:
        lanes, target, where = self._remote(site, at, m)
        return self.shared.load_remote(site, lanes, target, where, raw, count)

    def store_cluster(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        lanes, target, where = self._remote(site, at, m)
        self.shared.store_remote(site, lanes, target, where, values, raw)

    # Company

    def shuffle(self, site: Site, mode: str, *args: Any) -> tuple[Array, Array]:
        return warp.shuffle(self, site, mode, *args)

    def vote(self, site: Site, op: str, p: Array, mask: Array, m: Array | None) -> Array:
        return warp.vote(self, site, op, p, mask, m)

    def match(self, site: Site, op: str, value: Array, mask: Array, m: Array | None) -> tuple[Array, Array]:
        return warp.match(self, site, op, value, mask, m)

    def redux(self, site: Site, op: str, value: Array, mask: Array, m: Array | None) -> Array:
        return warp.redux(self, site, op, value, mask, m)

    def elect(self, site: Site, mask: Array, m: Array | None) -> tuple[Array, Array]:
        return warp.elect(self, site, mask, m)

    def load_matrix(self, site: Site, *args: Any) -> tuple[Array, ...]:
        return tensor.load_matrix(self, site, *args)

    def store_matrix(self, site: Site, *args: Any) -> None:
        tensor.store_matrix(self, site, *args)

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
        active = self.broadcast(self.everyone() if m is None else m)
        if active.any():
            self.report(TRAP, "the kernel stopped itself (trap, or a failed assert)", (site,), active)
