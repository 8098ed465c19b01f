"""A kernel ready to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...build.ptx.syntax import Instr
from .blocks import Flat
from .floats import Array
from .interface import Executor
from .site import Site

# What a block of code returns: the next block; or a predicate, the block where it holds and the one where it does not;
# or, of an indexed jump, each block with the lanes that go there.
After = int | tuple[Array, int, int] | tuple[list[tuple[int, Array]]]


@dataclass(frozen=True, eq=False)
class Program:
    """A kernel ready to run. ``functions`` by basic block; ``gates`` are those that begin with a convergence point.

    A function takes who executes it and the mask of its lanes (None: all). ``granule`` is by space the narrowest access
    in bytes, ``open`` are the gates that all lanes of a chunk together just pass.
    """

    name: str
    flat: Flat
    functions: list[Callable[[Executor, Array | None], After]]
    sites: list[Site]
    registers: dict[str, int]
    flushes: bool
    granule: dict[str, int]
    notes: tuple[str, ...]
    gates: dict[int, Instr]
    open: frozenset[int]
