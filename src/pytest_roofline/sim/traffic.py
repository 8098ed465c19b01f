"""What launches did, counted: bytes and requests per buffer, and instructions by opcode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .execute import Counts, Launch


def by_buffer(launches: Iterable[Launch]) -> dict[str, Counts]:
    """Accesses per buffer, "shared" for shared memory: lanes, bytes, and requests (a warp's instruction each)."""
    total: dict[str, Counts] = {}
    for launch in launches:
        for (_, buffer), counts in launch.counts.items():
            found = total.setdefault(buffer, Counts())
            found.lanes += counts.lanes
            found.bytes += counts.bytes
            found.requests += counts.requests
    return total


def instructions(launches: Iterable[Launch]) -> Counter[str]:
    """Lanes that executed each opcode. One under a predicate counts for every lane that reaches it."""
    total: Counter[str] = Counter()
    for launch in launches:
        for block, ran in launch.executed.items():
            for item in launch.program.flat.blocks[block].body:
                total[item.opcode] += ran.lanes
    return total


def exponentials(launches: Iterable[Launch]) -> int:
    """Lanes that executed an exponential (ex2, to which exp and __expf come down)."""
    return sum(count for opcode, count in instructions(launches).items() if opcode.startswith("ex2"))
