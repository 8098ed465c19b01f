"""Accesses to global memory by the lanes of a chunk: bounds, alignment, what was never written, and counts."""

from __future__ import annotations

import math

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from ..observe.findings import MEMORY, UNINITIALISED
from ..observe.order import Order
from .atomics import atomic, typed_view
from .memory import FROM_KERNEL, WRITTEN, Allocation, all_bytes
from .protocol import Running

NULL_BYTES = 2**16  # behind address 0, in which an access is one through a null pointer


class Globals:
    """Global memory as a chunk sees it."""

    def __init__(self, chunk: Running) -> None:
        self.chunk, self.arena, self.launch = chunk, chunk.launch.arena, chunk.launch
        self.order = Order(chunk, chunk.launch.history, math.prod(chunk.launch.grid))

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
        lanes = chunk.lanes(m)
        where = chunk.broadcast(at)
        misaligned = lanes & ((where & (size - 1)) != 0)
        if misaligned.any():
            first = int(where[misaligned][0])
            near = self.arena.near(first)
            message = f"misaligned access of {size} bytes at {first:#x}" + (f" in {near.what}" if near else "")
            chunk.report(MEMORY, message, (site,), misaligned)
        bases = np.array(self.arena.bases, np.int64)
        owner = np.searchsorted(bases, where, side="right") - 1
        parts, lost = [], lanes & ~misaligned
        for number in np.unique(owner[lanes]):
            if number < 0:
                continue
            found = self.arena.allocations[int(number)]
            inside = lanes & ~misaligned & (owner == number) & (where + size <= found.base + found.nbytes)
            lost = lost & ~inside
            if inside.any():
                parts.append((inside, found))
        if lost.any():
            chunk.report(MEMORY, self._outside(site, int(where[lost][0]), size), (site,), lost)
        return parts

    def _outside(self, site: Site, address: int, size: int) -> str:
        what = f"access of {size} bytes at {address % 2**64:#x}"
        if 0 <= address < NULL_BYTES:
            given = [
                f", argument {n} of {site.kernel}" for name, n in self.launch.nulls.items() if name in site.pointers
            ]
            return f"{what}, through a null pointer{''.join(given[:1])}"
        near = self.arena.near(address)
        if near is None:
            return f"{what}, where nothing is allocated"
        if address < near.base:
            return f"{what}, which begins {near.base - address} bytes before {near.what}"
        return f"{what}, which ends {address + size - near.base - near.nbytes} bytes past the end of {near.what}"

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
            m = self.chunk.lanes(m)
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
            self.order.read(found, site, offsets, mask, each * count, volatile)
        index = offsets // each
        if count > 1:
            index = index // count
            rows = found.data.view(raw).reshape(-1, count)[index]
            values = [rows[..., n] for n in range(count)]
        else:
            values = [found.data.view(raw)[index]]
        if not found.initialised:
            written = found.init.view(raw)
            ones = all_bytes(WRITTEN, raw)
            bad = np.zeros(at.shape, bool)
            for n in range(count):
                bad |= written[offsets // each + n] & ones != ones
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
            self.order.write(allocation, site, offsets, inside, each * len(values), volatile)
            index = offsets // each
            data, written = allocation.data.view(raw), allocation.init.view(raw)
            stored = all_bytes(FROM_KERNEL, raw)
            allocation.stored = True
            # Of an initialised array it is noted in the end who wrote which granule, which volatile stores leave out.
            hot = volatile or not allocation.initialised
            self.chunk.changes += 1
            for n, value in enumerate(given):
                if self.chunk.reverse:
                    data[(index + n).ravel()[::-1]] = value.ravel()[::-1]
                else:
                    data[index + n if n else index] = value
                if hot:
                    written[index + n if n else index] = stored

    def prefetch(self, site: Site, at: Array, size: Array, m: Array | None) -> None:
        """cp.async.bulk.prefetch, a hint that moves nothing here: address and size have to be multiples of 16."""
        where, sizes = self.chunk.broadcast(at), self.chunk.broadcast(size)
        misaligned = self.chunk.lanes(m) & (((where | sizes) & 15) != 0)
        if misaligned.any():
            message = (
                f"prefetch of {sizes[misaligned][0]} bytes at {where[misaligned][0]:#x}: both must be multiples of 16"
            )
            self.chunk.report(MEMORY, message, (site,), misaligned)

    def atomic(
        self, site: Site, at: Array, m: Array | None, op: str, kind: str, b: Array, c: Array, keep: bool
    ) -> Array:
        chunk = self.chunk
        lanes = chunk.lanes(m)
        out = np.zeros((chunk.blocks, chunk.threads), b.dtype)
        if not lanes.any():
            return out
        size = b.dtype.itemsize
        for inside, found in self._divide(site, at, lanes, size):
            chunk.count(site, found.what, inside, at, size)
            offsets = found.flat(chunk.broadcast(at)[inside] - found.base)  # first, for it may make another ``data``
            view, run, size = typed_view(found.data, op, kind)
            self.order.update(found, site, offsets, inside, size)
            written = found.init.view(f"u{size}")
            ones = all_bytes(WRITTEN, f"u{size}")
            unwritten = written[offsets // size] & ones != ones
            if unwritten.any() and (op != "exch" or keep):
                active = np.zeros(inside.shape, bool)
                active[inside] = unwritten
                chunk.report(UNINITIALISED, f"atomic access to {found.what} where nobody wrote", (site,), active)
            written[offsets // size] = all_bytes(FROM_KERNEL, f"u{size}")
            found.stored = True
            first, second = (np.ascontiguousarray(chunk.broadcast(v)[inside]) for v in (b, c))
            old = atomic(view, offsets // size, op, run, first, second, keep, chunk.reverse)
            chunk.changes += not keep or bool((view[offsets // size] != old).any())
            out[inside] = old
        return out
