"""Pairwise combinations: few rows in which every two values of different extents meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, int]


def pairwise(values: Mapping[str, Sequence[int]], allowed: Callable[[Row], bool]) -> Iterator[Row]:
    """Rows of one value for each name, all of them ``allowed``, until every pair that can meet has met.

    Greedy and always in the same order. A pair is given up where no row that is tried with it is allowed.
    """
    open_pairs = {
        ((a, x), (b, y)): None for a, b in itertools.combinations(values, 2) for x in values[a] for y in values[b]
    }
    while open_pairs:
        pair = next(iter(open_pairs))
        row = _row(dict(pair), values, open_pairs, allowed)
        if row is None:
            del open_pairs[pair]
            continue
        yield row
        for met in itertools.combinations(((name, row[name]) for name in values), 2):
            open_pairs.pop(met, None)


def _row(
    start: Row, values: Mapping[str, Sequence[int]], open_pairs: Mapping[Any, None], allowed: Callable[[Row], bool]
) -> Row | None:
    """``start`` completed: for each further name the value that meets most others for the first time."""

    def gain(row: Row, name: str, value: int) -> int:
        ordered = [one for one in values if one in row or one == name]
        mine = {**row, name: value}
        pairs = itertools.combinations(((one, mine[one]) for one in ordered), 2)
        return sum(pair in open_pairs for pair in pairs)

    names = [name for name in values if name not in start]
    choices = []
    row = dict(start)
    for name in names:
        ranked = sorted(values[name], key=lambda value, name=name: -gain(row, name, value))  # type: ignore[misc]
        choices.append(ranked)
        row[name] = ranked[0]
    for chosen in itertools.islice(itertools.product(*choices), 64):
        row = {**start, **dict(zip(names, chosen, strict=True))}
        if allowed(row):
            return {name: row[name] for name in values}
    return None
