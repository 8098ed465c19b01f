"""The cases drawn from the declaration are those that the specification asks for."""

from __future__ import annotations

import dataclasses

import pytest
from pytest_roofline.testing.rows import width_of

from pytest_roofline import Limit, Shape, Suite
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.testing.cases import PARAMETERS, boundary_columns, boundary_shapes, names_of, specimens

SCALAR_RUNGS = {31, 32, 33, 255, 256, 257, 8188, 8191, 8192, 8193}
FLOAT4_RUNGS = {4, 124, 128, 132, 1020, 1024, 1028}
CLUSTER_RUNGS = {2**19 - 4, 2**19 - 1, 2**19, 2**19 + 1}


def test_boundary_columns_hold_the_lists_of_the_specification(shipped):
    """Widths below, at and above a warp, a block and the limits of its family for every variant, and the float4 ones."""
    for variant in shipped.variants:
        scalar = SCALAR_RUNGS if variant.operator.name != "add_rmsnorm" else set()  # which has no scalar variant
        wanted = {1, 1000, variant.operator.default_shape.N} | scalar | FLOAT4_RUNGS | CLUSTER_RUNGS
        assert set(boundary_columns(shipped, variant)) >= wanted


def test_every_boundary_is_run_or_refused(shipped):
    """For each variant every boundary width is among the shapes that run, or breaks a limit; M = 64 at the default N.

    Two rows are enough of a row that is longer than 65536.
    """
    running = set(PARAMETERS["variant_shape"](shipped))
    for variant in shipped.variants:
        for columns in boundary_columns(shipped, variant):
            shape = Shape(M=8 if columns <= 65536 else 2, N=columns)
            assert (f"{variant.name}-{shape}" in running) == (not variant.broken_limit(shape))
        assert f"{variant.name}-64x{variant.operator.default_shape.N}" in running
        assert f"{variant.name}-64x1000" in running


def test_c22_row_counts_around_65536(shipped):
    """65536 and 70000 rows are among the shapes of every variant."""
    running = set(PARAMETERS["variant_shape"](shipped))
    for variant in shipped.variants:
        assert {f"{variant.name}-65536x36", f"{variant.name}-70000x36"} <= running


def test_huge_shapes_pass_2_31_elements(shipped):
    """Each variant has a shape past 2^31 elements that it runs."""
    huge = PARAMETERS["huge_shape"](shipped).values()
    assert {variant.name for variant, _ in huge} == {variant.name for variant in shipped.variants}
    for variant, shape in huge:
        assert shape.M * shape.N > 2**31
        assert not variant.broken_limit(shape)


def test_every_workload_shape_is_timed_or_refused(shipped):
    """A variant at a workload's shape is either timed or refused, never left out."""
    timed, refused = PARAMETERS["perf_case"](shipped), PARAMETERS["refused_perf_case"](shipped)
    assert {"s3-32x152064", "s4-32x152064"} <= set(refused)
    assert not set(timed) & set(refused)
    wanted = {
        f"{variant.name}-{shape}"
        for workload in shipped.workloads
        for name, shapes in workload.shapes.items()
        for shape in shapes
        for variant in shipped.family(shipped.operators[name])
    }
    assert set(timed) | set(refused) == wanted


def test_names_of_a_parametrize_mark():
    """A string of names and a sequence are read alike."""
    assert names_of("a, b") == names_of(("a", "b")) == ["a", "b"]


def changed(shipped, dtype: str = "float32", vector: int = 4, limits: tuple[Limit, ...] = ()):
    """A suite of s3 alone, with another dtype, access width and limits."""
    variant = shipped.variant("s3")
    arrays = {name: dataclasses.replace(array, dtype=dtype) for name, array in variant.arrays.items()}
    operator = dataclasses.replace(variant.operator, inputs=(arrays["x"],), outputs=(arrays["y"],))
    launch = dataclasses.replace(variant.launches[0], vector=vector)
    return Suite((dataclasses.replace(variant, operator=operator, launches=(launch,), limits=limits),), ())


def test_boundaries_count_elements_of_the_dtype(shipped):
    """16-byte accesses of float16 are 8 elements, 2-byte ones 1: a warp's width is 256 and 32 elements."""
    for vector, elements in ((16, 8), (2, 1)):
        suite = changed(shipped, "float16", vector)
        found = set(boundary_columns(suite, suite.variants[0]))
        assert {elements, 31 * elements, 32 * elements, 33 * elements, 256 * elements} <= found


def test_a_huge_shape_keeps_the_limits(shipped):
    """A multiple of 3 is kept in a huge shape; a variant that may not have so many rows has none."""
    suite = changed(shipped, limits=(Limit("N", "threes", at_most=8192, multiple_of=3),))
    ((variant, shape),) = PARAMETERS["huge_shape"](suite).values()
    assert shape.N == 8190
    assert not variant.broken_limit(shape)
    assert PARAMETERS["huge_shape"](changed(shipped, limits=(Limit("M", "few", at_most=65535),))) == {}


def test_a_limit_that_no_shape_can_break_has_no_refused_case(shipped):
    """A limit at the largest int is not tested from above, for there is no such shape."""
    assert PARAMETERS["refused_shape"](changed(shipped, limits=(Limit("N", "int", at_most=2**31 - 1),))) == {}


def test_other_types_have_rows_of_every_width_and_long_ones(shipped):
    """A variant of several types runs each of them at widths of 8, 4, 2 and 1 elements, and at a row past 65536."""
    for variant in shipped.variants:
        for dtype in variant.dtypes[1:]:
            found = {shape.N for shape in boundary_shapes(shipped, variant) if shape.dtype == dtype}
            assert {width_of(Shape(M=1, N=n, dtype=dtype)) for n in found} == {8, 4, 2, 1}
            assert max(found) > 65536
    only = boundary_shapes(shipped, shipped.variant("n3"))
    assert {shape.dtype for shape in only} == {"float32"}


@pytest.mark.parametrize("name", ["h200", "rtx4090", "t4"])
def test_specimens_are_each_way_of_compiling_once_and_run_on_the_gpu(shipped, name):
    """All are compiled differently, within limits and what the gpu has; the usual shape comes first."""
    for variant in shipped.variants:
        found = specimens(shipped, variant, gpu(name))
        ways = [tuple(launch.defines for launch in fixed.launches) for fixed, _ in found]
        assert len(set(ways)) == len(ways)
        for fixed, shape in found:
            assert fixed == variant.at(shape, gpu(name))
            shipped.require(variant, shape, gpu(name))
        assert bool(found) == (gpu(name).capability >= variant.capability)
        assert not found or found[0][1] == variant.operator.default_shape


def test_specimens_hold_types_widths_and_clusters(shipped):
    """Of n8 on an H200: three types, the widest vectors and single elements, one block and several; else one alone."""
    macros = [
        dict(fixed.launches[0].defines) for fixed, _ in specimens(shipped, shipped.variant("n8"), gpu_named("h200"))
    ]
    assert {one["ELEMENT"] for one in macros} == {"float32", "float16", "bfloat16"}
    assert {one["WIDTH"] for one in macros} == {"8", "4", "2", "1"}
    assert {"1", "2"} <= {one["CLUSTER"] for one in macros}
    macros = [
        dict(fixed.launches[0].defines) for fixed, _ in specimens(shipped, shipped.variant("n8"), gpu_named("rtx4090"))
    ]
    assert {one["CLUSTER"] for one in macros} == {"1"}
    assert len(specimens(shipped, shipped.variant("n2"), gpu_named("h200"))) == 1
