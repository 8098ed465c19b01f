"""Which memory an access goes to: by its state space, or by the window that a generic address lies in."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from .globals import Globals
from .local import Local
from .protocol import Running
from .remote import Remote
from .shared import Shared

WINDOW = 1 << 56  # bytes; shared memory lies in the first, local memory in the second, global memory below
WINDOWS = {"global": 0, "shared": 1, "local": 2}


class Space(Protocol):
    """One memory; addresses are its own."""

    def load(
        self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool
    ) -> tuple[Array, ...]: ...

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None: ...

    def atomic(
        self, site: Site, at: Array, m: Array | None, op: str, kind: str, b: Array, c: Array, keep: bool
    ) -> Array: ...


class Spaces:
    """Hands accesses on. Lanes of one instruction may go to different spaces by generic addresses."""

    def __init__(self, chunk: Running, globals_: Globals, shared: Shared, local: Local, remote: Remote) -> None:
        self.chunk, self.globals, self.shared, self.remote = chunk, globals_, shared, remote
        self.owners: dict[str, Space] = {"global": globals_, "shared": shared, "local": local}

    def window(self, value: Array, space: str, back: bool) -> Array:
        """cvta: a generic address from one of ``space``, or ``back``."""
        base = value.dtype.type(WINDOWS[space] * WINDOW)
        return value - base if back else value + base

    def in_space(self, value: Array, space: str) -> Array:
        return value >> np.uint64(56) == WINDOWS.get(space, 0)

    def _parts(self, space: str, at: Array, m: Array | None) -> list[tuple[Space, Array, Array | None]]:
        """Whose memory, the address there, and the lanes it goes for."""
        if space:
            return [(self.owners["global" if space == "const" else space], at, m)]
        windows = at >> 56
        windows = np.where(
            (windows == 1) | (windows == 2), windows, 0
        )  # what lies in no window is for global to refuse
        first = int(windows.flat[0])
        if (windows == first).all():
            name = next(name for name, number in WINDOWS.items() if number == first)
            return [(self.owners[name], at - first * WINDOW, m)]
        lanes = self.chunk.everyone() if m is None else m
        parts = []
        for name, number in WINDOWS.items():
            part = lanes & (windows == number)
            if part.any():
                parts.append((self.owners[name], at - number * WINDOW, part))
        return parts or [(self.owners["global"], at, m)]

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        out: tuple[Array, ...] | None = None
        for owner, where, part in self._parts(site.space, at, m):
            found = owner.load(site, where, part, raw, count, volatile)
            out = found if out is None else tuple(_merged(part, v, o) for v, o in zip(found, out, strict=True))
        assert out is not None
        return out

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        for owner, where, part in self._parts(site.space, at, m):
            owner.store(site, where, part, values, raw, volatile)

    def atomic(
        self, site: Site, at: Array, m: Array | None, op: str, kind: str, b: Array, c: Array, keep: bool
    ) -> Array:
        if "shared::cluster" in site.opcode.split("."):
            lanes, target, where = self.remote.targets(site, at, m)
            return self.shared.atomic(site, where, lanes, op, kind, b, c, keep, target)
        out: Array | None = None
        for owner, where, part in self._parts(site.space, at, m):
            found = owner.atomic(site, where, part, op, kind, b, c, keep)
            out = found if out is None else _merged(part, found, out)
        assert out is not None
        return out

    # Another block's shared memory, in a cluster

    def map_shared(self, address: Array, rank: Array) -> Array:
        return self.remote.map_shared(address, rank)

    def load_cluster(
        self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool
    ) -> tuple[Array, ...]:
        lanes, target, where = self.remote.targets(site, at, m)
        return self.remote.load(site, lanes, target, where, raw, count)

    def store_cluster(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        lanes, target, where = self.remote.targets(site, at, m)
        self.remote.store(site, lanes, target, where, values, raw)

    # Of global memory alone

    def prefetch(self, site: Site, at: Array, size: Array, m: Array | None) -> None:
        self.globals.prefetch(site, at, size, m)

    def fence(self, m: Array | None) -> None:
        self.globals.order.fence(m)


def _merged(part: Array | None, new: Array, old: Array) -> Array:
    return new if part is None else np.where(part, new, old)
