"""Which lanes run next: they diverge at jumps, wait by basic block, and reconverge where they arrive at the same one.

Which one runs must not matter: the second schedule takes the highest basic block instead of the lowest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...build.ptx.syntax import NOWHERE
from ..isa.blocks import EXIT
from ..isa.floats import Array
from ..isa.site import Site
from ..observe.findings import STEPS
from ..observe.traffic import Executed
from .execution import Execution
from .protocol import Pending
from .watch import Watch

LANE_STEPS = 2**28  # so that an endless loop is told in seconds
LOOKBACK = 1000  # steps before the limit in which the code of an endless loop shows
FAIR = 64  # every so often the lanes that wait longest have their turn, or a spinning lane would starve its neighbour


class Scheduler:
    """Runs a chunk to its end, or to the limit of steps."""

    def __init__(self, chunk: Execution) -> None:
        self.chunk, self.program, self.gates = chunk, chunk.program, chunk.gates
        self.limit = min(chunk.launch.steps_limit, max(20_000, LANE_STEPS // (chunk.blocks * chunk.threads)))
        self.watch = Watch(chunk, self.limit, FAIR)
        self.pending: Pending = {0: chunk.alive}
        self.since: dict[int, int] = {}  # by basic block that lanes wait at: the turn in which the first came
        self.recent: set[int] = set()

    def run(self) -> None:
        stuck: set[int] = set()
        while self.pending:
            ready = [block for block in self.pending if block not in stuck]
            if not ready:
                self.chunk.changes += 1
                self.gates.resolve(self.pending)
                stuck.clear()
                continue
            block = self._choose(ready)
            m = self.pending.pop(block)
            if block in self.program.gates:
                m, waiting = self.gates.gate(block, m, self.pending)
                if waiting is not None:
                    self._join(block, waiting)
                if isinstance(m, np.ndarray) and not m.any():
                    stuck.add(block)
                    continue
                m = self.chunk.whole(m)
            stuck.clear()
            if not self._run_from(block, m):
                return

    def _choose(self, ready: list[int]) -> int:
        self.chunk.turn += 1
        if self.chunk.turn % FAIR == 0:
            return min(ready, key=lambda waiting: self.since.get(waiting, 0))
        return max(ready) if self.chunk.reverse else min(ready)

    def _run_from(self, block: int, m: Array | None) -> bool:
        """Run ``block`` and what follows as long as all its lanes stay together and no one else waits.

        False where there is no end to it.
        """
        chunk, functions, gates, executed = self.chunk, self.program.functions, self.program.gates, self._executed
        while True:
            chunk.steps += 1
            if not self._goes_on(block, m):
                return False
            executed(block, m)
            after = functions[block](chunk, m)
            if isinstance(after, int):
                following, diverged = after, False
            elif len(after) == 3:
                following, diverged = self._diverge(after, m)
            else:
                for target, lanes in after[0]:
                    self._join(target, lanes)
                return True
            on = following not in gates or (m is None and following in self.program.open)
            if not diverged and not self.pending and following != EXIT and on:
                block = following
                continue
            if not diverged:
                self._join(following, m)
            return True

    def _executed(self, block: int, m: Array | None) -> None:
        lanes, warps = self.chunk.size(m)
        ran = self.chunk.launch.executed.setdefault(block, Executed())
        ran.lanes += lanes
        ran.warps += warps

    def _goes_on(self, block: int, m: Array | None) -> bool:
        steps = self.chunk.steps
        if steps > self.limit - LOOKBACK:
            self.recent.add(block)
            if steps > self.limit:
                self._runaway(m, self.recent, "an endless loop, or a wait for what does not come")
                return False
        if steps >= self.watch.next and self.watch.endless(block, m, self.pending):
            self._runaway(m, self.watch.ran, "a wait for what does not come")
            return False
        return True

    def _diverge(self, after: tuple[Array, int, int], m: Array | None) -> tuple[int, bool]:
        """Where the lanes go on, and whether they diverged; those that did wait where they went."""
        p, yes, no = after
        if m is None:
            if p.all():
                return yes, False
            if not p.any():
                return no, False
            self._join(yes, p)
            self._join(no, ~p)
            return yes, True
        taken, left = m & p, m & ~p
        if not left.any():
            return yes, False
        if not taken.any():
            return no, False
        self._join(yes, taken)
        self._join(no, left)
        return yes, True

    def _join(self, block: int, m: Array | None) -> None:
        """Lanes ``m`` arrive at ``block``."""
        if block == EXIT:
            self.chunk.leave(m)
            return
        if block not in self.pending:
            self.since[block] = self.chunk.turn
        else:
            there = self.pending[block]
            m = None if m is None or there is None else m | there
        self.pending[block] = self.chunk.whole(m)

    def _runaway(self, m: Array | None, recent: set[int], what: str) -> None:
        """Named by the first line of the code that ran in the end, which does not depend on where it was stopped."""
        bodies: list[Any] = [self.program.flat.blocks[block].body for block in sorted(recent)]
        loc = next((item.loc for body in bodies for item in body if item.loc.line), NOWHERE)
        site = Site(-1, "loop", loc, self.program.name)
        steps = min(self.chunk.steps, self.limit)
        self.chunk.report(STEPS, f"no end after {steps} steps: {what}", (site,), self.chunk.lanes(m))
