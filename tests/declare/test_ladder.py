"""Shapes, ledgers and limits."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Limit, Shape, Suite
from pytest_roofline.declare.launch import INT32_MAX
from pytest_roofline.errors import RefusedError, UnknownNameError

LEDGER = {"n1": 12, "n2": 12, "n3": 8, "n4": 8, "n5": 8, "n6": 8, "n7": 8, "n8": 8} | {
    "s1": 16, "s2": 12, "s3": 8, "s4": 8, "s5": 8, "s6": 8, "s7": 8, "s8": 8, "s9": 8, "a1": 20, "a2": 16
}  # fmt: skip
WIDE = Shape(M=32, N=152064)  # a vocabulary


@pytest.mark.parametrize(
    ("M", "N", "said"),
    [
        (0, 7168, "M = 0 is refused, nothing was launched"),
        (4, 0, "N = 0 is refused, nothing was launched"),
        (-1, 8, "M = -1 is refused"),
        (8, -3584, "N = -3584 is refused"),
        (INT32_MAX + 1, 8, f"needs 1 <= M <= {INT32_MAX}"),
        (8, INT32_MAX + 1, f"needs 1 <= N <= {INT32_MAX}"),
    ],
)
def test_c21_empty_and_impossible_shapes(M: int, N: int, said: str) -> None:
    """A shape without rows or columns, or beyond 32 bits, can't even be made."""
    with pytest.raises(RefusedError, match=re.escape(said)):
        Shape(M=M, N=N)


def test_c21_the_smallest_and_largest_shape() -> None:
    """One row of one column is a shape, and so is the largest of both."""
    assert str(Shape(M=1, N=1)) == "1x1"
    assert Shape(M=INT32_MAX, N=INT32_MAX).M == INT32_MAX


@pytest.mark.parametrize(("name", "per_element"), LEDGER.items())
def test_ledger_bytes(suite: Suite, name: str, per_element: int) -> None:
    """A row costs so many bytes an element of float32, half of it in 16 bits; weight and row values are not in it."""
    variant = suite.variant(name)
    for shape in (Shape(M=8192, N=3584), Shape(M=1, N=1), Shape(M=3, N=1000)):
        assert variant.ledger_bytes(shape) == per_element * shape.M * shape.N
        assert variant.ledger_per_row(shape) == per_element
        assert variant.footprint_bytes(shape) == (8 if name[0] != "a" else 16) * shape.M * shape.N
        half = dataclasses.replace(shape, dtype="bfloat16")
        assert 2 * variant.ledger_bytes(half) == variant.ledger_bytes(shape)
        assert 2 * variant.footprint_bytes(half) == variant.footprint_bytes(shape)


def test_ledger_in_words(suite: Suite) -> None:
    """The ledger is the sum over the launches, and says what each reads and writes."""
    assert suite.variant("n2").ledger_words() == "rms_n2 reads x, reads x, writes y"
    assert suite.variant("s2").ledger_words() == "sm_s2_ms reads x; sm_s1_div reads x, writes y"


def test_ideal_speed_ups_by_the_ledger(suite: Suite) -> None:
    """The ledger's ratios are those of the suite: n1 to n3 1.5, s1 to s2 1.33, s1 to s3 2, n1 to n2 1."""
    shape = Shape(M=8, N=512)
    ledger = {variant.name: variant.ledger_bytes(shape) for variant in suite.variants}
    ratios = [ledger[a] / ledger[b] for a, b in (("n1", "n3"), ("s1", "s2"), ("s1", "s3"), ("n1", "n2"), ("n3", "n4"))]
    assert ratios == pytest.approx([1.5, 4 / 3, 2.0, 1.0, 1.0])


