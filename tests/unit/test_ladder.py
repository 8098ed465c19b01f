"""Shapes, ledgers and limits."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from pytest_roofline.errors import RefusedError, UnknownNameError
from pytest_roofline.ladder import Array, Ladder, Launch, Limit, Shape
from pytest_roofline.launch import INT32_MAX

LEDGER = {"n1": 12, "n2": 12, "n3": 8, "n4": 8, "n5": 8, "n6": 8, "n7": 8, "n8": 8} | {
    "s1": 16, "s2": 12, "s3": 8, "s4": 8, "s5": 8, "s6": 8, "s7": 8, "s8": 8, "s9": 8, "a1": 20, "a2": 16
}  # fmt: skip
WIDE = Shape(32, 152064)  # a vocabulary


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
        Shape(M, N)


def test_c21_the_smallest_and_largest_shape() -> None:
    """One row of one column is a shape, and so is the largest of both."""
    assert str(Shape(1, 1)) == "1x1"
    assert Shape(INT32_MAX, INT32_MAX).M == INT32_MAX


@pytest.mark.parametrize(("name", "per_element"), LEDGER.items())
def test_ledger_bytes(ladder: Ladder, name: str, per_element: int) -> None:
    """A row costs so many bytes an element of float32, half of it in 16 bits; weight and row values are not in it."""
    rung = ladder.rung(name)
    for shape in (Shape(8192, 3584), Shape(1, 1), Shape(3, 1000)):
        assert rung.ledger_bytes(shape) == per_element * shape.M * shape.N
        assert rung.ledger_per_row(shape) == per_element
        assert rung.footprint_bytes(shape) == (8 if name[0] != "a" else 16) * shape.M * shape.N
        half = dataclasses.replace(shape, dtype="bfloat16")
        assert 2 * rung.ledger_bytes(half) == rung.ledger_bytes(shape)
        assert 2 * rung.footprint_bytes(half) == rung.footprint_bytes(shape)


def test_ledger_in_words(ladder: Ladder) -> None:
    """The ledger is the sum over the launches, and says what each reads and writes."""
    assert ladder.rung("n2").ledger_words() == "rms_n2 reads x, reads x, writes y"
    assert ladder.rung("s2").ledger_words() == "sm_s2_ms reads x; sm_s1_div reads x, writes y"


def test_ideal_speed_ups_by_the_ledger(ladder: Ladder) -> None:
    """The ledger's ratios are those of the ladder: n1 to n3 1.5, s1 to s2 1.33, s1 to s3 2, n1 to n2 1."""
    shape = Shape(8, 512)
    ledger = {rung.name: rung.ledger_bytes(shape) for rung in ladder.rungs}
    ratios = [ledger[a] / ledger[b] for a, b in (("n1", "n3"), ("s1", "s2"), ("s1", "s3"), ("n1", "n2"), ("n3", "n4"))]
    assert ratios == pytest.approx([1.5, 4 / 3, 2.0, 1.0, 1.0])


@pytest.mark.parametrize("name", ["s3", "s4"])
def test_a_row_that_is_too_long_is_refused(ladder: Ladder, name: str) -> None:
    """152064 columns are refused with rung, limit, value, reason, and the rungs that run them."""
    with pytest.raises(RefusedError) as raised:
        ladder.require(ladder.rung(name), WIDE)
    said = str(raised.value)
    assert said.startswith(f"{name} can't run 32x152064, nothing was launched: N = 152064, allowed is N <= 8192 (")
    assert "registers" in said
    assert "attention kernels work in tiles" in said
    assert said.endswith("Rungs of softmax that run it: s1, s2, s8, s9.")


@pytest.mark.parametrize("name", ["n4", "s4", "n5", "s5"])
@pytest.mark.parametrize("columns", [1, 31, 33, 255, 257, 8191])
def test_columns_that_are_no_multiple_of_four_are_refused(ladder: Ladder, name: str, columns: int) -> None:
    """A float4 rung refuses a row that is not made of whole float4."""
    with pytest.raises(RefusedError, match=rf"N = {columns}, allowed is N % 4 == 0 \(.*float4"):
        ladder.require(ladder.rung(name), Shape(2, columns))


def test_which_rungs_run_which_columns(ladder: Ladder) -> None:
    """The limits let each rung run exactly the columns that it can."""
    able = {
        columns: " ".join(name for name in LEDGER if ladder.rung(name).broken_limit(Shape(2, columns)) is None)
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
    for rung in ladder.rungs:
        if rung.name in able[152064].split():
            ladder.require(rung, WIDE)


def test_a_shape_that_no_rung_runs(ladder: Ladder) -> None:
    """Where no rung can help, the refusal says so."""
    with pytest.raises(RefusedError, match=r"can't run 1x2147483647.*No rung runs it\.$"):
        ladder.require(ladder.rung("n1"), Shape(1, INT32_MAX))


def test_limits() -> None:
    """A limit holds up to its bound and on multiples, and says both."""
    limit = Limit("M", "because", at_most=12, multiple_of=4)
    assert [m for m in range(1, 20) if limit.holds(Shape(m, 1))] == [4, 8, 12]
    assert str(limit) == "M <= 12 and M % 4 == 0"
    assert str(Limit("N", "because", multiple_of=4)) == "N % 4 == 0"


def test_unknown_rung_lists_the_rungs(ladder: Ladder) -> None:
    """A rung that does not exist is an error that lists those that do."""
    with pytest.raises(UnknownNameError, match=r"no rung 'none'; the ladder has n1, n2, .*a2"):
        ladder.rung("none")


def test_families_and_baselines(ladder: Ladder) -> None:
    """The first rung of an operator is the baseline of all of its family."""
    for rung in ladder.rungs:
        family = ladder.family(rung.operator)
        assert rung in family
        assert ladder.baseline(rung) is family[0]
    assert ladder.baseline(ladder.rung("n4")).name == "n1"
    assert ladder.baseline(ladder.rung("s4")).name == "s1"


def test_a_reused_kernel_names_its_source(ladder: Ladder) -> None:
    """s2 takes its last kernel from s1's file, and both files are among its sources, once each."""
    assert ladder.rung("s2").sources() == ("softmax/s2_online.cu", "softmax/s1_three_kernels.cu")
    assert ladder.rung("s1").sources() == ("softmax/s1_three_kernels.cu",)


def test_arrays_have_shapes_and_bytes() -> None:
    """An array's extents and bytes follow from its dims and dtype."""
    shape = Shape(3, 5)
    assert Array("x", ("M", "N")).shape(shape) == (3, 5)
    assert Array("x", ("M", "N"), dtype="float64").nbytes(shape) == 120
    assert (Array("w", ("N",)).nbytes(shape), Array("r", ("M",)).nbytes(shape)) == (20, 12)
    assert [Array("x", dims).by_row for dims in (("M", "N"), ("M",), ("N",))] == [True, True, False]


def test_a_launch_has_one_block_a_row_by_default() -> None:
    """A launch is one block of 256 threads a row unless it says otherwise."""
    launch = Launch("k", ("x",), ("x",), ())
    assert (launch.grid(Shape(70000, 8)), launch.threads) == ((70000, 1, 1), 256)
    assert dataclasses.replace(launch, block=(32, 4, 2)).threads == 256


@pytest.mark.parametrize("value", [2.5, True, "4", None, np.int64(4)])
def test_a_shape_takes_python_ints_only(value: object) -> None:
    """A float, a bool, text, None and a NumPy scalar are refused by name and value."""
    with pytest.raises(RefusedError, match=r"M = .* is refused"):
        Shape(value, 4)  # type: ignore[arg-type]
