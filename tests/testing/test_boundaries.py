"""Boundaries follow from what a declaration says, whatever its extents mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_roofline import Array, Launch, Limit, Operator, Shape, Suite, Variant, ceil_div
from pytest_roofline.testing.boundaries import boundary_values, covered
from pytest_roofline.testing.shapes import base_shape, boundary_shapes, huge_shape, refused_shapes, typed_shapes

ROWS = Operator(
    "rows",
    "y = 2 x",
    arrays=(Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")),
    reference=lambda v: {"y": 2 * v.x},
    default=Shape(M=64, N=640),
)
HEADS = Operator(
    "heads",
    "o = q summed over positions",
    arrays=(Array("q", ("B", "S", "H", "D")), Array("o", ("B", "H", "D"), role="output")),
    reference=lambda v: {"o": v.q.sum(axis=1)},
    default=Shape(B=2, S=256, H=4, D=64),
)


def suite_of(operator, grid=1, *limits: Limit, block=64) -> Suite:
    """One variant, of which only shapes are asked."""
    launch = Launch("k", args=(*(a.name for a in operator.arrays), *operator.extents), grid=grid, block=block)
    return Suite((Variant("v1", operator, "k.cu", launch, limits=limits),))


def shapes(suite):
    return boundary_shapes(suite, suite.variants[0])


@pytest.mark.parametrize(
    ("grid", "M", "N"),
    [
        (lambda s: s.M, 1, 0),
        (lambda s: ceil_div(s.M, 4), 4, 0),
        (lambda s: max(1, s.M // 4), 4, 0),
        (lambda s: (ceil_div(s.N, 32), ceil_div(s.M, 48)), 48, 32),
        (lambda s: min(ceil_div(s.M * s.N, 256), 264), 32, 32),
        (132, 0, 0),
    ],
)
def test_what_a_block_covers_is_seen_from_the_grid(grid, M, N):
    """By how much an extent grows until there is one block more, beside 8 of the other; 0 where there never is."""
    suite = suite_of(ROWS, grid)
    base = base_shape(suite, suite.variants[0])
    assert base == Shape(M=8, N=8)
    assert [covered(suite.variants[0], base, name) for name in ("M", "N")] == [M, N]


def test_c76_each_remainder_of_what_a_block_covers_is_a_case():
    """Blocks of 48: 47, 48 and 49, the remainders 1, 2 and 3, and one past the second block."""
    suite = suite_of(ROWS, lambda s: ceil_div(s.M, 48))
    found = boundary_values(suite, suite.variants[0], Shape(M=8, N=8), "M")
    assert {47, 48, 49, 50, 51, 97} <= {*found}


def test_numbers_of_limits_are_cases_with_one_less_and_one_more():
    """M <= 17: 16, 17 run, 18 is refused; the default of an extent that is contiguous is a case."""
    suite = suite_of(ROWS, 1, Limit(lambda s: s.M <= 17, "few"))
    found = shapes(suite)
    assert {16, 17} <= {shape.M for shape in found}
    assert max(shape.M for shape in found) == 17
    assert 640 in {shape.N for shape in found}
    assert refused_shapes(suite, suite.variants[0]) == [Shape(M=18, N=8)]


def test_c73_a_limit_on_a_multiple_leaves_all_cases_of_the_other_extent():
    """N % 256 == 0: N = 256 and more beside every M, and 257 is refused."""
    suite = suite_of(ROWS, 1, Limit(lambda s: s.N % 256 == 0, "multiples"))
    found = shapes(suite)
    assert {shape.N for shape in found} >= {256, 512}
    assert {shape.M for shape in found} >= {1, 2, 3, 5, 7, 31, 33, 64}
    assert all(shape.N % 256 == 0 for shape in found)
    assert refused_shapes(suite, suite.variants[0]) == [Shape(M=8, N=257)]


def test_c74_a_limit_of_one_leaves_all_cases_of_the_other_extent():
    """M <= 1: every boundary of N, M = 2 is refused, and past 2^32 elements there is no case rather than an error."""
    suite = suite_of(ROWS, 1, Limit(lambda s: s.M <= 1, "flat"), block=256)
    found = shapes(suite)
    assert {shape.M for shape in found} == {1}
    assert {shape.N for shape in found} >= {1, 2, 3, 31, 32, 33, 255, 256, 257, 640, 1000, 1001}
    assert refused_shapes(suite, suite.variants[0]) == [Shape(M=2, N=8)]
    assert huge_shape(suite, suite.variants[0]) == Shape(M=1, N=2**32 + 9)


def test_conditions_over_several_extents_are_met_together():
    """S % 128 == 0 and D in (64, 128): both kinds of D, several S, and every other extent at its boundaries."""
    limits = (
        Limit(lambda s: s.S % 128 == 0, "whole tiles"),
        Limit(lambda s: s.D in (64, 128), "two widths"),
    )
    suite = suite_of(HEADS, lambda s: (s.H, s.B), *limits)
    found = shapes(suite)
    assert {shape.D for shape in found} == {64, 128}
    assert {shape.S for shape in found} >= {128, 256}
    for name in "BH":
        assert {shape[name] for shape in found} >= {1, 2, 3, 5, 7, 31, 33}
    assert {(1, 128), (5, 128)} <= {(shape.B, shape.D) for shape in found}
    broken = refused_shapes(suite, suite.variants[0])
    assert [suite.variants[0].broken_limit(shape) for shape in broken] == ["whole tiles", "two widths"]


def test_extents_that_must_fit_each_other_are_found():
    """M <= N: a case at M = 33 has another N than 8."""
    suite = suite_of(ROWS, 1, Limit(lambda s: s.M <= s.N, "no taller than wide"))
    found = shapes(suite)
    assert 33 in {shape.M for shape in found}
    assert all(shape.M <= shape.N for shape in found)


def test_a_limit_on_a_product_is_broken_by_growing():
    """M * N <= 5000 names no number of an extent: the refused shape is the first power of two that breaks it."""
    suite = suite_of(ROWS, 1, Limit(lambda s: s.M * s.N <= 5000, "in one block"))
    assert refused_shapes(suite, suite.variants[0]) == [Shape(M=1024, N=8)]
    assert all(shape.M * shape.N <= 5000 for shape in shapes(suite))


def test_the_extent_of_the_grid_is_the_one_that_grows():
    """Past 2^32 elements the rows are many where a block has a row, and wide where a block has a column."""
    by_row, by_column = (suite_of(ROWS, lambda s, n=n: s[n]) for n in ("M", "N"))
    assert huge_shape(by_row, by_row.variants[0]).N == 640
    assert huge_shape(by_column, by_column.variants[0]).M == 64


def test_a_grid_past_2_16_is_among_the_cases_where_it_is_quick():
    """65536 rows and more of a block each; not a row of 65536 that 64 threads would have to loop over."""
    suite = suite_of(ROWS, lambda s: s.M)
    found = shapes(suite)
    assert {shape.M for shape in found} >= {65536, 70000}
    assert max(shape.N for shape in found) < 65536


def test_a_declaration_that_runs_nothing_has_no_cases():
    """Limits that contradict each other: no shape is found, and nothing raises."""
    suite = suite_of(ROWS, 1, Limit(lambda s: s.M > 10, "many"), Limit(lambda s: s.M < 5, "few"))
    assert shapes(suite) == []
    assert huge_shape(suite, suite.variants[0]) is None
    assert refused_shapes(suite, suite.variants[0]) == []


def test_an_operator_without_extents_has_its_one_case():
    """Arrays of constant extents and of none: the one shape there is, no huge one, nothing refused."""
    operator = Operator(
        "norm",
        "s = |x|",
        arrays=(Array("x", (3,)), Array("s", (), role="output")),
        reference=lambda v: {"s": (v.x @ v.x) ** 0.5},
    )
    suite = suite_of(operator)
    assert shapes(suite) == [Shape()]
    assert huge_shape(suite, suite.variants[0]) is None
    assert refused_shapes(suite, suite.variants[0]) == []


def test_a_variant_of_narrow_types_alone_has_cases_of_those(shipped):
    """The first of its types has all boundaries, the others fewer; float32, which it does not run, none."""
    variant = replace(shipped.variant("s6"), dtypes=("bfloat16", "float16"), predictions=())
    suite = Suite((variant,), root=shipped.root)
    assert {shape.dtype for shape in boundary_shapes(suite, variant)} == {"bfloat16"}
    assert {shape.dtype for shape in typed_shapes(suite, variant)} == {"float16"}
    assert huge_shape(suite, variant).dtype == "bfloat16"


def test_an_extent_at_which_an_array_can_not_be_is_no_case():
    """dims of D // 2 elements: D = 1 has none, whether a limit says so or not."""
    operator = Operator(
        "halves",
        "y = first half of x",
        arrays=(Array("x", ("D",)), Array("y", (lambda s: s.D // 2,), role="output")),
        reference=lambda v: {"y": v.x[: v.D // 2]},
    )
    found = {shape.D for shape in shapes(suite_of(operator))}
    assert min(found) == 2
