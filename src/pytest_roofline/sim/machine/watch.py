"""Tells a wait that never ends long before the limit of steps: nothing changes in it any more.

A lane's steps follow from where it is, from its registers and from memory. If all lanes of a chunk come back to where
they were with the registers that they had, each had its turn, and nobody wrote in between, they go on like that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..isa.floats import Array
from .protocol import Pending, Running

CYCLE = 256  # steps of the longest loop that is recognised
LEAST, MOST = 1024, 8192  # steps after which it is looked again; a look costs about as much as the steps it takes
PER_LIMIT = 16  # looks before the limit of steps, where that lies between


@dataclass(frozen=True)
class State:
    """A chunk as it was; arrays are never changed in place, so they are kept as they are."""

    block: int
    lanes: Array | None
    pending: Pending
    registers: list[Any]
    changes: int
    steps: int
    turn: int

    def same(self, other: State) -> bool:
        """Whether all lanes are at the same places with the same registers."""
        if self.block != other.block or self.pending.keys() != other.pending.keys():
            return False
        places = [(self.lanes, other.lanes), *((mask, other.pending[at]) for at, mask in self.pending.items())]
        return all(_equal(a, b) for a, b in (*places, *zip(self.registers, other.registers, strict=True)))


class Watch:
    """Looks at a chunk from its step ``next`` on. ``fair`` turns pass until who waits longest runs, at most."""

    def __init__(self, chunk: Running, steps_limit: int, fair: int) -> None:
        self.chunk, self.fair = chunk, fair
        self.every = max(LEAST, min(MOST, steps_limit // PER_LIMIT))
        self.next = self.every
        self.seen: State | None = None
        self.ran: set[int] = set()  # blocks of code since then

    def endless(self, block: int, m: Array | None, pending: Pending) -> bool:
        """Whether nothing will change any more; asked before each step from ``next`` on."""
        chunk, seen = self.chunk, self.seen
        if seen is None:
            self.seen, self.ran = self._state(block, m, pending), {block}
            return False
        turns, steps = chunk.turn - seen.turn, chunk.steps - seen.steps
        round_ = self.fair * (len(seen.pending) + 2) if seen.pending else 0
        if chunk.changes != seen.changes or max(turns, steps) > round_ + CYCLE:
            self.seen, self.next = None, chunk.steps + self.every
            return False
        if block == seen.block and turns >= round_ and seen.same(self._state(block, m, pending)):
            return True
        self.ran.add(block)
        return False

    def _state(self, block: int, m: Array | None, pending: Pending) -> State:
        chunk = self.chunk
        held = [*chunk.registers, chunk.carry]
        return State(block, m, dict(pending), held, chunk.changes, chunk.steps, chunk.turn)


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()  # a NaN is the same as itself
