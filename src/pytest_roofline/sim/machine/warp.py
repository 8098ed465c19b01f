"""Instructions by which the lanes of a warp exchange values, over arrays (blocks, threads)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from ..observe.chunk import Chunk
from ..observe.findings import CONVERGENCE, WARNING

LANE = np.arange(32)
BIT = np.uint32(1) << LANE.astype(np.uint32)
U = np.uint32


def by_warp(chunk: Chunk, values: Array) -> Array:
    """(rows, threads) as (rows, warps, 32)."""
    if values.shape[1] != chunk.threads:
        values = np.broadcast_to(values, (values.shape[0], chunk.threads))
    return values.reshape(values.shape[0], chunk.warps, 32)


def ballot(chunk: Chunk, values: Array) -> Array:
    """A bit a lane, per warp: (rows, warps)."""
    bits = np.where(by_warp(chunk, values), BIT, U(0))
    result: Array = np.bitwise_or.reduce(bits, axis=2)
    return result


def each_lane(per_warp: Array) -> Array:
    """(rows, warps) as (rows, threads)."""
    return np.repeat(per_warp, 32, axis=1)


def members(chunk: Chunk, site: Site, mask: Array, m: Array | None) -> Array:
    """Which lanes take part, as bits: (rows, warps, 1), or (rows, warps, 32) where lanes give different masks.

    An executing lane that its own mask leaves out is a finding.
    """
    there = chunk.everyone() if m is None else m
    active = ballot(chunk, there)[:, :, None]
    if mask.size == 1 and int(mask[0, 0]) == 0xFFFFFFFF:
        return active
    lane = (np.arange(chunk.threads) & 31).astype(U)
    stray = (((np.broadcast_to(mask, (mask.shape[0], chunk.threads)) >> lane) & U(1)) == 0) & there
    if stray.any():
        message = "a lane executes it that the member mask does not name"
        chunk.report(CONVERGENCE, message, (site,), chunk.broadcast(stray))
    named = by_warp(chunk, mask)
    if mask.size == 1:
        named = named[:, :, :1]
    result: Array = active & named
    return result


def lanes_of(per_lane: Array) -> Array:
    """(rows, warps, 1 or 32) as (rows, threads)."""
    return np.broadcast_to(per_lane, (*per_lane.shape[:2], 32)).reshape(per_lane.shape[0], -1)


@cache
def _source(mode: str, lane: int, clamp: int) -> tuple[Array, Array]:
    """For uniform operands: the lane to read from, and whether it is in range (PTX ISA, shfl.sync)."""
    return _sources(mode, np.array(lane), np.array(clamp), LANE)


@cache
def _everywhere(warps: int, inside: bytes) -> Array:
    """The same 32 lanes for each warp, as one row."""
    return np.tile(np.frombuffer(inside, bool), warps)[None]


def _sources(mode: str, lane: Array, clamp: Array, at: Array) -> tuple[Array, Array]:
    b, c, segment = lane & 31, clamp & 31, (clamp >> 8) & 31
    limit = (at & segment) | (c & ~segment)
    if mode == "up":
        j = at - b
        inside = j >= limit
    elif mode == "down":
        j = at + b
        inside = j <= limit
    elif mode == "bfly":
        j = at ^ b
        inside = j <= limit
    else:
        j = (at & segment) | (b & ~segment)
        inside = j <= limit
    return np.where(inside, j, at), inside


def _absent(chunk: Chunk, site: Site, part: Array, j: Array, d: Array, m: Array | None) -> Array:
    """What comes from a lane that takes no part is undefined: poison, and a warning, for it may not be used."""
    there = (part >> j.astype(U)) & U(1)
    named = ((part >> LANE.astype(U)) & U(1)) == 1
    bad = ((there == 0) & named).reshape(there.shape[0], -1) & (chunk.everyone() if m is None else m)
    if not bad.any():
        return d
    message = "the shuffle reads from a lane that does not take part"
    chunk.report(CONVERGENCE, message, (site,), chunk.broadcast(bad), WARNING)
    return np.where(bad, U(0xFFFFFFFF), d)


REDUCTIONS: dict[str, Any] = {
    "add": (np.add, lambda info: 0),
    "min": (np.minimum, lambda info: info.max),
    "max": (np.maximum, lambda info: info.min),
    "and": (np.bitwise_and, lambda info: -1 if info.min else info.max),
    "or": (np.bitwise_or, lambda info: 0),
    "xor": (np.bitwise_xor, lambda info: 0),
}


class Warp:
    """The instructions, over a chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk

    def shuffle(
        self, site: Site, mode: str, value: Array, lane: Array, clamp: Array, mask: Array, m: Array | None
    ) -> tuple[Array, Array]:
        """The value of the lane that each lane names, and whether that lane was in range."""
        part = members(self.chunk, site, mask, m)
        values = by_warp(self.chunk, value)
        if lane.size == 1 and clamp.size == 1:
            distance = int(lane[0, 0])
            j, inside = _source(mode, distance, int(clamp[0, 0]))
            if mode == "bfly" and inside.all() and distance in (1, 2, 4, 8, 16):  # halves change places
                d = values.reshape(values.shape[0], -1, 2, distance)[:, :, ::-1]
            else:
                d = np.take(values, j, axis=2)
            p = _everywhere(self.chunk.warps, inside.tobytes())
            if not (part == U(0xFFFFFFFF)).all():
                lanes = np.broadcast_to(j, (1, self.chunk.warps, 32))
                d = _absent(self.chunk, site, part, lanes, d.reshape(d.shape[0], -1), m)
            return d.reshape(d.shape[0], -1), p
        shape = (max(lane.shape[0], clamp.shape[0], values.shape[0]), self.chunk.warps, 32)
        lanes = np.broadcast_to(by_warp(self.chunk, lane).astype(np.int64), shape)
        clamps = np.broadcast_to(by_warp(self.chunk, clamp).astype(np.int64), shape)
        j, inside = _sources(mode, lanes, clamps, LANE)
        d = np.take_along_axis(np.broadcast_to(values, shape), j, axis=2)
        return _absent(self.chunk, site, part, j, d.reshape(shape[0], -1), m), inside.reshape(shape[0], -1)

    def vote(self, site: Site, op: str, p: Array, mask: Array, m: Array | None) -> Array:
        part = members(self.chunk, site, mask, m)
        yes = ballot(self.chunk, p)[:, :, None] & part
        if op == "ballot":
            return lanes_of(yes)
        if op == "any":
            return lanes_of(yes != 0)
        every = yes == part
        return lanes_of(every if op == "all" else every | (yes == 0))

    def match(self, site: Site, op: str, value: Array, mask: Array, m: Array | None) -> tuple[Array, Array]:
        part = members(self.chunk, site, mask, m)
        values = by_warp(self.chunk, value)
        equal = values[:, :, :, None] == values[:, :, None, :]
        bits = np.bitwise_or.reduce(np.where(equal, BIT, U(0)), axis=3) & part
        if op == "any":
            return bits.reshape(bits.shape[0], -1), np.ones((1, 1), bool)
        same = bits == part
        return lanes_of(np.where(same, part, U(0))), lanes_of(same)

    def redux(self, site: Site, op: str, value: Array, mask: Array, m: Array | None) -> Array:
        part = members(self.chunk, site, mask, m)
        values = by_warp(self.chunk, value)[:, :, None, :]
        there = ((part[:, :, :, None] >> LANE.astype(U)) & U(1)) == 1
        ufunc, identity = REDUCTIONS[op]
        neutral = values.dtype.type(identity(np.iinfo(values.dtype)))
        return lanes_of(ufunc.reduce(np.where(there, values, neutral), axis=3, dtype=values.dtype))

    def elect(self, site: Site, mask: Array, m: Array | None) -> tuple[Array, Array]:
        """The lowest lane that takes part is the leader."""
        part = members(self.chunk, site, mask, m)
        lowest = part & (~part + U(1))
        leaders = lanes_of(np.log2(np.maximum(lowest, U(1)).astype(np.float64)).astype(U))
        return leaders, (np.arange(self.chunk.threads) & 31)[None] == leaders

    def active(self, m: Array | None) -> Array:
        return each_lane(ballot(self.chunk, self.chunk.everyone() if m is None else m))

    def full(self, site: Site, m: Array | None) -> None:
        """An instruction of the whole warp: none of its lanes may have returned."""
        bits = ballot(self.chunk, self.chunk.everyone() if m is None else m)
        short = each_lane((bits != 0) & (bits != np.uint32(0xFFFFFFFF)))
        if short.any():
            message = f"{site.opcode} needs all 32 lanes of the warp"
            self.chunk.report(CONVERGENCE, message, (site,), self.chunk.broadcast(short & self.chunk.everyone()))
