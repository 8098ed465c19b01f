"""The shipped suite: bytes moved, limits, refusals, families."""

from __future__ import annotations

import pytest

from pytest_roofline import Array, Shape, Suite
from pytest_roofline.errors import RefusedError, UnknownNameError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan

H200, INT32_MAX = gpu_named("h200"), 2**31 - 1
MOVED = {"n1": 12, "n2": 12, "n3": 8, "n4": 8, "n5": 8, "n6": 8, "n7": 8, "n8": 8} | {
    "s1": 16, "s2": 12, "s3": 8, "s4": 8, "s5": 8, "s6": 8, "s7": 8, "s8": 8, "s9": 8, "a1": 20, "a2": 16
}  # fmt: skip
WIDE = Shape(M=32, N=152064)  # a vocabulary


def plan(suite: Suite, name: str, shape: Shape) -> Plan:
    return Plan(Case(suite.variant(name), shape, suite), H200)


@pytest.mark.parametrize(("name", "per_element"), MOVED.items())
def test_bytes_moved(suite: Suite, name: str, per_element: int) -> None:
    """An element of float32 costs so many bytes, half of it in 16 bits; weight and row values are not counted."""
    for shape in (Shape(M=8192, N=3584), Shape(M=1, N=4), Shape(M=3, N=1000)):
        whole = plan(suite, name, shape)
        assert whole.bytes_moved == per_element * shape.M * shape.N
        assert whole.bytes_moved == per_element * whole.elements
        assert whole.footprint == (8 if name[0] != "a" else 16) * shape.M * shape.N
        if "bfloat16" in suite.variant(name).dtypes:
            half = plan(suite, name, shape.replace(dtype="bfloat16"))
            assert 2 * half.bytes_moved == whole.bytes_moved
            assert 2 * half.footprint == whole.footprint


def test_bytes_moved_in_words(suite: Suite) -> None:
    """They are the sum over the launches, and say what each reads and writes."""
    shape = Shape(M=2, N=8)
    assert plan(suite, "n2", shape).moved_words() == "rms_n2 reads x, reads x, writes y"
    assert plan(suite, "s2", shape).moved_words() == "sm_s2_ms reads x; sm_s1_div reads x, writes y"


def test_ideal_speed_ups_by_bytes(suite: Suite) -> None:
    """Ratios of bytes are those of the suite: n1 to n3 1.5, s1 to s2 1.33, s1 to s3 2, n1 to n2 1."""
    moved = {variant.name: plan(suite, variant.name, Shape(M=8, N=512)).bytes_moved for variant in suite}
    ratios = [moved[a] / moved[b] for a, b in (("n1", "n3"), ("s1", "s2"), ("s1", "s3"), ("n1", "n2"), ("n3", "n4"))]
    assert ratios == pytest.approx([1.5, 4 / 3, 2.0, 1.0, 1.0])


@pytest.mark.parametrize("name", ["s3", "s4"])
def test_a_row_that_is_too_long_is_refused(suite: Suite, name: str) -> None:
    """152064 columns are refused with variant, limit, value, reason, and the variants that run them."""
    with pytest.raises(RefusedError) as raised:
        Case(suite.variant(name), WIDE, suite)
    said = str(raised.value)
    assert said.startswith(f"{name} can't run 32x152064 (M = 32, N = 152064), nothing was launched: N <= 8192: ")
    assert "registers" in said
    assert "attention kernels work in tiles" in said
    assert said.endswith("Variants of softmax that run it: s1, s2, s8, s9")


@pytest.mark.parametrize("name", ["n4", "s4", "n5", "s5"])
@pytest.mark.parametrize("columns", [1, 31, 33, 255, 257, 8191])
def test_columns_that_are_no_multiple_of_four_are_refused(suite: Suite, name: str, columns: int) -> None:
    """A float4 variant refuses a row that is not made of whole float4."""
    with pytest.raises(RefusedError, match=rf"N = {columns}\), nothing was launched: N % 4 == 0: .*float4"):
        Case(suite.variant(name), Shape(M=2, N=columns), suite)


