"""What the parts of the machine need of the blocks that run together."""

from __future__ import annotations

from typing import Any, Protocol

from ..isa.floats import Array
from ..isa.site import Site
from ..observe.chunk import Chunk
from .launch import Launch

Pending = dict[int, "Array | None"]  # by block of code, the lanes that wait there (None: all)


class Running(Chunk, Protocol):
    """A chunk that runs. ``registers`` are by number, ``carry`` is the carry flag, None or an array each.

    ``changes`` counts how often anything was written, or read that changes by itself; ``steps`` and ``turn`` count
    blocks of code that were run, and how often it was chosen which.
    """

    registers: list[Any]
    carry: Array
    changes: int
    steps: int
    turn: int

    @property
    def launch(self) -> Launch: ...

    def count(self, site: Site, buffer: str, m: Array | None, at: Array, size: int) -> None:
        """Add an access of ``size`` bytes a lane, at addresses ``at`` over the chunk, to the site's counts."""
