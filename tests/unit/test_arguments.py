"""Scalars, parameters and arrays are checked before anything is launched."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pytest_roofline.arguments import bind, check_parameters, typed_scalar
from pytest_roofline.check import images_of
from pytest_roofline.errors import CompileError, RefusedError
from pytest_roofline.ladder import Array, Scalar, Shape

SHAPE = Shape(4, 2048)


def test_c23_a_python_float_becomes_the_parameters_float():
    """1e-6 for a float parameter is the float32 nearest to it, four bytes, not the low half of a double."""
    value = typed_scalar("eps", 1e-6, "float")
    assert value.tobytes() == np.float32(1e-6).tobytes()
    assert typed_scalar("eps", 1e-6, "double").nbytes == 8


@pytest.mark.parametrize(
    ("value", "ctype", "message"),
    [
        (2**31, "int", "from -2147483648 to 2147483647"),
        (-(2**31) - 1, "int", "the parameter is int"),
        (1.5, "int", "a whole number"),
        (2**63, "long long", "the parameter is long long"),
        (1e39, "float", "overflows float"),
        (10**400, "double", "overflows double"),
        (10**400, "int", "a whole number"),
        (1e-60, "float", "too small for float"),
        (float("nan"), "int", "a whole number"),
        (float("inf"), "long long", "a whole number"),
        (True, "int", "it is a bool"),
        ("1.5", "float", "it is a str"),
        (None, "float", "it is a NoneType"),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(value, ctype, message):
    """A value that its type can't hold is refused with the value and the range."""
    with pytest.raises(RefusedError, match=message):
        typed_scalar("v", value, ctype)


def test_infinities_and_limits_fit():
    """An infinite float and the last int are values of their types."""
    assert np.isinf(typed_scalar("v", float("-inf"), "float"))
    assert typed_scalar("v", 2**31 - 1, "int") == 2**31 - 1


@pytest.fixture
def images(shipped):
    return images_of(shipped, shipped.rung("n3"), "sm_90")


def test_the_declared_parameters_match_the_compiled_ones(shipped, images):
    """A declaration that says double, forgets an argument or swaps two is refused by position and type."""
    rung = shipped.rung("n3")
    launch = rung.launches[0]
    image = images[rung.source]
    check_parameters(rung, launch, image)
    eps = dataclasses.replace(rung.operator, scalars=(Scalar("eps", "double", 1e-6),))
    with pytest.raises(CompileError, match=r"parameter 4: eps is declared as double \(f64 in PTX\).*compiled with f32"):
        check_parameters(dataclasses.replace(rung, operator=eps), launch, image)
    with pytest.raises(CompileError, match="takes 5 parameters, declared are 4"):
        check_parameters(rung, dataclasses.replace(launch, args=("x", "w", "y", "N")), image)
    with pytest.raises(CompileError, match="parameter 3: eps is declared as float"):
        check_parameters(rung, dataclasses.replace(launch, args=("x", "w", "y", "eps", "N")), image)


@pytest.fixture
def given(shipped, images, fake_device):
    device = fake_device()
    rung = shipped.rung("n3")

    def make(scalars=None, rung=rung, **changed):
        arrays = {a.name: device.upload(np.ones(a.shape(SHAPE), np.float32)) for a in rung.operator.inputs}
        arrays["y"] = device.empty((4, 2048), "float32")
        return bind(device, rung, SHAPE, arrays | changed, images, scalars)

    make.device = device
    return make


def test_good_arrays_run(given):
    """What the refusals below start from is accepted, and runs."""
    given().run()
    assert given.device.launched == ["rms_n3"]


def test_bad_arrays_are_refused(given):
    """Strides, dtype, shape, type, overlap and names: each refused by what it is, and nothing is launched."""
    device = given.device
    base = device.upload(np.ones((4, 2080), np.float32))
    block = device.upload(np.ones((6, 2048), np.float32))
    cases = {
        r"strides are \(8320, 4\)": {"x": base[:, 1:2049]},  # C20
        "it is float64": {"x": device.upload(np.ones((4, 2048)))},
        r"its shape is \(4, 2047\)": {"x": device.upload(np.ones((4, 2047), np.float32))},
        r"its shape is \(0, 2048\)": {"x": device.empty((0, 2048), "float32")},  # C21
        "a list is refused": {"x": [1.0]},
        "y and x overlap": {"x": block[:4], "y": block[2:]},
        "takes no z": {"z": block},
    }
    for message, changed in cases.items():
        with pytest.raises(RefusedError, match=message):
            given(**changed)
    assert device.launched == []


def test_misalignment_is_refused_by_rungs_that_need_it(given, shipped):
    """An array that starts 4 bytes off runs on n3 and is refused where 16 bytes are needed."""
    base = given.device.upload(np.ones(4 * 2048 + 1, np.float32))
    shifted = base[1:].reshape(4, 2048)
    given(x=shifted).run()
    strict = dataclasses.replace(shipped.rung("n3"), alignment=16)
    with pytest.raises(RefusedError, match="not a multiple of 16 bytes"):
        given(rung=strict, x=shifted)


def test_a_grid_that_no_card_has_is_refused(given, shipped):
    """A grid of 0 blocks or of too many, and too much dynamic shared memory (C28), are refused with the limit."""
    rung = shipped.rung("n3")

    def changed(**fields):
        return dataclasses.replace(rung, launches=(dataclasses.replace(rung.launches[0], **fields),))

    for grid in ((0, 1, 1), (1, 65536, 1), (1, 1), 7):
        with pytest.raises(RefusedError, match="grid"):
            given(rung=changed(grid=lambda shape, grid=grid: grid))
    limit = given.device.card.shared_per_block_optin
    with pytest.raises(RefusedError, match=f"has at most {limit}"):
        given(rung=changed(shared=limit + 1))


def test_binding_checks_the_kernels_parameters(given, shipped):
    """A declaration that does not fit the compiled kernel is refused when it is bound, not when it is launched."""
    rung = shipped.rung("n3")
    swapped = dataclasses.replace(rung.launches[0], args=("x", "w", "y", "eps", "N"))
    with pytest.raises(CompileError, match="eps is declared as float"):
        given(rung=dataclasses.replace(rung, launches=(swapped,)))


def test_adjacent_arrays_do_not_overlap_and_scratch_counts(given, shipped):
    """An output that begins where an input ends is taken; scratch that lies in an input is refused."""
    device = given.device
    block = device.upload(np.ones((8, 2048), np.float32))
    given(x=block[:4], y=block[4:]).run()
    scratch = dataclasses.replace(shipped.rung("n3"), scratch=(Array("part", ("M",)),))
    with pytest.raises(RefusedError, match="part and x overlap"):
        given(rung=scratch, x=block[:4], part=block[0, :4])