def test_which_variants_run_which_columns(suite: Suite) -> None:
    """The limits let each variant run exactly the columns that it can."""
    able = {
        columns: " ".join(name for name in MOVED if not suite.variant(name).broken_limit(Shape(M=2, N=columns)))
        for columns in (4, 1000, 1001, 8188, 8191, 8192, 8193, 8196, 152064, 2**18 + 1, 2**19 + 1)
    }
    every, scalar = " ".join(MOVED), "n1 n2 n3 n6 n7 n8 s1 s2 s3 s6 s7 s8 s9 a1 a2"
    assert able == {
        4: every,
        1000: every,
        1001: scalar,
        8188: every,
        8191: scalar,
        8192: every,
        8193: "n1 n2 n8 s1 s2 s8 s9 a1 a2",
        8196: "n1 n2 n8 s1 s2 s8 s9 a1 a2",
        152064: "n1 n2 n8 s1 s2 s8 s9 a1 a2",
        2**18 + 1: "n1 n2 n8 s1 s2 s8 s9 a1",
        2**19 + 1: "n1 n2 s1 s2",
    }
    for name in able[152064].split():
        assert plan(suite, name, WIDE).launches


def test_a_shape_that_no_variant_runs(suite: Suite) -> None:
    """Where no variant can help, the refusal says so."""
    with pytest.raises(RefusedError, match=r"can't run 1x2147483647.*No variant runs it$"):
        Case(suite.variant("n1"), Shape(M=1, N=INT32_MAX), suite)


def test_a_grid_has_fewer_than_2_31_blocks(suite: Suite) -> None:
    """More rows than a grid has blocks are refused when the case is planned, with the grid and what is allowed."""
    with pytest.raises(RefusedError, match=r"rms_n3 is refused, nothing was launched: .*2147483648"):
        plan(suite, "n3", Shape(M=INT32_MAX + 1, N=8))
    assert plan(suite, "n3", Shape(M=INT32_MAX, N=8)).launches[0].blocks == INT32_MAX


def test_unknown_variant_lists_the_variants(suite: Suite) -> None:
    """A variant that does not exist is an error that lists those that do."""
    with pytest.raises(UnknownNameError, match=r"no variant 'none'; the suite has n1, n2, .*a2"):
        suite.variant("none")


def test_families_and_baselines(suite: Suite) -> None:
    """The first variant of an operator is the baseline of all of its family."""
    for variant in suite:
        family = suite.family(variant.operator)
        assert variant in family
        assert suite.baseline(variant) is family[0]
    assert suite.baseline(suite.variant("n4")).name == "n1"
    assert suite.baseline(suite.variant("s4")).name == "s1"


def test_a_reused_kernel_names_its_source(suite: Suite) -> None:
    """s2 takes its last kernel from s1's file, and both files are among its sources, once each."""
    assert suite.variant("s2").sources() == ("softmax/s2_online.cu", "softmax/s1_three_kernels.cu")
    assert suite.variant("s1").sources() == ("softmax/s1_three_kernels.cu",)


def test_arrays_have_shapes_and_bytes() -> None:
    """An array's extents and bytes follow from its dims and dtype."""
    shape = Shape(M=3, N=5)
    assert Array("x", ("M", "N")).shape(shape) == (3, 5)
    assert Array("x", ("M", 4, lambda s: s.N // 2)).shape(shape) == (3, 4, 2)
    assert Array("x", ("M", "N"), dtype="float64").nbytes(shape) == 120
    assert (Array("w", ("N",)).nbytes(shape), Array("r", ("M",)).nbytes(shape), Array("s").nbytes(shape)) == (20, 12, 4)
    assert Array("x", ("M", "N")).nbytes(shape.replace(dtype="float16")) == 30


def test_a_launch_has_the_grid_that_it_declares(suite: Suite) -> None:
    """n3 is one block of 256 threads a row; blocks and threads are products of the grid and the block."""
    (launch,) = plan(suite, "n3", Shape(M=70000, N=8)).launches
    assert (launch.grid, launch.block, launch.blocks, launch.threads) == ((70000, 1, 1), (256, 1, 1), 70000, 256)
