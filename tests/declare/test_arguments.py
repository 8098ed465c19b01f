"""Bounds of inputs and arguments of launches: what is taken, and what is an error of the declaration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_roofline import NULL, Array, Launch, Operator, Shape
from pytest_roofline.declare.values import make_inputs
from pytest_roofline.errors import DeclarationError
from pytest_roofline.run.run import check
from pytest_roofline.sim.device import SimDevice

BIAS = """
extern "C" __global__ void add(const float* x, const float* bias, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = x[i] + (bias ? bias[i] : 1.0f);
}
"""


def rows(**index: object) -> Operator:
    return Operator(
        "rows",
        "y = table[i]",
        arrays=(
            Array("table", ("N",)),
            Array("i", ("M",), **index),  # type: ignore[arg-type]
            Array("y", ("M",), role="output"),
        ),
        reference=lambda v: {"y": v.table[v.i.astype(int)]},
    )


@pytest.mark.parametrize(
    ("index", "low", "high"),
    [
        ({"high": "N"}, 0, 50),
        ({"dtype": "int32", "high": "N"}, 0, 49),
        ({"dtype": "int64", "low": 1, "high": lambda s: s.N // 2 + 1}, 1, 25),
        ({"dtype": "int32", "low": lambda s: s.N - 1, "high": "N"}, 49, 49),
    ],
)
def test_c92_a_bound_is_a_number_an_extent_or_a_function(index, low, high):
    """Whatever the type, contents lie in [low, high) of the shape, and reach near both ends."""
    (values,) = (make_inputs(rows(**index), Shape(N=50, M=2000))["i"].full(),)
    assert low <= values.min() <= low + 1
    assert high - 1 <= values.max() <= high


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ({"high": "K"}, "bounds array 'i' by 'K'; its extents are N, M"),
        ({"high": None}, "array 'i' has high = None; a bound is a number, the name of an extent or a function"),
        ({"high": True}, "array 'i' has high = True; a bound is"),
        ({"low": math.nan}, "array 'i' has low = nan; a bound is finite"),
        ({"low": 2, "high": 2}, "array 'i' has values in"),
    ],
)
def test_c92_a_wrong_bound_is_an_error_with_the_array(index, told):
    """What can be told of a bound without a shape is told when it is declared."""
    with pytest.raises(DeclarationError, match=told):
        rows(**index)


@pytest.mark.parametrize("bound", [lambda s: math.inf, lambda s: "N", lambda s: s.K])
def test_c92_a_bound_that_is_none_at_a_shape_is_an_error(bound):
    """A function that gives no finite number, or none at all, is named with the array and the shape."""
    with pytest.raises(DeclarationError, match=r"high.*array 'i'|array 'i' has high"):
        make_inputs(rows(high=bound), Shape(N=50, M=20))


@pytest.mark.parametrize(("argument", "added"), [(NULL, 1.0), ("bias", None)])
def test_c92_a_null_pointer_is_an_argument(declared, built, argument, added):
    """None stands for a pointer to nothing, and the kernel sees it."""
    operator = Operator(
        "add",
        "y = x + bias",
        arrays=(Array("x", ("N",)), Array("bias", ("N",)), Array("y", ("N",), role="output")),
        reference=lambda v: {"y": v.x + (v.bias if added is None else added)},
    )
    suite = declared(BIAS, operator, Launch("add", args=("x", argument, "y", "N"), grid=1, block=64))
    assert check(SimDevice("h200"), built(suite, Shape(N=50))).values == 50


@pytest.mark.parametrize("argument", [True, ("x",), np.zeros(1), b"x"])
def test_c92_what_is_no_argument_is_an_error(argument):
    """Anything but a name, a number or None."""
    with pytest.raises(DeclarationError, match="among its args; an argument is a name, a number, or None"):
        Launch("add", args=("x", argument), grid=1, block=64)


def test_widths_by_array_leave_a_launch_hashable():
    """A launch is a value: equal ones have one hash, also with a mapping of widths."""
    one, other = (Launch("k", args=("x", "y"), grid=1, block=32, vector={"x": 16, "y": 4}) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Launch("k", args=("x", "y"), grid=1, block=32, vector={"x": 4, "y": 4})
