"""ldmatrix and stmatrix: matrices of 8x8 16-bit values between shared memory and the registers of a warp."""

from __future__ import annotations

import numpy as np

from ..isa.floats import Array
from ..isa.site import Site
from ..isa.tensor import G, T
from ..observe.findings import MEMORY
from .protocol import Running
from .shared import Shared


class Matrices:
    """By the fragment layout of mma: lane 4g + t has elements 2t and 2t + 1 of row g."""

    def __init__(self, chunk: Running, shared: Shared) -> None:
        self.chunk, self.shared = chunk, shared

    def load(self, site: Site, at: Array, count: int, trans: bool, m: Array | None) -> tuple[Array, ...]:
        """ldmatrix: ``count`` matrices of 8x8 16-bit values; lanes 8i to 8i + 7 give the rows of matrix i."""
        rows = _rows(self.chunk, site, at, count, m)
        lanes = self.chunk.everyone() if m is None else m
        outputs = []
        for n in range(count):
            address = rows[:, :, 8 * n : 8 * n + 8]
            halves = []
            for half in range(2):
                row, column = (G, 2 * T + half) if not trans else (2 * T + half, G)
                where = (address[:, :, row] + 2 * column).reshape(address.shape[0], -1)
                halves.append(self.shared.load(site, where, lanes, "u2", 1, False)[0].astype(np.uint32))
            outputs.append(halves[0] | (halves[1] << np.uint32(16)))
        return tuple(outputs)

    def store(self, site: Site, at: Array, values: tuple[Array, ...], trans: bool, m: Array | None) -> None:
        """stmatrix, the other way round."""
        rows = _rows(self.chunk, site, at, len(values), m)
        lanes = self.chunk.everyone() if m is None else m
        for n, value in enumerate(values):
            address = rows[:, :, 8 * n : 8 * n + 8]
            for half in range(2):
                row, column = (G, 2 * T + half) if not trans else (2 * T + half, G)
                where = (address[:, :, row] + 2 * column).reshape(address.shape[0], -1)
                part = ((value >> np.uint32(16 * half)) & np.uint32(0xFFFF)).astype(np.uint16)
                self.shared.store(site, where, lanes, (part,), "u2", False)


def _rows(chunk: Running, site: Site, at: Array, count: int, m: Array | None) -> Array:
    """The row addresses by warp; each must be a multiple of 16 bytes."""
    at = np.broadcast_to(at, (at.shape[0], chunk.threads))
    given = (np.arange(chunk.threads) & 31) < 8 * count
    misaligned = ((at & 15) != 0) & given & (chunk.everyone() if m is None else m)
    if misaligned.any():
        message = f"misaligned row address of {site.opcode}, it must be a multiple of 16 bytes"
        chunk.report(MEMORY, message, (site,), chunk.broadcast(misaligned))
    return at.reshape(at.shape[0], chunk.warps, 32)
