"""Convergence points: where lanes wait for each other, for a warp-level operation or at a barrier.

A basic block that begins with such an instruction is a gate. :meth:`Gates.gate` says which of the lanes that arrived
may go on; when nobody can, :meth:`Gates.resolve` names what is missing and lets them go, so that one run shows all
there is to find.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...build.ptx.syntax import Imm, Instr, Reg
from ..isa.floats import Array
from ..isa.site import Site
from ..observe.findings import BARRIER, CONVERGENCE, ERROR, WARNING
from ..observe.races import Races
from .barriers import Clusters, Named
from .protocol import Pending, Running

NO_MASK = ("mma", "ldmatrix", "stmatrix", "wmma")  # all lanes of the warp, by definition


class Gates:
    """The gates of a chunk, and who waits there."""

    def __init__(self, chunk: Running, races: Races, named: Named, clusters: Clusters) -> None:
        self.chunk, self.races, self.named, self.clusters = chunk, races, named, clusters
        self.forced: set[int] = set()
        self.passing: dict[int, Array] = {}  # by gate: lanes of a released barrier that have not gone on yet
        self.early: Array | None = None  # blocks some of whose threads returned

    def gate(self, block: int, m: Array | None, pending: Pending) -> tuple[Array | None, Array | None]:
        """Of the lanes ``m`` at the gate: those that go on, and those that wait (None: nobody)."""
        item = self.chunk.program.gates[block]
        if block in self.forced:
            self.forced.discard(block)
            return m, None
        kind = self.chunk.program.flat.blocks[block].sync
        if kind == "cluster":
            return self._cluster_gate(m)
        if kind == "block":
            if m is None and block in self.chunk.program.open:
                return None, None
            return self._block_gate(block, m, pending)
        if m is None:
            return None, None
        return self._warp_gate(block, item, m, pending)

    def _warp_gate(self, block: int, item: Instr, m: Array, pending: Pending) -> tuple[Array | None, Array | None]:
        chunk = self.chunk
        passed = self.passing.pop(block, None)
        if passed is not None:  # met by others of their warp at another barrier of the warp
            rest = m & ~passed
            return m & passed, (rest if rest.any() else None)
        everyone = chunk.everyone()
        wanted = everyone
        mask = self._member_mask(item)
        if mask is not None:
            lane = (np.arange(chunk.threads) & 31).astype(np.uint32)
            wanted = everyone & (((mask >> lane) & 1) == 1)
            if mask.size > 1:  # each warp waits for what its own lanes name
                named = self._named_by_any(mask, m)
                wanted = everyone & named
        elsewhere = self._at_warp_barriers(block, pending) if "warp" in item.mods else {}
        absent = wanted & ~m
        for lanes in elsewhere.values():
            absent = absent & ~lanes
        if not absent.any():
            self.passing |= elsewhere
            return m, None
        rows = absent.shape[0]
        held = np.repeat(absent.reshape(rows, chunk.warps, 32).any(axis=2), 32, axis=1)
        waits = m & held
        if not waits.any():
            return m, None
        return m & ~held, waits

    def _at_warp_barriers(self, block: int, pending: Pending) -> dict[int, Array]:
        """Lanes that wait at other barriers of the warp, by gate: such a barrier is one wherever it stands."""
        chunk, found = self.chunk, {}
        for other, lanes in pending.items():
            gate = chunk.program.gates.get(other)
            if other != block and gate is not None and "warp" in gate.mods:
                found[other] = chunk.everyone() if lanes is None else lanes
        return found

    def _named_by_any(self, mask: Array, m: Array) -> Array:
        """Lanes that the mask of some arrived lane of their warp names."""
        chunk = self.chunk
        rows = max(mask.shape[0], m.shape[0])
        given = np.where(m, mask, np.uint32(0))
        given = np.broadcast_to(given, (rows, chunk.threads)).reshape(rows, chunk.warps, 32)
        union = np.bitwise_or.reduce(given, axis=2)
        named = (union[:, :, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
        result: Array = (named == 1).reshape(rows, -1)
        return result

    def _member_mask(self, item: Instr) -> Array | None:
        """The member mask as an array; None for all lanes."""
        if item.mods[0] in NO_MASK:
            return None
        if "arrive" in item.mods:  # of a block's barrier: the warp arrives as one
            return None
        operand = item.operands[0] if item.mods[0] == "bar" else item.operands[-1]
        if isinstance(operand, Imm):
            value = operand.value & 0xFFFFFFFF
            return None if value == 0xFFFFFFFF else np.full((1, 1), value, np.uint32)
        assert isinstance(operand, Reg)
        found: Array = self.chunk.registers[self.chunk.program.registers[operand.name]]
        return None if found.size == 1 and int(found[0, 0]) == 0xFFFFFFFF else found

    def _values(self, item: Instr) -> tuple[Array, Array | None]:
        """Number and count of a barrier as arrays over the chunk."""
        chunk = self.chunk
        operands = list(item.operands)
        if "red" in item.mods:
            operands = operands[1:-1]

        def value(operand: Any) -> Array:
            if isinstance(operand, Imm):
                return np.full((chunk.blocks, chunk.threads), operand.value, np.int64)
            found = chunk.registers[chunk.program.registers[operand.name]]
            return chunk.broadcast(found).astype(np.int64)

        return value(operands[0]), value(operands[1]) if len(operands) > 1 else None

    def _waiting(self, pending: Pending, block: int, m: Array | None) -> dict[int, Array]:
        """All lanes that wait at some barrier of a block, by gate."""
        chunk = self.chunk
        found = {block: chunk.lanes(m)}
        for other, lanes in pending.items():
            if other != block and chunk.program.flat.blocks[other].sync == "block":
                found[other] = chunk.lanes(lanes)
        return found

    def _block_gate(self, block: int, m: Array | None, pending: Pending) -> tuple[Array | None, Array | None]:
        chunk = self.chunk
        waiting = self._waiting(pending, block, m)
        passing = self.passing.pop(block, None)
        lanes = waiting[block]
        go = np.zeros(lanes.shape, bool) if passing is None else lanes & passing
        waiting[block] = lanes & ~go
        item = chunk.program.gates[block]
        numbers, counts = self._values(item)
        everyone = chunk.broadcast(chunk.everyone())
        for row in np.flatnonzero(waiting[block].any(axis=1)):
            for number in np.unique(numbers[row][waiting[block][row]]):
                at = {
                    gate: mask[row] & (self._values(chunk.program.gates[gate])[0][row] == number)
                    for gate, mask in waiting.items()
                }
                here = np.logical_or.reduce(list(at.values()))
                if counts is None:
                    complete = bool((here | ~everyone[row]).all())
                else:
                    complete = self._counted(block, int(row), int(number), at, here)
                if complete:
                    self._release(block, int(row), int(number), at, here, counts is None)
                    go = go.copy()
                    go[row] |= at[block]
        rest = lanes & ~go
        return go, (rest if rest.any() else None)

    def _counted(self, block: int, row: int, number: int, at: dict[int, Array], here: Array) -> bool:
        """Whether as many threads have arrived as a named barrier waits for; all have to name the same count."""
        chunk = self.chunk
        named = {int(self.named.expected[row, number])} - {0}
        for gate, mask in at.items():
            _, counts = self._values(chunk.program.gates[gate])
            if counts is not None and mask.any():
                named |= {int(count) for count in np.unique(counts[row][mask])}
        warps = here.reshape(chunk.warps, 32).any(axis=1)
        total = 32 * int(warps.sum()) + int(self.named.arrived[row, number])
        if len(named) > 1 or total > min(named):
            gates = sorted(gate for gate, mask in at.items() if mask.any())
            told = " and ".join(map(str, sorted({*named, *([total] if len(named) == 1 else [])})))
            lanes = np.zeros((chunk.blocks, chunk.threads), bool)
            lanes[row] = here
            self._report(f"threads meet at a named barrier with different counts, {told}", gates, lanes)
        return total >= min(named)

    def _release(self, block: int, row: int, number: int, at: dict[int, Array], here: Array, whole: bool) -> None:
        chunk = self.chunk
        warps = here.reshape(chunk.warps, 32).any(axis=1)
        if whole:
            self.races.barrier(np.array([row]))
        else:
            self.races.meet(row, np.flatnonzero(warps), np.flatnonzero(warps | self.named.warps[row, number]))
        self.named.arrived[row, number] = 0
        self.named.warps[row, number] = False
        self.named.expected[row, number] = 0
        split = [gate for gate, mask in at.items() if mask.any()]
        for gate in split:
            if gate != block:
                mask = self.passing.setdefault(gate, np.zeros((chunk.blocks, chunk.threads), bool))
                mask[row] |= at[gate]
        if whole and len(split) > 1:
            lanes = np.zeros((chunk.blocks, chunk.threads), bool)
            lanes[row] = here
            self._report("threads of one block meet at different barriers", sorted(split), lanes)
        elif whole and self.early is not None and self.early[row]:
            self._exited(block, row, here)

    def _exited(self, block: int, row: int, here: Array) -> None:
        lanes = np.zeros((self.chunk.blocks, self.chunk.threads), bool)
        lanes[row] = here
        message = "a barrier that threads of the block never reach, for they have returned"
        # The hardware counts only those that are left, so this works; CUDA does not promise it.
        self._report(message, [block], lanes, WARNING)

    def _cluster_gate(self, m: Array | None) -> tuple[Array | None, Array | None]:
        chunk = self.chunk
        size = math.prod(chunk.program.flat.cluster)
        here = chunk.lanes(m)
        everyone = chunk.broadcast(chunk.everyone())
        least = np.where(everyone, self.clusters.arrived, np.iinfo(np.int64).max).min(axis=1)
        phases = np.repeat(least.reshape(-1, size).min(axis=1), size)[:, None]  # that all of the cluster arrived for
        open_ = phases > self.clusters.passed
        go, rest = here & open_, here & ~open_
        return go, (rest if rest.any() else None)

    def resolve(self, pending: Pending) -> None:
        """Nobody can go on: say who is missing, and let the lowest gate go."""
        chunk = self.chunk
        block = min(pending)
        m = pending[block]
        lanes = chunk.lanes(m)
        item = chunk.program.gates[block]
        kind = chunk.program.flat.blocks[block].sync
        site = self._site(block)
        if kind == "warp":
            message = f"{item.opcode} waits for a lane that its member mask names and that never arrives"
            chunk.report(CONVERGENCE, message, (site,), lanes)
        elif kind == "block":
            message = "a barrier that part of the block never reaches"
            self._report(message, [block], lanes)
            self.races.barrier(None)
        else:
            self._report("a cluster barrier that part of the cluster never reaches", [block], lanes)
        self.forced.add(block)

    def _report(self, message: str, gates: list[int], lanes: Array, severity: str = ERROR) -> None:
        """A finding of the blocks of ``lanes`` that were not astray before; from an error on they are."""
        news = lanes & ~self.races.astray[:, None]
        if news.any():
            self.chunk.report(BARRIER, message, tuple(self._site(gate) for gate in gates), news, severity)
        if severity == ERROR:
            self.races.astray |= lanes.any(axis=1)

    def _site(self, block: int) -> Site:
        item = self.chunk.program.gates[block]
        return Site(-1, item.opcode, item.loc, self.chunk.program.name)

    def left(self, gone: Array) -> None:
        """Lanes returned: a barrier after that is one that they never reach."""
        rows = np.asarray(self.chunk.broadcast(gone).any(axis=1))
        self.early = rows if self.early is None else np.asarray(self.early | rows)
