"""Who did what to global memory in a launch: by granule the block that last wrote, read or updated it, and where."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..isa.floats import Array

OWNER, READER, UPDATER = "owner", "reader", "updater"


class Memory(Protocol):
    """An allocation: ``data`` are the bytes that exist, which may become more."""

    base: int
    what: str
    data: Array


class Shadow:
    """What one role of an allocation's granules knows: block (0: none), number of the site, and when."""

    def __init__(self, size: int) -> None:
        self.who, self.site, self.time = (np.zeros(size, np.int32) for _ in range(3))

    def grow(self, size: int) -> None:
        more = np.zeros(size - self.who.size, np.int32)
        self.who, self.site, self.time = (np.append(one, more) for one in (self.who, self.site, self.time))


class History:
    """Of one launch: shadows by allocation, and what its blocks know of each other.

    ``time`` counts fences and what synchronises with them. Once a block has fenced, ``knows`` holds up to which fence
    of each block (columns) each block (rows) knows, counted from 1, and ``carried`` what each synchronising place hands
    on.
    """

    def __init__(self, granule: int) -> None:
        self.granule = granule
        self.time = 0
        self.knows: Array | None = None
        self.carried: dict[tuple[int, int], Array] = {}
        self.shadows: dict[tuple[int, str], Shadow] = {}

    def get(self, found: Memory, role: str) -> Shadow | None:
        """The shadow of a role; None if nobody had it yet."""
        shadow = self.shadows.get((found.base, role))
        if shadow is not None and shadow.who.size < (size := self._granules(found)):
            shadow.grow(size)
        return shadow

    def make(self, found: Memory, role: str) -> Shadow:
        """The same, made if there is none."""
        shadow = self.get(found, role)
        if shadow is None:
            shadow = self.shadows[found.base, role] = Shadow(self._granules(found))
        return shadow

    def _granules(self, found: Memory) -> int:
        return -(-found.data.size // self.granule)

    def forget(self) -> None:
        self.shadows.clear()
        self.carried.clear()
        self.knows = None
