"""What the lanes of a warp do together: shuffles, votes, matches and reductions, read from the PTX ISA.

The last operand of every case is the member mask; a lane outside of it does not take part.
"""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opcode_case import ANY, Case, integer, mask

WARP = 32
FULL = mask(WARP)
MASKS = (FULL, 0x0000FFFF, 0xF0F0F0F1, 0x80000001, 0x00000100)
HALF_MASKS = (0x0000FFFF, 0xFFFF0000, 0xF0F0F0F0, 0x0000000F)
Rows = list[tuple[int, ...]]


def members(row: tuple[int, ...]) -> list[int]:
    return [lane for lane in range(WARP) if row[-1] >> lane & 1]


def for_members(function: Callable[[Rows, int], Any], outputs: int = 1) -> Callable[[Rows], list[Any]]:
    """``function`` of all rows and a lane, for the lanes of the mask."""
    absent = ANY if outputs == 1 else (ANY,) * outputs
    return lambda rows: [function(rows, lane) if rows[0][-1] >> lane & 1 else absent for lane in range(WARP)]


def warps(columns: Iterable[tuple[Callable[[int], int] | int, ...]]) -> Rows:
    """Operand tuples of whole warps: each entry a number for all lanes, or a function of the lane."""
    lanes = ((warp, lane) for warp in columns for lane in range(WARP))
    return [tuple(column(lane) if callable(column) else column for column in warp) for warp, lane in lanes]


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that is read, and whether it was in range."""
    b, bound, segment = b & 31, c & 31, c >> 8 & 31
    highest = (lane & segment) | (bound & ~segment & 31)
    lowest = lane & segment
    if mode == "up":
        j = lane - b
        inside = j >= highest
    elif mode == "idx":
        j = lowest | (b & ~segment & 31)
        inside = j <= highest
    else:
        j = lane + b if mode == "down" else lane ^ b
        inside = j <= highest
    return (j if inside else lane), inside


def defined(rows: Rows, mode: str) -> Rows:
    """Without the warps in which a lane would read one that does not take part."""
    kept: Rows = []
    for start in range(0, len(rows), WARP):
        warp = rows[start : start + WARP]
        sources = (source_lane(mode, lane, *warp[lane][1:3])[0] for lane in members(warp[0]))
        if all(warp[0][-1] >> source & 1 for source in sources):
            kept += warp
    return kept


def shuffles() -> Iterator[Case]:
    for mode in ("up", "down", "bfly", "idx"):
        rng = random.Random(mode)

        def values(_: int, rng: random.Random = rng) -> int:
            return rng.getrandbits(32)

        def lanes(_: int, rng: random.Random = rng) -> int:
            return rng.randrange(40)

        distances = [0, 1, 2, 5, 16, 31, 33, lanes if mode == "idx" else 8]
        bounds = [segment << 8 | bound for segment in (0, 0x10, 0x18, 0x1C, 0x1E, 0x1F) for bound in (0x1F, 0, 7, 20)]
        columns = [(values, b, c, FULL) for b in distances for c in bounds]
        bounds = (0x1F, 0, 0x101F, 0x1000, 0x181F, 0x1C03)
        columns += [(values, b, c, some) for b in (0, 1, 2, 4, 8, 31, lanes) for c in bounds for some in HALF_MASKS]

        def expected(rows: Rows, lane: int, mode: str = mode) -> tuple[int, int]:
            j, inside = source_lane(mode, lane, *rows[lane][1:3])
            return rows[j][0], int(inside)

        yield Case(
            f"shfl.sync.{mode}.b32",
            ("b32", "pred", "b32", "b32", "b32", "b32"),
            for_members(expected, outputs=2),
            values=defined(warps(columns), mode),
            text=f"{{ .reg .pred p; shfl.sync.{mode}.b32 %0|p, %2, %3, %4, %5; selp.b32 %1, 1, 0, p; }}",
            outputs=2,
            warp=True,
        )


def votes() -> Iterator[Case]:
    rng = random.Random("votes")
    patterns = [0, FULL, 1, 1 << 31, FULL - 1, 0x0000FFFF, 0xF0F0F0F1, 0x55555555]
    patterns += [rng.getrandbits(32) for _ in range(20)]
    columns = [(lambda lane, p=p: p >> lane & 1, some) for p in patterns for some in MASKS]
    for negate in ("", "!"):
        flip = int(bool(negate))

        def predicates(rows: Rows, flip: int = flip) -> list[int]:
            return [rows[lane][0] ^ flip for lane in members(rows[0])]

        def ballot(rows: Rows, _: int, flip: int = flip) -> int:
            return sum((rows[lane][0] ^ flip) << lane for lane in members(rows[0]))

        functions: dict[str, Callable[[Rows, int], int]] = {
            "all": lambda rows, _, p=predicates: int(all(p(rows))),
            "any": lambda rows, _, p=predicates: int(any(p(rows))),
            "uni": lambda rows, _, p=predicates: int(len(set(p(rows))) == 1),
        }
        for mode, function in functions.items():
            body = f"setp.ne.b32 p, %1, 0; vote.sync.{mode}.pred q, {negate}p, %2; selp.b32 %0, 1, 0, q;"
            yield Case(
                f"vote.sync.{mode}.pred{'.not' * flip}",
                ("pred", "b32", "b32"),
                for_members(function),
                values=warps(columns),
                text=f"{{ .reg .pred p, q; {body} }}",
                warp=True,
            )
        yield Case(
            f"vote.sync.ballot.b32{'.not' * flip}",
            ("b32", "b32", "b32"),
            for_members(ballot),
            values=warps(columns),
            text=f"{{ .reg .pred p; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 %0, {negate}p, %2; }}",
            warp=True,
        )


def matching(rows: Rows, lane: int) -> int:
    return sum(1 << other for other in members(rows[0]) if rows[other][0] == rows[lane][0])


def matching_all(rows: Rows, lane: int) -> tuple[int, int]:
    same = matching(rows, lane) == rows[0][-1]
    return (rows[0][-1] if same else 0), int(same)


def matches() -> Iterator[Case]:
    for width in (32, 64):
        top = 1 << (width - 1)  # values that differ in one bit only
        choices = [
            lambda lane: 7,
            lambda lane: lane,
            lambda lane, top=top: top * (lane & 1),
            lambda lane: lane * lane % 5,
            lambda lane: int(lane == 9),
            lambda lane: int(lane < 16),
        ]
        columns = [(choice, some) for choice in choices for some in MASKS]
        kind = f"b{width}"
        values = warps(columns)
        yield Case(f"match.any.sync.{kind}", ("b32", kind, "b32"), for_members(matching), values=values, warp=True)
        yield Case(
            f"match.all.sync.{kind}",
            ("b32", "pred", kind, "b32"),
            for_members(matching_all, outputs=2),
            values=values,
            text=f"{{ .reg .pred p; match.all.sync.{kind} %0|p, %2, %3; selp.b32 %1, 1, 0, p; }}",
            outputs=2,
            warp=True,
        )


def reductions() -> Iterator[Case]:
    rng = random.Random("redux")
    columns = [(lambda lane: rng.getrandbits(32), some) for _ in range(8) for some in MASKS]
    columns += [(lambda lane: FULL, FULL), (lambda lane: 1 << lane, FULL), (lambda lane: FULL ^ 1 << lane, FULL)]
    values = warps(columns)
    folds: dict[str, tuple[Callable[[int, int], int], tuple[str, ...]]] = {
        "add": (operator.add, ("u32", "s32")),
        "min": (min, ("u32", "s32")),
        "max": (max, ("u32", "s32")),
        "and": (operator.and_, ("b32",)),
        "or": (operator.or_, ("b32",)),
        "xor": (operator.xor, ("b32",)),
    }
    for name, (fold, kinds) in folds.items():
        for kind in kinds:

            def reduced(rows: Rows, _: int, fold=fold, kind=kind) -> int:
                numbers = (integer(kind, rows[lane][0]) for lane in members(rows[0]))
                return functools.reduce(fold, numbers) & FULL

            yield Case(f"redux.sync.{name}.{kind}", (kind, kind, "b32"), for_members(reduced), values=values, warp=True)


def active() -> Iterator[Case]:
    """PTX promises no more than that a lane is active itself, and none that took the other branch."""

    def plausible(rows: Rows, lane: int) -> Callable[[int], bool]:
        return lambda bits: bool(bits >> lane & 1) and bits & ~rows[0][-1] == 0

    values = warps([(some,) for some in MASKS])
    text = "activemask.b32 %0;"
    yield Case("activemask.b32", ("b32", "b32"), for_members(plausible), values=values, text=text, warp=True)


def cases() -> Iterator[Case]:
    for group in (shuffles, votes, matches, reductions, active):
        yield from group()
