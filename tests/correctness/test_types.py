"""16-bit types in every rung that takes them: how often a result is rounded, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from rounding import wrongly_rounded

from pytest_roofline.arguments import bind
from pytest_roofline.check import Job, images_of, make_inputs
from pytest_roofline.errors import RefusedError
from pytest_roofline.floats import SIXTEEN_BIT, dtype_of
from pytest_roofline.ladder import Shape

pytestmark = pytest.mark.parametrize("dtype", SIXTEEN_BIT)


def rungs_of(ladder, shape):
    """The rungs that take the shape, all of which a test goes through."""
    found = [rung for rung in ladder.rungs if rung.broken_limit(shape) is None]
    assert found
    return found


@pytest.mark.parametrize("columns", [8, 1001, 1024, 60000])
def test_c11_results_are_rounded_once(roofline_session, device, ladder, dtype, columns):
    """Every value is what the right one, within float32's error, rounds to: after the weight, once, to nearest even."""
    shape = Shape(4, columns, dtype)
    for rung in rungs_of(ladder, shape):
        job = Job(roofline_session.device_for(rung, shape), ladder, rung, shape)
        job.run()
        job.device.synchronize()
        assert set(wrongly_rounded(job).values()) == {0}, rung.name


def test_c10_the_sum_is_not_of_16_bits(ladder, rung_outputs, dtype):
    """A row of 300, whose squares overflow float16, comes out as w."""
    shape = Shape(2, 2048, dtype)
    w = np.linspace(0, 1, 2048).astype(dtype_of(dtype))
    for rung in rungs_of(ladder, shape):
        if rung.operator.name == "rmsnorm":
            y = rung_outputs(rung, shape, {"x": np.full((2, 2048), 300, dtype_of(dtype)), "w": w})["y"]
            assert y.dtype == w.dtype
            assert (y == w).all()


def test_a_softmax_of_a_vocabulary_keeps_subnormal_results(ladder, rung_outputs, dtype):
    """1/152064 is below the smallest normal float16, and is not flushed to zero."""
    shape = Shape(1, 152064, dtype)
    want = np.float64(1 / 152064).astype(dtype_of(dtype))
    for rung in rungs_of(ladder, shape):
        if rung.operator.name == "softmax":
            y = rung_outputs(rung, shape, {"x": np.full((1, 152064), 1.5, dtype_of(dtype))})["y"]
            assert (y == want).all()


def refuses(device, ladder, rung, shape, given):
    """Each array of the rung in turn of another type is refused by name, on the device and on the host."""
    fixed = rung.at(shape, device.card)
    images = images_of(ladder, fixed, device.arch)
    for name, declared in fixed.arrays.items():
        arrays = {a.name: device.empty(a.shape(shape), a.dtype) for a in fixed.arrays.values()}
        arrays[name] = device.upload(np.zeros(declared.shape(shape), given))
        told = f"{name} is refused, nothing was launched: it is {given}, allowed is {shape.dtype}"
        with pytest.raises(RefusedError, match=told):
            bind(device, fixed, shape, arrays, images)
    inputs = make_inputs(fixed.operator, shape)
    last = fixed.operator.inputs[-1].name
    inputs[last] = np.zeros(inputs[last].shape, given)
    with pytest.raises(RefusedError, match=f"of {given}, allowed is .* of {shape.dtype} at {shape}"):
        Job(device, ladder, rung, shape, inputs)


@pytest.mark.parametrize("given", ["float32", "the other", "uint16"])
def test_c12_another_type_is_refused(device, ladder, dtype, given):
    """An array of another type than the shape's, raw 16-bit words among them, is never read as if it were of it."""
    (other,) = {*SIXTEEN_BIT} - {dtype}
    shape = Shape(4, 1024, dtype)
    for rung in rungs_of(ladder, shape):
        refuses(device, ladder, rung, shape, dtype_of(other if given == "the other" else given))


def test_a_rung_of_float32_refuses_the_shape(device, ladder, dtype):
    """A rung that is written for float32 refuses a shape of another type, and names those that take it."""
    shape = Shape(4, 1024, dtype)
    alone = [rung for rung in ladder.rungs if dtype not in rung.dtypes]
    assert alone
    for rung in alone:
        with pytest.raises(RefusedError, match=f"dtype = {dtype}, allowed is float32") as refused:
            Job(device, ladder, rung, shape)
        assert all(one.name in str(refused.value) for one in ladder.family(rung.operator) if dtype in one.dtypes)
