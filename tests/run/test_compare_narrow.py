"""16-bit answers are right up to one unit in the last place of the rounded reference, whatever their size."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pytest_roofline import Shape
from pytest_roofline.declare.values import Contents, make_inputs, reference
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.run.compare import Accuracy, compare

ONE = {"float16": 0x3C00, "bfloat16": 0x3F80}  # the bits of 1.0
INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80}
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # of 1.0


@pytest.fixture
def verdict(shipped):
    """``verdict(name, got, want)`` compares values of that type, given as bits, with float64 ones."""

    def run(name: str, got: int | list[int], want: float | list[float]) -> Accuracy:
        bits = np.atleast_2d(np.array(got, np.uint16)).view(dtype_of(name))
        exact = np.atleast_2d(np.array(want, np.float64))
        return compare(shipped.operators["softmax"].outputs[0], Shape(M=1, N=bits.size), bits, exact)

    return run


def value(name: str, bits: int) -> float:
    return float(np.array(bits, np.uint16).view(dtype_of(name)).astype(np.float64))


@pytest.mark.parametrize("sign", [0, 0x8000])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_one_step_is_right_and_two_are_wrong(verdict, name: str, sign: int) -> None:
    """At 1, in the middle of its binade, at the ends of others and near overflow; across a power of two as well."""
    for base in (ONE[name], ONE[name] - 1, ONE[name] + 1, ONE[name] + 37, 2 * (ONE[name] // 2), INFINITY[name] - 3):
        for step in (-1, 0, 1):
            found = verdict(name, sign | (base + step), value(name, sign | base))
            assert found.absolute == abs(value(name, base + step) - value(name, base))
            assert found.of_tolerance == pytest.approx(abs(step))
        for step in (-2, 2):
            with pytest.raises(WrongAnswerError, match="1 of 1 values of y are wrong"):
                verdict(name, sign | (base + step), value(name, sign | base))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_steps_count_from_the_rounded_reference(verdict, name: str) -> None:
    """1.6 ulp above 1 is rounded to 2 ulp: 1 and 3 ulp above are right, 1 itself and 4 are not."""
    want = 1 + 1.6 * ULP[name]
    for step in (1, 2, 3):
        assert 0 < verdict(name, ONE[name] + step, want).of_tolerance <= 1
    for step in (0, 4):
        with pytest.raises(WrongAnswerError, match="got 1"):
            verdict(name, ONE[name] + step, want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_wrong_value_says_by_how_much(verdict, name: str) -> None:
    """Three units are three times the tolerance, and the error is the difference of the values."""
    said = rf"1 of 2 values.*{3 * ULP[name]:.3g}, 3 times the tolerance\n  y\[0, 1\]: got {1 + 3 * ULP[name]:.9g}"
    with pytest.raises(WrongAnswerError, match=said):
        verdict(name, [ONE[name], ONE[name] + 3], [1.0, 1.0])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_both_zeros_are_right_and_neighbours_of_the_smallest(verdict, name: str) -> None:
    """Either zero stands for either, and the smallest subnormal is one unit from both."""
    for got in (0, 0x8000):
        for want in (0.0, -0.0):
            assert verdict(name, got, want) == Accuracy(0.0, 0.0, 1)
    for got in (1, 0x8001):
        verdict(name, got, 0.0)
        verdict(name, 0, value(name, got))


def test_only_what_float32_flushes_may_be_zero(verdict) -> None:
    """Below the smallest normal float32 (1.18e-38) bfloat16 may be 0; above it may not, nor may a float16 subnormal."""
    for want in (1.1e-38, -1.1e-38, 1e-40):
        verdict("bfloat16", 0, want)
    for name, want in (("bfloat16", 1.3e-38), ("bfloat16", -3e-38), ("float16", 2.0**-23), ("float16", 6e-5)):
        with pytest.raises(WrongAnswerError):
            verdict(name, 0, want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_nan_and_infinity_are_right_only_where_they_are_due(verdict, name: str) -> None:
    """NaN for NaN and an infinity for the same one; a finite value for none of them, and none for a finite one."""
    nan, inf, minus = 0x7FFF, INFINITY[name], INFINITY[name] | 0x8000
    assert verdict(name, [nan, inf, minus, ONE[name]], [np.nan, np.inf, -np.inf, 1.0]).of_tolerance == 0
    wrong = [(ONE[name], np.nan), (nan, 1.0), (nan, np.inf), (inf, np.nan), (minus, np.inf), (inf, -np.inf)]
    wrong += [
        (inf - 1, np.inf),
        (inf, 1.0),
        (inf, value(name, inf - 2)),
        (nan, value(name, inf - 1)),
        (inf + 1, 0.0),
    ]  # the last is a NaN that signals
    for got, want in wrong:
        with pytest.raises(WrongAnswerError, match="1 of 1 values"):
            verdict(name, got, want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_reference_that_overflows_the_type_takes_infinity_or_the_largest(verdict, name: str) -> None:
    """A finite reference past the largest value is stored as infinity, and its neighbour is one unit from it."""
    past = value(name, INFINITY[name] - 1) * 1.01
    for got in (INFINITY[name], INFINITY[name] - 1):
        assert verdict(name, got, past).of_tolerance <= 1
    with pytest.raises(WrongAnswerError):
        verdict(name, INFINITY[name] - 2, past)


def test_float32_keeps_the_outputs_tolerance(shipped) -> None:
    """Three quarters of rtol pass in float32; in float16 only what is within one unit does."""
    y, want, shape = shipped.operators["softmax"].outputs[0], np.array([[1.0]]), Shape(M=1, N=1)
    off = 1 + 0.75 * y.rtol
    assert compare(y, shape, np.array([[off]], np.float32), want).of_tolerance < 1
    with pytest.raises(WrongAnswerError):
        compare(y, shape, np.array([[1 + 2 * ULP["float16"]]], np.float16), want)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_inputs_have_the_type_of_the_shape(shipped, name: str) -> None:
    """Arrays that follow the shape are drawn in its type, the same values rounded, and the others in their own."""
    operator = shipped.operators["rmsnorm"]
    x, w, y = operator.arrays
    own = dataclasses.replace(operator, arrays=(x, dataclasses.replace(w, dtype="float32"), y))
    found = make_inputs(own, Shape(M=3, N=100, dtype=name))
    assert (found["x"].dtype, found["w"].dtype) == (dtype_of(name), np.float32)
    drawn = make_inputs(operator, Shape(M=3, N=100))["x"].full()
    assert np.array_equal(found["x"].full(), drawn.astype(dtype_of(name)))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_what_is_stored_between_is_rounded_in_the_reference(shipped, name: str) -> None:
    """The norm of a sum is that of the sum as it is stored in the type of the inputs, not of the exact one."""
    operator, shape = shipped.operators["add_rmsnorm"], Shape(M=4, N=64, dtype=name)
    inputs = make_inputs(operator, shape)
    found = reference(operator, shape, inputs)
    exact = inputs["x"].full().astype(np.float64) + inputs["r"].full().astype(np.float64)
    assert np.array_equal(found["h"], exact)
    norm = shipped.operators["rmsnorm"]
    rounded = exact.astype(np.float32).astype(dtype_of(name))
    stored = reference(norm, shape, {"x": Contents.of(rounded), "w": inputs["w"]})["y"]
    unrounded = reference(norm, shape, {"x": Contents.of(exact), "w": inputs["w"]})["y"]
    assert np.array_equal(found["y"], stored)
    assert not np.allclose(found["y"], unrounded, rtol=ULP[name] / 100)
