"""Each output is judged by its own tolerance and type."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, Shape
from pytest_roofline.errors import DeclarationError, StaticCheckError, WrongAnswerError
from pytest_roofline.run.run import check
from pytest_roofline.run.static import check_accesses
from pytest_roofline.sim.device import SimDevice

QUANTISE = Operator(
    "quantise",
    "s = max |x| / 127 of each group of 4, q = round(x / s)",
    arrays=(
        Array("x", ("M", 4), low=-4.0, high=4.0),
        Array("q", ("M", 4), role="output", dtype="int8", atol=1),
        Array("s", ("M",), role="output", rtol=1e-6),
    ),
    reference=lambda v: {
        "s": np.abs(v.x).max(axis=1) / 127,
        "q": np.rint(v.x * (127 / np.abs(v.x).max(axis=1, keepdims=True))),
    },
)
QUANTISE_TEXT = """
extern "C" __global__ void quantise(const float4* x, char4* q, float* s, int M) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M) return;
    float4 v = x[i];
    float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
    float k = 127.0f / most;
    q[i] = make_char4(__float2int_rn(v.x * k) OFF, __float2int_rn(v.y * k), __float2int_rn(v.z * k),
                      __float2int_rn(v.w * k));
    s[i] = most / 127.0f SCALED;
}
"""
ADD = Operator(
    "add",
    "h = x + r",
    arrays=(Array("x", ("N",)), Array("r", ("N",)), Array("h", ("N",), role="output")),
    reference=lambda v: {"h": v.x + v.r},
)
ADD_TEXT = """
extern "C" __global__ void add(const float* x, const float* r, float* h, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) h[i] = BODY;
}
"""
SHARE = """
extern "C" __global__ void share(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = BODY;
}
"""


def quantise(text=("", ""), vector=None) -> tuple[str, Operator, Launch]:
    off, scaled = text
    launch = Launch("quantise", args=("x", "q", "s", "M"), grid=lambda s: -(-s.M // 64), block=64, vector=vector)
    return QUANTISE_TEXT.replace("OFF", off).replace("SCALED", scaled), QUANTISE, launch


def test_c91_a_tolerance_of_one_output_is_not_that_of_another(declared, built):
    """int8 may be off by one and its scale by nothing: a scale that is halved, or off by 1e-5, is found."""
    shape = Shape(M=100)
    assert check(SimDevice("h200"), built(declared(*quantise()), shape)).values > 0
    assert check(SimDevice("h200"), built(declared(*quantise(("- (v.x > 0)", ""))), shape)).absolute == 1
    for text, output in ((("", "* 0.5f"), "s"), (("", "* 1.00001f"), "s"), (("- 2 * (v.x > 0)", ""), "q")):
        with pytest.raises(WrongAnswerError, match=f"values of {output} are wrong"):
            check(SimDevice("h200"), built(declared(*quantise(text)), shape))


@pytest.mark.parametrize(
    ("vector", "told"),
    [
        ({"x": 16, "q": 4, "s": 4}, ""),
        ({"x": 16}, ""),
        (16, "0 global stores to q of 16 bytes"),
        ({"x": 4, "q": 4}, "0 global loads of x of 4 bytes"),
        ({"s": 16}, "0 global stores to s of 16 bytes"),
    ],
)
def test_c71_each_array_has_a_width_of_its_own(declared, built, vector, told):
    """16-byte loads beside stores of 4 bytes; an array without a width is held to none, a wrong one is named."""
    made = built(declared(*quantise(vector=vector)), Shape(M=100))
    if not told:
        check_accesses(made, made.launches[0])
        return
    with pytest.raises(StaticCheckError, match=told):
        check_accesses(made, made.launches[0])


@pytest.mark.parametrize(
    ("body", "told"), [("x[i] + r[i]", ""), ("fminf(x[i] + r[i], 3.4e38f)", "h are wrong"), ("-(x[i] + r[i])", "h are")]
)
def test_c93_where_the_type_overflows_infinity_is_right(declared, built, body, told):
    """2e38 + 2e38 is infinity in float32: not the largest value, and not that of the other sign."""
    launch = Launch("add", args=("x", "r", "h", "N"), grid=1, block=64)
    made = built(declared(ADD_TEXT.replace("BODY", body), ADD, launch), Shape(N=8))
    inputs = {name: np.full(8, 2e38, np.float32) for name in ("x", "r")}
    if not told:
        assert check(SimDevice("h200"), made, inputs).values == 8
        return
    with pytest.raises(WrongAnswerError, match=told):
        check(SimDevice("h200"), made, inputs)


def share(**tolerance: object) -> Operator:
    y = Array("y", ("N",), role="output", **tolerance)  # type: ignore[arg-type]
    return Operator("share", "y = x / N", arrays=(Array("x", ("N",)), y), reference=lambda v: {"y": v.x / v.N})


@pytest.mark.parametrize("body", ["x[i] / N", "0.0f"])
def test_c94_a_tolerance_that_takes_zeros_at_this_shape_checks_nothing(declared, built, body):
    """What is right at small shapes takes zeros at larger ones, and is refused there, whatever the answer."""
    launch = Launch("share", args=("x", "y", "N"), grid=lambda s: -(-s.N // 64), block=64)
    suite = declared(SHARE.replace("BODY", body), share(atol=1e-3), launch)
    with pytest.raises(DeclarationError, match=r"the tolerance of y accepts an answer of zeros at Shape\(N=2000\)"):
        check(SimDevice("h200"), built(suite, Shape(N=2000)))


def test_c94_a_tolerance_that_follows_the_shape_is_taken(declared, built):
    """1e-3 of a value's size at any shape; and then zeros are wrong."""
    launch = Launch("share", args=("x", "y", "N"), grid=lambda s: -(-s.N // 64), block=64)
    operator = share(atol=lambda s: 1e-3 / s.N)
    right = declared(SHARE.replace("BODY", "x[i] / N"), operator, launch)
    assert check(SimDevice("h200"), built(right, Shape(N=2000))).values == 2000
    zeros = declared(SHARE.replace("BODY", "0.0f"), operator, launch)
    with pytest.raises(WrongAnswerError, match="values of y are wrong"):
        check(SimDevice("h200"), built(zeros, Shape(N=2000)))
