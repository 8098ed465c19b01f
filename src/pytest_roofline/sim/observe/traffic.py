"""What launches did, counted: bytes, requests, sectors and bank conflicts per buffer, and instructions by opcode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from ..isa.floats import Array
from ..isa.program import Program

SECTOR = 32  # bytes: the unit in which global memory is moved
BANKS, WORD = 32, 4  # of shared memory; a bank gives one word of 4 bytes a wavefront
SHARED = "shared"


@dataclass
class Counts:
    """What was accessed at a site, per buffer: lanes, bytes, and requests (warps with any lane).

    With :attr:`Launch.detailed` also what the requests came to: bytes that are distinct within a warp, 32-byte sectors
    of global memory, and wavefronts of shared memory (1 a request where no two lanes meet in a bank).
    """

    lanes: int = 0
    bytes: int = 0
    requests: int = 0
    unique_bytes: int = 0
    sectors: int = 0
    wavefronts: int = 0

    def add(self, other: Counts) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def detail(counts: Counts, lanes: Array, at: Array, size: int, buffer: str) -> None:
    """Add what the requests of ``lanes`` for ``size`` bytes each at ``at`` come to, warp by warp."""
    active = lanes.reshape(-1, 32)
    where = np.where(active, at.reshape(-1, 32), -1)
    ordered = _ordered(where)
    counts.unique_bytes += size * _distinct(ordered)
    if buffer == SHARED:
        counts.wavefronts += _wavefronts(where, size)
    else:
        counts.sectors += _distinct(ordered // SECTOR)  # of -1 it is -1


def _ordered(values: Array) -> Array:
    """Each row sorted, as it mostly is."""
    return values if (values[:, 1:] >= values[:, :-1]).all() else np.sort(values, axis=1)


def _distinct(ordered: Array) -> int:
    """How many different values sorted rows hold, row by row, -1 not counted."""
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return int(np.count_nonzero(fresh))


def _wavefronts(where: Array, size: int) -> int:
    """Accesses of 8 and 16 bytes go by half and quarter warps. In each group the fullest bank decides."""
    words = max(1, size // WORD)
    groups = where.reshape(-1, 32 // words)
    wanted = np.concatenate([np.where(groups < 0, -1, groups // WORD + n) for n in range(words)], axis=1)
    ordered = _ordered(wanted)
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    rows, columns = np.nonzero(fresh)
    per_bank = np.bincount(rows * BANKS + ordered[rows, columns] % BANKS, minlength=len(groups) * BANKS)
    return int(per_bank.reshape(-1, BANKS).max(axis=1).sum())


@dataclass(frozen=True)
class Touch:
    """One access to global memory: per block the first byte and the end of what its threads touched."""

    blocks: Array
    first: Array
    end: Array
    write: bool


def touch(blocks: Array, m: Array | None, at: Array, size: int, opcode: str) -> Touch:
    """The access of lanes ``m`` at ``at``. Blocks without an active lane are left out."""
    write = opcode.startswith(("st", "red", "atom"))
    if m is None:
        first, last = (np.broadcast_to(ends, len(blocks)) for ends in (at.min(axis=1), at.max(axis=1)))
        return Touch(blocks, first, last + size, write)
    shape = (len(blocks), max(at.shape[1], m.shape[1]))
    where, lanes = np.broadcast_to(at, shape), np.broadcast_to(m, shape)
    first = np.where(lanes, where, np.iinfo(np.int64).max).min(axis=1)
    last = np.where(lanes, where, -1).max(axis=1)
    some = np.flatnonzero(last >= 0)
    return Touch(blocks[some], first[some], last[some] + size, write)


@dataclass
class Executed:
    """How often a block of code ran: for how many lanes, and for how many warps with any lane."""

    lanes: int = 0
    warps: int = 0


class Counted(Protocol):
    """A launch that ran: counts by site and buffer, and how often each block of code was executed."""

    program: Program
    counts: dict[tuple[int, str], Counts]
    executed: dict[int, Executed]


def by_buffer(launches: Iterable[Counted]) -> dict[str, Counts]:
    """Accesses per buffer, "shared" for shared memory."""
    total: dict[str, Counts] = {}
    for launch in launches:
        for (_, buffer), counts in launch.counts.items():
            total.setdefault(buffer, Counts()).add(counts)
    return total


def instructions(launches: Iterable[Counted]) -> Counter[str]:
    """Lanes that executed each opcode. One under a predicate counts for every lane that reaches it."""
    total: Counter[str] = Counter()
    for launch in launches:
        for block, ran in launch.executed.items():
            for item in launch.program.flat.blocks[block].body:
                total[item.opcode] += ran.lanes
    return total


MEMORY = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic", "cp": "copy"}
SPECIAL = {"ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "sqrt", "rcp"}
WARP_WIDE = {"shfl": "shuffle", "vote": "shuffle", "match": "shuffle", "redux": "shuffle", "bar": "barrier"}
WARP_WIDE |= {"barrier": "barrier", "mma": "matrix", "wmma": "matrix", "ldmatrix": "load", "stmatrix": "store"}
ARITHMETIC = {"add", "sub", "mul", "fma", "mad", "min", "max"}
ROUNDED = {"rn", "rz", "rm", "rp"}
FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}


def kind_of(opcode: str) -> str:
    """The class of an instruction: "load", "store", "atomic", "copy", "special", "float", "shuffle", "barrier",
    "matrix", "float_add" (unrounded, which ptxas may join with a multiplication), or "other" (integers, addresses,
    conversions, signs, moves and jumps, of which ptxas may drop or join some).
    """
    base, *mods = opcode.split(".")
    if base in MEMORY:
        return "other" if "param" in mods or "const" in mods else MEMORY[base]
    if base in WARP_WIDE:
        return WARP_WIDE[base]
    floating = bool(FLOATS & {*mods})
    if base in SPECIAL or (base == "div" and floating):
        return "special"
    if base in ("add", "sub") and floating and not ROUNDED & {*mods}:
        return "float_add"
    return "float" if base in ARITHMETIC and floating else "other"


def issued(launch: Counted) -> tuple[Counter[str], int]:
    """Instructions that warps issued, by class, and the lanes of those of class "special"."""
    kinds: Counter[str] = Counter()
    special = 0
    for block, ran in launch.executed.items():
        for item in launch.program.flat.blocks[block].body:
            kind = kind_of(item.opcode)
            kinds[kind] += ran.warps
            special += ran.lanes if kind == "special" else 0
    return kinds, special


def exponentials(launches: Iterable[Counted]) -> int:
    """Lanes that executed an exponential (ex2, to which exp and __expf come down)."""
    return sum(count for opcode, count in instructions(launches).items() if opcode.startswith("ex2"))
