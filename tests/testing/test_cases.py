"""The cases drawn from the shipped declaration are those that the specification asks for."""

from __future__ import annotations

import math

import pytest

from pytest_roofline import Shape
from pytest_roofline.testing.cases import PARAMETERS, answer_cases, huge_cases, names_of, sanitize_cases
from pytest_roofline.testing.shapes import LARGE, LONG_ELEMENTS, SAMPLED_ELEMENTS, boundary_shapes, largest

SCALAR = frozenset({1, 31, 32, 33, 255, 256, 257, 1000, 8188, 8191, 8192, 8193})
FLOAT4 = frozenset({4, 124, 128, 132, 1000, 1020, 1024, 1028})
CLUSTER = frozenset({2**19 - 4, 2**19 - 1, 2**19, 2**19 + 1})
MOST_CASES = 60  # of a variant in one type


def widths(suite, variant) -> set[int]:
    return {shape.N for shape in boundary_shapes(suite, variant)}


def runs(variant, numbers: frozenset[int]) -> set[int]:
    """Those of the widths that its limits allow."""
    return {n for n in numbers if not variant.broken_limit(Shape(M=1, N=n))}


def test_widths_are_those_of_the_specification(shipped):
    """Below, at and above a warp, a block and the limits in every variant that may run them; float4 ones beside."""
    for variant in shipped:
        wanted = SCALAR if shipped.baseline(variant).launches[0].vector == 4 else SCALAR - {8188, 8191, 8192, 8193}
        if any(launch.vector == 16 for launch in variant.launches):
            wanted |= FLOAT4
        if variant.name in ("n8", "s8", "s9", "a1"):
            wanted |= CLUSTER
        assert widths(shipped, variant) >= runs(variant, wanted), variant.name
        assert variant.operator.default.N in widths(shipped, variant)


def test_rows_are_those_of_the_specification(shipped):
    """One row and 64 at the default width, an odd number, and past 65535 (C22)."""
    for variant in shipped:
        found = {(shape.M, shape.N) for shape in boundary_shapes(shipped, variant)}
        default = variant.operator.default.N
        assert found >= {(1, default), (64, default)}
        assert {m for m, _ in found} >= {1, 2, 3, 5, 7, 31, 33, *LARGE}


def test_cases_are_bounded(shipped):
    """Each is allowed, is there once, and is small, but for those of which some blocks are run."""
    for variant in shipped:
        shapes = boundary_shapes(shipped, variant)
        assert len({*shapes}) == len(shapes) <= MOST_CASES
        for shape in shapes:
            assert not variant.broken_limit(shape)
            large = max(shape.extents.values()) in LARGE
            assert largest(variant, shape) <= (SAMPLED_ELEMENTS if large else LONG_ELEMENTS)


def test_ids_are_short_and_say_the_shape(shipped):
    """The variant, its extents, and its type where that is not float32."""
    found = answer_cases(shipped)
    assert {"n3-8x1000", "s9-1x524288", "n6-8x1002-bfloat16"} <= {*found}
    assert all(case.id == name for name, case in found.items())


def test_further_types_are_run_at_every_width_of_a_vector(shipped):
    """Rows of each alignment, 8, 4, 2 and 1 narrow elements, a row past 65536 where rows may be that long."""
    for variant in shipped:
        found = [case.shape for case in answer_cases(shipped).values() if case.variant is variant]
        assert {shape.dtype for shape in found} == {*variant.dtypes}
        for dtype in variant.dtypes[1:]:
            typed = [shape.N for shape in found if shape.dtype == dtype]
            assert {math.gcd(n, 8) for n in typed} == {1, 2, 4, 8}
            assert max(typed) > 65536 or variant.broken_limit(Shape(M=1, N=65537, dtype=dtype))


def test_huge_cases_are_past_2_32_elements(shipped):
    """Each variant has one that it runs."""
    huge = huge_cases(shipped).values()
    assert [case.variant.name for case in huge] == [variant.name for variant in shipped]
    assert all(case.shape.M * case.shape.N > 2**32 for case in huge)


def test_each_limit_has_a_refused_shape(shipped):
    """It breaks that limit and none before it: one step past a number that the limit names."""
    refused = PARAMETERS["refused_case"](shipped)
    assert {"n4-8x5", "n4-8x8193", "n8-8x524289", "n8-134217728x8", "n1-8x2147483392"} <= {*refused}
    for variant in shipped:
        reasons = [one.broken_limit(shape) for one, shape in refused.values() if one is variant]
        assert {*reasons} == {limit.reason for limit in variant.limits}


def test_every_workload_shape_is_timed_or_refused(shipped):
    """A variant at a workload's shape is either timed or refused, never left out."""
    timed, refused = PARAMETERS["perf_case"](shipped), PARAMETERS["refused_perf_case"](shipped)
    assert {"s3-32x152064", "s4-32x152064"} <= {*refused}
    assert not {*timed} & {*refused}
    wanted = {
        f"{variant.name}-{shape}"
        for variant in shipped
        for name in shipped.workloads
        for shape in shipped.workload(name, variant.operator)
    }
    assert {*timed, *refused} == wanted


def test_sanitized_cases_are_small_and_ragged(shipped):
    """One for each variant: a few rows of 1000."""
    found = sanitize_cases(shipped)
    assert {*found} == {f"{variant.name}-8x1000" for variant in shipped}


@pytest.mark.parametrize("names", ["a, b", ("a", "b"), ["a", "b"]])
def test_names_of_a_parametrize_mark(names):
    """A string of names and a sequence are read alike."""
    assert names_of(names) == ["a", "b"]
