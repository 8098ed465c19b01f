"""Few rows in which every two values of different names meet."""

from __future__ import annotations

import itertools
import math

import pytest

from pytest_roofline.testing.pairs import pairwise

VALUES = {"B": (1, 3), "S": (1, 5, 8), "H": (1, 2, 3), "D": (64, 128), "V": (7, 9, 11)}


def met(rows, values):
    return {((a, row[a]), (b, row[b])) for row in rows for a, b in itertools.combinations(values, 2)}


def pairs(values):
    return {((a, x), (b, y)) for a, b in itertools.combinations(values, 2) for x in values[a] for y in values[b]}


def test_every_pair_meets_in_far_fewer_rows_than_all():
    """108 combinations of five names: every pair is met, in no more rows than a third of them, the same each time."""
    rows = [*pairwise(VALUES, lambda row: True)]
    assert met(rows, VALUES) == pairs(VALUES)
    assert len(rows) <= math.prod(map(len, VALUES.values())) // 6
    assert rows == [*pairwise(VALUES, lambda row: True)]


@pytest.mark.parametrize("most", [50, 500, 2000])
def test_a_pair_is_left_out_only_where_no_row_with_it_is_allowed(most):
    """With a bound on the product every row keeps it, and each pair that fits beside the least of the others is met."""

    def allowed(row):
        return math.prod(row.values()) <= most

    rows = [*pairwise(VALUES, allowed)]
    assert all(map(allowed, rows))
    least = {name: min(numbers) for name, numbers in VALUES.items()}
    possible = {pair for pair in pairs(VALUES) if allowed({**least, **dict(pair)})}
    assert met(rows, VALUES) == possible


def test_one_name_has_no_pairs():
    """Nothing to combine, nothing made."""
    assert [*pairwise({"N": (1, 2, 3)}, lambda row: True)] == []