@pytest.mark.parametrize("name", ["s3", "s4"])
def test_a_row_that_is_too_long_is_refused(suite: Suite, name: str) -> None:
    """152064 columns are refused with variant, limit, value, reason, and the variants that run them."""
    with pytest.raises(RefusedError) as raised:
        suite.require(suite.variant(name), WIDE)
    said = str(raised.value)
    assert said.startswith(f"{name} can't run 32x152064, nothing was launched: N = 152064, allowed is N <= 8192 (")
    assert "registers" in said
    assert "attention kernels work in tiles" in said
    assert said.endswith("Rungs of softmax that run it: s1, s2, s8, s9.")


@pytest.mark.parametrize("name", ["n4", "s4", "n5", "s5"])
@pytest.mark.parametrize("columns", [1, 31, 33, 255, 257, 8191])
def test_columns_that_are_no_multiple_of_four_are_refused(suite: Suite, name: str, columns: int) -> None:
    """A float4 variant refuses a row that is not made of whole float4."""
    with pytest.raises(RefusedError, match=rf"N = {columns}, allowed is N % 4 == 0 \(.*float4"):
        suite.require(suite.variant(name), Shape(M=2, N=columns))


def test_which_variants_run_which_columns(suite: Suite) -> None:
    """The limits let each variant run exactly the columns that it can."""
    able = {
        columns: " ".join(name for name in LEDGER if suite.variant(name).broken_limit(Shape(M=2, N=columns)) is None)
        for columns in (4, 1000, 1001, 8188, 8191, 8192, 8193, 8196, 152064, 2**18 + 1, 2**19 + 1)
    }
    every, scalar = " ".join(LEDGER), "n1 n2 n3 n6 n7 n8 s1 s2 s3 s6 s7 s8 s9 a1 a2"
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
    for variant in suite.variants:
        if variant.name in able[152064].split():
            suite.require(variant, WIDE)


def test_a_shape_that_no_variant_runs(suite: Suite) -> None:
    """Where no variant can help, the refusal says so."""
    with pytest.raises(RefusedError, match=r"can't run 1x2147483647.*No variant runs it\.$"):
        suite.require(suite.variant("n1"), Shape(M=1, N=INT32_MAX))


def test_limits() -> None:
    """A limit holds up to its bound and on multiples, and says both."""
    limit = Limit("M", "because", at_most=12, multiple_of=4)
    assert [m for m in range(1, 20) if limit.holds(Shape(M=m, N=1))] == [4, 8, 12]
    assert str(limit) == "M <= 12 and M % 4 == 0"
    assert str(Limit("N", "because", multiple_of=4)) == "N % 4 == 0"


def test_unknown_variant_lists_the_variants(suite: Suite) -> None:
    """A variant that does not exist is an error that lists those that do."""
    with pytest.raises(UnknownNameError, match=r"no variant 'none'; the suite has n1, n2, .*a2"):
        suite.variant("none")


def test_families_and_baselines(suite: Suite) -> None:
    """The first variant of an operator is the baseline of all of its family."""
    for variant in suite.variants:
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
    assert Array("x", ("M", "N"), dtype="float64").nbytes(shape) == 120
    assert (Array("w", ("N",)).nbytes(shape), Array("r", ("M",)).nbytes(shape)) == (20, 12)
    assert [Array("x", dims).by_row for dims in (("M", "N"), ("M",), ("N",))] == [True, True, False]


def test_a_launch_has_one_block_a_row_by_default() -> None:
    """A launch is one block of 256 threads a row unless it says otherwise."""
    launch = Launch("k", ("x",), ("x",), ())
    assert (launch.grid(Shape(M=70000, N=8)), launch.threads) == ((70000, 1, 1), 256)
    assert dataclasses.replace(launch, block=(32, 4, 2)).threads == 256


@pytest.mark.parametrize("value", [2.5, True, "4", None, np.int64(4)])
def test_a_shape_takes_python_ints_only(value: object) -> None:
    """A float, a bool, text, None and a NumPy scalar are refused by name and value."""
    with pytest.raises(RefusedError, match=r"M = .* is refused"):
        Shape(M=value, N=4)  # type: ignore[arg-type]
