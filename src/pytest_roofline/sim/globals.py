"""Accesses to global memory by the lanes of a chunk, and races between the blocks of a launch.

Per granule the block that last wrote it, and if the launch also reads the allocation the block that read it. Two
blocks, at least one writing, without atomics: a race, since nothing orders blocks, unless the writer fenced (its
block number is then kept negative) and the other one has gone through an atomic or volatile access since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .findings import ERROR, MEMORY, RACE, UNINITIALISED, WARNING, Site
from .floats import Array
from .memory import Allocation, atomic, typed_view

if TYPE_CHECKING:
    from .execute import Chunk

SEVERAL = np.int32(2**31 - 1)  # more than one block has read it


class Globals:
    """Global memory as a chunk sees it."""

    INSTRUCTIONS = ("fence",)

    def __init__(self, chunk: Chunk) -> None:
        self.chunk, self.arena, self.launch = chunk, chunk.launch.arena, chunk.launch
        self.granule = chunk.program.granule["global"]
        self.numbers = (chunk.numbers + 1).astype(np.int32)[:, None]

    # Which lanes, and where

    def _lanes(self, m: Array | None, at: Array) -> tuple[Array, Array | None]:
        """Addresses of the active lanes, and the mask over the broadcast shape by which they were taken."""
        if m is None:
            return at, None
        shape = np.broadcast_shapes(m.shape, at.shape)
        mask = np.broadcast_to(m, shape)
        return np.broadcast_to(at, shape)[mask], mask

    def _spread(self, values: Array, mask: Array | None) -> Array:
        if mask is None:
            return values
        out = np.zeros(mask.shape, values.dtype)
        out[mask] = values
        return out

    def _allocation(self, at: Array, size: int) -> Allocation | None:
        """The one allocation in which all of ``at`` lie, aligned; None if there is none such."""
        if int(np.bitwise_or.reduce(at, axis=None)) & (size - 1):
            return None
        low, high = int(at.min()), int(at.max())
        found = self.arena.at(low)
        return found if found is not None and high + size <= found.base + found.nbytes else None

    def _divide(self, site: Site, at: Array, m: Array | None, size: int) -> list[tuple[Array, Allocation]]:
        """Lanes by allocation; those that access what is not allocated, or misaligned, are findings and left out."""
        chunk = self.chunk
        lanes = chunk.broadcast(chunk.everyone() if m is None else m)
        where = chunk.broadcast(at)
        crooked = lanes & ((where & (size - 1)) != 0)
        if crooked.any():
            first = int(where[crooked][0])
            message = f"misaligned access of {size} bytes at {first:#x}"
            chunk.report(MEMORY, message, (site,), crooked)
        bases = np.array(self.arena.bases, np.int64)
        owner = np.searchsorted(bases, where, side="right") - 1
        parts, lost = [], lanes & ~crooked
        for number in np.unique(owner[lanes]):
            if number < 0:
                continue
            found = self.arena.allocations[int(number)]
            inside = lanes & ~crooked & (owner == number) & (where + size <= found.base + found.nbytes)
            lost = lost & ~inside
            if inside.any():
                parts.append((inside, found))
        if lost.any():
            chunk.report(MEMORY, self._outside(int(where[lost][0]), size), (site,), lost)
        return parts

    def _outside(self, address: int, size: int) -> str:
        near = self.arena.at(address)
        if near is None:
            return f"access of {size} bytes at {address:#x}, where nothing is allocated"
        past = address + size - near.base - near.nbytes
        return f"access of {size} bytes at {address:#x}, which ends {past} bytes past the end of {near.what}"

    # Loads and stores

    def load(self, site: Site, at: Array, m: Array | None, raw: str, count: int, volatile: bool) -> tuple[Array, ...]:
        each = np.dtype(raw).itemsize
        size = each * count
        active, mask = self._lanes(m, at)
        zero = (np.zeros((1, 1), raw),) * count
        if not active.size:
            return zero
        found = self._allocation(active, size)
        if found is None:
            out = [np.zeros((self.chunk.blocks, self.chunk.threads), raw) for _ in range(count)]
            for inside, allocation in self._divide(site, at, m, size):
                self.chunk.count(site, allocation.what, inside, at, size)
                where = self.chunk.broadcast(at)[inside]
                values = self._load_from(allocation, site, where, inside, raw, count, volatile)
                for o, v in zip(out, values, strict=True):
                    o[inside] = v
            return tuple(out)
        if volatile or found.base in self.launch.tracked:  # who reads has to be known
            m = self.chunk.broadcast(self.chunk.everyone() if m is None else m)
            active, mask = self._lanes(m, self.chunk.broadcast(at))
        self.chunk.count(site, found.what, m, at, size)
        values = self._load_from(found, site, active, mask, raw, count, volatile)
        return tuple(self._spread(value, mask) for value in values)

    def _load_from(
        self,
        found: Allocation,
        site: Site,
        at: Array,
        mask: Array | None,
        raw: str,
        count: int,
        volatile: bool,
    ) -> list[Array]:
        each = np.dtype(raw).itemsize
        offsets = found.flat(at - found.base)
        if found.base in self.launch.tracked and mask is not None:
            self._read(found, site, offsets, mask, each * count, volatile)
        index = offsets // each
        if count > 1:
            index = index // count
            rows = found.data.view(raw).reshape(-1, count)[index]
            values = [rows[..., n] for n in range(count)]
        else:
            values = [found.data.view(raw)[index]]
        if not found.initialised:
            written = found.init.view(raw)
            ones = np.array(int.from_bytes(b"\1" * each, "little"), raw)
            bad = np.zeros(at.shape, bool)
            for n in range(count):
                bad |= written[offsets // each + n] != ones
            if bad.any():
                active = self.chunk.broadcast(self._spread(bad, mask) if mask is not None else bad)
                first = int(at[bad].flat[0])
                message = f"read of {each * count} bytes that nobody wrote at {first:#x} in {found.what}"
                self.chunk.report(UNINITIALISED, message, (site,), active)
        return values

    def store(
        self, site: Site, at: Array, m: Array | None, values: tuple[Array, ...], raw: str, volatile: bool
    ) -> None:
        each = np.dtype(raw).itemsize
        lanes = self.chunk.broadcast(at)
        active, mask = self._lanes(None if m is None else self.chunk.broadcast(m), lanes)
        if not active.size:
            return
        found = self._allocation(active, each * len(values))
        parts = [(mask, found)] if found is not None else self._divide(site, at, m, each * len(values))
        for inside, allocation in parts:
            assert allocation is not None
            own = lanes if inside is None else lanes[inside]
            given = [self.chunk.broadcast(v) if inside is None else self.chunk.broadcast(v)[inside] for v in values]
            self.chunk.count(site, allocation.what, inside, lanes, each * len(values))
            offsets = allocation.flat(own - allocation.base)
            self._write(allocation, site, offsets, inside, each * len(values), volatile)
            index = offsets // each
            data, written = allocation.data.view(raw), allocation.init.view(raw)
            ones = np.array(int.from_bytes(b"\1" * each, "little"), raw)
            for n, value in enumerate(given):
                if self.chunk.reverse:
                    data[(index + n).ravel()[::-1]] = value.ravel()[::-1]
                else:
                    data[index + n if n else index] = value
                if not allocation.initialised:
                    written[index + n if n else index] = ones

    def atomic(
        self, site: Site, at: Array, m: Array | None, op: str, kind: str, b: Array, c: Array, keep: bool
    ) -> Array:
        chunk = self.chunk
        lanes = chunk.broadcast(chunk.everyone() if m is None else m)
        out = np.zeros((chunk.blocks, chunk.threads), b.dtype)
        if not lanes.any():
            return out
        size = b.dtype.itemsize
        for inside, found in self._divide(site, at, lanes, size):
            view, run, size = typed_view(found.data, op, kind)
            chunk.count(site, found.what, inside, at, size)
            offsets = found.flat(chunk.broadcast(at)[inside] - found.base)
            self._atomic_order(found, site, offsets, inside, size)
            written = found.init.view(f"u{size}")
            ones = int.from_bytes(b"\1" * size, "little")
            unwritten = written[offsets // size] != ones
            if unwritten.any() and op != "exch":
                active = np.zeros(inside.shape, bool)
                active[inside] = unwritten
                chunk.report(UNINITIALISED, f"atomic access to {found.what} where nobody wrote", (site,), active)
            written[offsets // size] = ones
            first, second = (np.ascontiguousarray(chunk.broadcast(v)[inside]) for v in (b, c))
            old = atomic(view, offsets // size, op, run, first, second, keep, chunk.reverse)
            out[inside] = old
        return out

    # Order between blocks

    def _granules(self, offsets: Array, size: int) -> list[Array]:
        first = offsets // self.granule
        return [first + n if n else first for n in range(max(1, size // self.granule))]

    def _numbers(self, mask: Array | None) -> Array:
        numbers = self.chunk.broadcast(self.numbers)
        return numbers if mask is None else numbers[mask]

    def _foreign(self, owner: Array, mine: Array) -> Array:
        """Where another block's access is not ordered before this one's."""
        bad = (owner != 0) & (owner != mine) & (owner != -mine)
        if not bad.any() or not self.launch.acquired:
            return bad
        acquired = np.isin(mine, np.fromiter(self.launch.acquired, np.int32))
        return bad & ~((owner < 0) & acquired)

    def _read(self, found: Allocation, site: Site, offsets: Array, mask: Array, size: int, volatile: bool) -> None:
        mine = self._numbers(mask)
        if volatile:
            self._acquire(mask)
            return
        uncached = "nc" in site.opcode.split(".")
        reader, sites = found.shadow("reader", self.granule)
        for at in self._granules(offsets, size):
            kind = "non-coherent load (ld.global.nc) of data" if uncached else "read of data"
            self._compare(found, "owner", site, at, mine, mask, f"{kind} that block {{}} writes in the same launch")
            if uncached and found.owner is not None:
                own = np.abs(found.owner[at]) == mine
                text = "non-coherent load (ld.global.nc) of data that the same launch writes, block {}"
                self._race(found, "owner", site, own, mask, text, at)
            self._compare(found, "updater", site, at, mine, mask, "plain read of what block {} updates", WARNING)
            reader[at] = np.where(self._foreign(reader[at], mine), SEVERAL, mine)
            sites[at] = site.index

    def _write(
        self, found: Allocation, site: Site, offsets: Array, mask: Array | None, size: int, volatile: bool
    ) -> None:
        if volatile:
            return
        mine = self._numbers(mask)
        owner, sites = found.shadow("owner", self.granule)
        for at in self._granules(offsets, size):
            self._compare(found, "owner", site, at, mine, mask, "two blocks write the same place, block {} too")
            self._compare(found, "reader", site, at, mine, mask, "written while block {} reads it in the same launch")
            self._compare(found, "updater", site, at, mine, mask, "plain write of what block {} updates atomically")
            owner[at] = mine
            sites[at] = site.index
            lost = owner[at] != mine  # two blocks in this very instruction
            if lost.any():
                self._race(found, "owner", site, lost, mask, "two blocks write the same place, block {} too", at)

    def _atomic_order(self, found: Allocation, site: Site, offsets: Array, mask: Array, size: int) -> None:
        mine = self._numbers(mask)
        updater, sites = found.shadow("updater", self.granule)
        for at in self._granules(offsets, size):
            self._compare(found, "owner", site, at, mine, mask, "atomic access to what block {} writes without")
            text = "atomic access to what block {} reads without"
            self._compare(found, "reader", site, at, mine, mask, text, WARNING)
            updater[at] = mine
            sites[at] = site.index
        self._acquire(mask)

    def _compare(
        self,
        found: Allocation,
        role: str,
        site: Site,
        at: Array,
        mine: Array,
        mask: Array | None,
        message: str,
        severity: str = ERROR,
    ) -> None:
        """A finding where another block was ``role`` at these granules and nothing orders it before this access."""
        before: Array | None = getattr(found, role)
        if before is None:
            return
        bad = self._foreign(before[at], mine)
        if bad.any():
            self._race(found, role, site, bad, mask, message, at, severity)

    def _race(
        self,
        found: Allocation,
        role: str,
        site: Site,
        bad: Array,
        mask: Array | None,
        message: str,
        at: Array,
        severity: str = ERROR,
    ) -> None:
        if not bad.any():
            return
        active = self.chunk.broadcast(self._spread(bad, mask) if mask is not None else bad)
        at = np.broadcast_to(at, bad.shape)[bad]
        first = int(at.flat[0])
        block = abs(int(getattr(found, role)[first]))
        named = str(block - 1) if block != int(SEVERAL) else "numbers several"
        text = f"{message.format(named)} and nothing orders them, at byte {first * self.granule} of {found.what}"
        for index in np.unique(found.sites[role][at]):
            other = self.chunk.program.sites[int(index)]
            self.chunk.report(RACE, text, (site, other), active, severity)

    def _acquire(self, mask: Array | None) -> None:
        rows = np.ones(self.chunk.blocks, bool) if mask is None else mask.any(axis=1)
        self.launch.acquired.update(int(n) for n in self.numbers[rows, 0])

    def fence(self, m: Array | None) -> None:
        """What the blocks did so far is ordered before whoever synchronises with them."""
        lanes = self.chunk.broadcast(self.chunk.everyone() if m is None else m)
        ids = self.numbers[lanes.any(axis=1), 0]
        for found in self.arena.allocations:
            for shadow in (found.owner, found.reader, found.updater):
                if shadow is not None:
                    mine = np.isin(shadow, ids)
                    shadow[mine] = -shadow[mine]
