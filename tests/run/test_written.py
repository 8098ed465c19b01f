"""What a kernel wrote is known by what it did, not by the values that lie there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, Shape
from pytest_roofline.errors import StaticCheckError, WrongAnswerError
from pytest_roofline.run.run import SAMPLE_UNITS, check
from pytest_roofline.run.sample import CHECK_ALL
from pytest_roofline.run.static import check_accesses
from pytest_roofline.sim.device import SimDevice

MINUS = Operator(
    "minus",
    "y = -1",
    arrays=(Array("x", ("N",)), Array("y", ("N",), role="output", dtype="int32")),
    reference=lambda v: {"y": np.full(len(v.x), -1)},
)
MINUS_TEXT = """
extern "C" __global__ void minus(const float* x, int* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N CONDITION) y[i] = x[i] >= 0 ? -1 : 0;
}
"""
TWICE = Operator(
    "twice",
    "y = 2 x",
    arrays=(Array("x", ("N",)), Array("y", ("N",), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)
TWICE_TEXT = """
extern "C" __global__ void twice(float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * x[i];
    if (i == N - 7) x[i] = EVIL;
}
"""
COUNT = Operator(
    "count",
    "h[b] = how often b occurs in x",
    arrays=(
        Array("x", ("N",), dtype="uint8", high=16),
        Array("h", (16,), role="output", dtype="int32", initial=0),
    ),
    reference=lambda v: {"h": np.bincount(v.x, minlength=16)},
)
COUNT_TEXT = """
extern "C" __global__ void count(const unsigned char* x, int* h, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) COUNTED;
}
"""


class Forgetful(SimDevice):
    """A device that does not know what was written, as a GPU."""

    def written(self, array: object) -> None:
        return None


def launch(name: str, *args: str, **more: object) -> Launch:
    return Launch(name, args=args, grid=lambda s: -(-s.N // 128), block=128, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", [SimDevice, Forgetful])
def test_c90_a_value_that_was_never_written_is_not_right_by_chance(declared, built, device):
    """The poison 0xFF is the right -1, and one element is left as it was: found, by a second run on a GPU."""
    shape = Shape(N=300)
    right = declared(MINUS_TEXT.replace("CONDITION", ""), MINUS, launch("minus", "x", "y", "N"))
    assert check(device("h200"), built(right, shape)).values == 300
    wrong = declared(MINUS_TEXT.replace("CONDITION", "&& i != 17"), MINUS, launch("minus", "x", "y", "N"))
    with pytest.raises(WrongAnswerError, match=r"1 of 300 values of y were never written, the first is y\[17\]"):
        check(device("h200"), built(wrong, shape))


@pytest.mark.parametrize("size", [300, CHECK_ALL + 300, 128 * SAMPLE_UNITS + 300])
@pytest.mark.parametrize("evil", ["0", "x[i]"])
def test_c79_an_input_that_is_overwritten_is_found_at_any_size(declared, built, size, evil):
    """With another value, at one place far from what is compared; storing what was there changes nothing."""
    suite = declared(TWICE_TEXT.replace("EVIL", evil), TWICE, launch("twice", "x", "y", "N"))
    if evil == "x[i]":
        assert check(SimDevice("h200"), built(suite, Shape(N=size))).values > 0
        return
    with pytest.raises(WrongAnswerError, match=rf'changed its input x, first x\[{size - 7}\]; .* role="inout"'):
        check(SimDevice("h200"), built(suite, Shape(N=size)))


def test_c79_the_same_kernel_is_right_where_it_is_declared_in_place(declared, built):
    """With role="inout", and a reference that says what becomes of it."""
    x = dataclasses.replace(TWICE.arrays[0], role="inout")

    def reference(v):
        return {"x": np.where(np.arange(len(v.x)) == len(v.x) - 7, 0, v.x), "y": 2 * v.x}

    operator = dataclasses.replace(TWICE, arrays=(x, TWICE.arrays[1]), reference=reference, extents=())
    suite = declared(TWICE_TEXT.replace("EVIL", "0"), operator, launch("twice", "x", "y", "N"))
    assert check(SimDevice("h200"), built(suite, Shape(N=300))).values == 600


@pytest.mark.parametrize(
    ("counted", "right"),
    [
        ("atomicAdd(h + x[i], 1)", True),
        ("atomicExch(h + x[i], 1)", False),
        ("if (x[i] > 16) h[x[i]] = 1", False),
    ],
)
def test_c72_atomics_are_writes(declared, built, counted, right):
    """An output that only atomics write is written, for the static checks too; one in that nothing stores is not."""
    suite = declared(COUNT_TEXT.replace("COUNTED", counted), COUNT, launch("count", "x", "h", "N", vector=4))
    suite_widths = declared(
        COUNT_TEXT.replace("COUNTED", counted), COUNT, launch("count", "x", "h", "N", vector={"x": 1, "h": 4})
    )
    assert suite.variants[0].writes(suite.variants[0].launches[0]) == ("h",)
    made = built(suite_widths, Shape(N=300))
    check_accesses(made, made.launches[0])
    if right:
        assert check(SimDevice("h200"), made).values == 16
        return
    with pytest.raises(WrongAnswerError, match="values of h are wrong"):
        check(SimDevice("h200"), made)


def test_c72_no_store_at_all_is_found_without_running(declared, built):
    """No store and no atomic: the static check says that the output is not written."""
    text = COUNT_TEXT.replace("COUNTED", "if (h == nullptr && x[i] == 77) __trap()")
    made = built(declared(text, COUNT, launch("count", "x", "h", "N", vector={"h": 4})), Shape(N=300))
    with pytest.raises(StaticCheckError, match="0 global stores to h of 4 bytes"):
        check_accesses(made, made.launches[0])
