"""What those who look on see of the blocks that run together, and of the lanes of one access."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..isa.floats import Array
from ..isa.program import Program
from ..isa.site import Site
from .findings import ERROR


class Chunk(Protocol):
    """Some blocks of a launch, whose lanes are (blocks, threads), padded to whole warps.

    ``numbers`` are the linear numbers of the blocks, ``reverse`` says that the second schedule is run.
    """

    @property
    def program(self) -> Program: ...

    @property
    def numbers(self) -> Array: ...

    @property
    def blocks(self) -> int: ...

    @property
    def threads(self) -> int: ...

    @property
    def warps(self) -> int: ...

    @property
    def reverse(self) -> bool: ...

    def everyone(self) -> Array:
        """The lanes that have not returned; broadcasts."""

    def lanes(self, m: Array | None) -> Array:
        """The lanes of a mask (None: all), over the whole chunk."""

    def broadcast(self, values: Array) -> Array:
        """``values`` over the whole chunk."""

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


@dataclass(frozen=True)
class Lanes:
    """Which lanes access what: row, thread and byte address, arrays that broadcast. ``threads`` None: all of a row."""

    rows: Array
    threads: Array | None
    at: Array
    whole: bool  # the lanes are all lanes of the chunk, in order

    def spread(self, chunk: Chunk, values: Array) -> Array:
        """``values`` by lane as an array over the chunk."""
        if self.whole:
            return values
        out = np.zeros((chunk.blocks, chunk.threads), values.dtype)
        out[self.rows, self.threads] = values
        return out


def scattered(where: Array, values: Array) -> Array:
    """``values`` at the places where ``where`` is true, in their order, and false elsewhere."""
    out = np.zeros(where.shape, bool)
    out[where] = values
    return out
