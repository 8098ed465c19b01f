"""16-bit types in every variant that takes them: how often a result is rounded, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from rounding import wrongly_rounded

from pytest_roofline import Shape
from pytest_roofline.declare.values import make_inputs
from pytest_roofline.errors import RefusedError
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.run.arguments import bind
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run

pytestmark = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])


def variants_of(suite, shape):
    """The variants that take the shape, all of which a test goes through."""
    found = [variant for variant in suite.variants if not variant.broken_limit(shape)]
    assert found
    return found


@pytest.mark.parametrize("columns", [8, 1001, 1024, 60000])
def test_c11_results_are_rounded_once(run_of, suite, dtype, columns):
    """Every value is what the right one, within float32's error, rounds to: after the weight, once, to nearest even."""
    shape = Shape(M=4, N=columns, dtype=dtype)
    for variant in variants_of(suite, shape):
        assert set(wrongly_rounded(run_of(variant, shape)).values()) == {0}, variant.name


def test_c10_the_sum_is_not_of_16_bits(suite, variant_outputs, dtype):
    """A row of 300, whose squares overflow float16, comes out as w."""
    shape = Shape(M=2, N=2048, dtype=dtype)
    w = np.linspace(0, 1, 2048).astype(dtype_of(dtype))
    for variant in variants_of(suite, shape):
        if variant.operator.name == "rmsnorm":
            y = variant_outputs(variant, shape, {"x": np.full((2, 2048), 300, dtype_of(dtype)), "w": w})["y"]
            assert y.dtype == w.dtype
            assert (y == w).all()


def test_a_softmax_of_a_vocabulary_keeps_subnormal_results(suite, variant_outputs, dtype):
    """1/152064 is below the smallest normal float16, and is not flushed to zero."""
    shape = Shape(M=1, N=152064, dtype=dtype)
    want = np.float64(1 / 152064).astype(dtype_of(dtype))
    for variant in variants_of(suite, shape):
        if variant.operator.name == "softmax":
            y = variant_outputs(variant, shape, {"x": np.full((1, 152064), 1.5, dtype_of(dtype))})["y"]
            assert (y == want).all()


def refuses(device, suite, variant, shape, given):
    """Each array of the variant in turn of another type is refused by name, on the device and on the host."""
    plan = Plan(Case(variant, shape, suite), device.gpu)
    build = Build.of(plan)
    for name, declared in plan.arrays.items():
        arrays = {a.name: device.empty(a.shape, a.dtype.name) for a in plan.arrays.values()}
        arrays[name] = device.upload(np.zeros(declared.shape, given))
        told = f"{name} is refused, nothing was launched: it is {given}, allowed is {shape.dtype}"
        with pytest.raises(RefusedError, match=told):
            bind(device, build, arrays)
    inputs = {name: one.full() for name, one in make_inputs(variant.operator, shape).items()}
    last = variant.operator.inputs[-1].name
    inputs[last] = np.zeros(inputs[last].shape, given)
    with pytest.raises(RefusedError, match=f"{last} is {given} of .*, allowed is {shape.dtype} of .* at {shape}"):
        Run(device, build, inputs)


@pytest.mark.parametrize("given", ["float32", "the other", "uint16"])
def test_c12_another_type_is_refused(device, suite, dtype, given):
    """An array of another type than the shape's, raw 16-bit words among them, is never read as if it were of it."""
    (other,) = {*("float16", "bfloat16")} - {dtype}
    shape = Shape(M=4, N=1024, dtype=dtype)
    for variant in variants_of(suite, shape):
        refuses(device, suite, variant, shape, dtype_of(other if given == "the other" else given))


def test_a_variant_of_float32_refuses_the_shape(device, suite, dtype):
    """A variant that is written for float32 refuses a shape of another type, and names those that take it."""
    shape = Shape(M=4, N=1024, dtype=dtype)
    alone = [variant for variant in suite.variants if dtype not in variant.dtypes]
    assert alone
    for variant in alone:
        with pytest.raises(RefusedError, match=f"dtype = {dtype}.*written for elements of float32") as refused:
            Case(variant, shape, suite)
        assert all(one.name in str(refused.value) for one in suite.family(variant.operator) if dtype in one.dtypes)
