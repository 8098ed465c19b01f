"""What the code of a program calls: who executes it, by parts. The code is text; this is what holds it to types.

Arrays broadcast to (blocks of the chunk, threads of a block). ``m`` is the mask of the lanes that execute, None for
all; ``at`` is an address: absolute, or an offset in shared or local memory. ``raw`` is a NumPy type of bits, ``kind`` a
PTX type.
"""

from __future__ import annotations

from typing import Any, Protocol

from .floats import Array
from .site import Site

Mask = Array | None


class Memory(Protocol):
    """Loads, stores and atomics of any space; where a site names none, the address says which."""

    def load(self, site: Site, at: Array, m: Mask, raw: str, count: int, volatile: bool) -> tuple[Array, ...]: ...

    def store(self, site: Site, at: Array, m: Mask, values: tuple[Array, ...], raw: str, volatile: bool) -> None: ...

    def atomic(self, site: Site, at: Array, m: Mask, op: str, kind: str, b: Array, c: Array, keep: bool) -> Array:
        """The value before, where ``keep`` says that it is wanted."""

    def load_cluster(
        self, site: Site, at: Array, m: Mask, raw: str, count: int, volatile: bool
    ) -> tuple[Array, ...]: ...

    def store_cluster(
        self, site: Site, at: Array, m: Mask, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None: ...

    def map_shared(self, address: Array, rank: Array) -> Array:
        """mapa: the address of the same place in the block of that rank of the cluster."""

    def window(self, value: Array, space: str, back: bool) -> Array:
        """cvta: a generic address from one of ``space``, or ``back``."""

    def in_space(self, value: Array, space: str) -> Array:
        """isspacep."""

    def prefetch(self, site: Site, at: Array, size: Array, m: Mask) -> None: ...

    def fence(self, m: Mask) -> None: ...


class Warp(Protocol):
    """What the lanes of a warp do together; ``mask`` are the member masks."""

    def shuffle(
        self, site: Site, mode: str, value: Array, lane: Array, clamp: Array, mask: Array, m: Mask
    ) -> tuple[Array, Array]: ...

    def vote(self, site: Site, op: str, p: Array, mask: Array, m: Mask) -> Array: ...

    def match(self, site: Site, op: str, value: Array, mask: Array, m: Mask) -> tuple[Array, Array]: ...

    def redux(self, site: Site, op: str, value: Array, mask: Array, m: Mask) -> Array: ...

    def elect(self, site: Site, mask: Array, m: Mask) -> tuple[Array, Array]: ...

    def active(self, m: Mask) -> Array: ...

    def full(self, site: Site, m: Mask) -> None:
        """An instruction of the whole warp: none of its lanes may have returned."""


class Matrices(Protocol):
    """ldmatrix and stmatrix."""

    def load(self, site: Site, at: Array, count: int, trans: bool, m: Mask) -> tuple[Array, ...]: ...

    def store(self, site: Site, at: Array, values: tuple[Array, ...], trans: bool, m: Mask) -> None: ...


class Barriers(Protocol):
    """Barriers, once those who have to be there are."""

    def block(self) -> None:
        """bar.sync of all threads of all blocks."""

    def arrive(self, site: Site, number: Array, count: Array | None, m: Mask) -> None: ...

    def warp(self, site: Site, mask: Array, m: Mask) -> None: ...

    def reduce(self, op: str, p: Array, m: Mask) -> Array: ...

    def cluster(self, site: Site, arrive: bool, m: Mask) -> None: ...


class Copies(Protocol):
    """cp.async."""

    def start(
        self, site: Site, at: Array, source: Site, where: Array, size: int, given: Array | None, m: Mask
    ) -> None: ...

    def commit(self, m: Mask) -> None: ...

    def wait(self, m: Mask, left: int) -> None: ...


class Mbarriers(Protocol):
    """mbarrier objects in shared memory."""

    def init(self, site: Site, at: Array, count: Array, m: Mask) -> None: ...

    def arrive(self, site: Site, at: Array, count: Array | None, m: Mask) -> Array: ...

    def test(self, site: Site, at: Array, value: Array, parity: bool, m: Mask) -> Array: ...


class Executor(Protocol):
    """Some blocks of a launch that run together, as ``x`` in the code."""

    registers: list[Any]
    carry: Array

    @property
    def warps(self) -> int: ...

    @property
    def memory(self) -> Memory: ...

    @property
    def warp(self) -> Warp: ...

    @property
    def matrices(self) -> Matrices: ...

    @property
    def barriers(self) -> Barriers: ...

    @property
    def copies(self) -> Copies: ...

    @property
    def mbarriers(self) -> Mbarriers: ...

    def parameter(self, at: int, raw: str) -> Array: ...

    def special(self, name: str) -> Array: ...

    def address(self, name: str) -> Array: ...

    def indexed(self, index: Array, m: Mask, targets: tuple[int, ...]) -> tuple[list[tuple[int, Array]]]: ...

    def trap(self, site: Site, m: Mask) -> None: ...
