"""Scalars, parameters and arrays are checked before anything is launched."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pytest_roofline.run.check import images_of
from pytest_roofline.testing.rows import blocks_a_row

from pytest_roofline import Array, Launch, Scalar, Shape
from pytest_roofline.errors import CompileError, RefusedError
from pytest_roofline.run.arguments import Step, bind, check_parameters, typed_scalar

SHAPE = Shape(M=4, N=2048)


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
    return images_of(shipped, shipped.variant("n3"), "sm_90")


def test_the_declared_parameters_match_the_compiled_ones(shipped, images):
    """A declaration that says double, forgets an argument or swaps two is refused by position and type."""
    variant = shipped.variant("n3")
    launch = variant.launches[0]
    image = images[variant.source]
    check_parameters(variant, launch, image)
    eps = dataclasses.replace(variant.operator, scalars=(Scalar("eps", "double", 1e-6),))
    with pytest.raises(CompileError, match=r"parameter 4: eps is declared as double \(f64 in PTX\).*compiled with f32"):
        check_parameters(dataclasses.replace(variant, operator=eps), launch, image)
    with pytest.raises(CompileError, match="takes 5 parameters, declared are 4"):
        check_parameters(variant, dataclasses.replace(launch, args=("x", "w", "y", "N")), image)
    with pytest.raises(CompileError, match="parameter 3: eps is declared as float"):
        check_parameters(variant, dataclasses.replace(launch, args=("x", "w", "y", "eps", "N")), image)


@pytest.fixture
def given(shipped, images, fake_device):
    device = fake_device()
    variant = shipped.variant("n3")

    def make(scalars=None, variant=variant, **changed):
        arrays = {a.name: device.upload(np.ones(a.shape(SHAPE), np.float32)) for a in variant.operator.inputs}
        arrays["y"] = device.empty((4, 2048), "float32")
        return bind(device, variant, SHAPE, arrays | changed, images, scalars)

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


def test_misalignment_is_refused_by_variants_that_need_it(given, shipped):
    """An array that starts 4 bytes off runs on n3 and is refused where 16 bytes are needed."""
    base = given.device.upload(np.ones(4 * 2048 + 1, np.float32))
    shifted = base[1:].reshape(4, 2048)
    given(x=shifted).run()
    strict = dataclasses.replace(shipped.variant("n3"), alignment=16)
    with pytest.raises(RefusedError, match="not a multiple of 16 bytes"):
        given(variant=strict, x=shifted)


def test_a_grid_that_no_gpu_has_is_refused(given, shipped):
    """A grid of 0 blocks or of too many, and too much dynamic shared memory (C28), are refused with the limit."""
    variant = shipped.variant("n3")

    def changed(**fields):
        return dataclasses.replace(variant, launches=(dataclasses.replace(variant.launches[0], **fields),))

    for grid in ((0, 1, 1), (1, 65536, 1), (1, 1), 7):
        with pytest.raises(RefusedError, match="grid"):
            given(variant=changed(grid=lambda shape, grid=grid: grid))
    limit = given.device.gpu.shared_per_block_optin
    with pytest.raises(RefusedError, match=f"has at most {limit}"):
        given(variant=changed(shared=limit + 1))


def test_binding_checks_the_kernels_parameters(given, shipped):
    """A declaration that does not fit the compiled kernel is refused when it is bound, not when it is launched."""
    variant = shipped.variant("n3")
    swapped = dataclasses.replace(variant.launches[0], args=("x", "w", "y", "eps", "N"))
    with pytest.raises(CompileError, match="eps is declared as float"):
        given(variant=dataclasses.replace(variant, launches=(swapped,)))


def test_adjacent_arrays_do_not_overlap_and_scratch_counts(given, shipped):
    """An output that begins where an input ends is taken; scratch that lies in an input is refused."""
    device = given.device
    block = device.upload(np.ones((8, 2048), np.float32))
    given(x=block[:4], y=block[4:]).run()
    scratch = dataclasses.replace(shipped.variant("n3"), scratch=(Array("part", ("M",)),))
    with pytest.raises(RefusedError, match="part and x overlap"):
        given(variant=scratch, x=block[:4], part=block[0, :4])


def test_rows_are_blocks_or_clusters_of_them():
    """Row r is block r, or the blocks of cluster r in order; where a grid is not of rows none can be chosen."""
    shape = Shape(M=10, N=8)
    for cluster, blocks in ((1, [0, 7, 9]), (4, [0, 1, 2, 3, 28, 29, 30, 31, 36, 37, 38, 39])):
        grid = blocks_a_row(cluster)
        launch = Launch("k", ("x",), ("x",), (), grid=grid, cluster=cluster)
        step = Step(launch, None, grid(shape), (32, 1, 1), (), 0)
        assert step.blocks_of(shape, [0, 7, 9]) == blocks
        with pytest.raises(AssertionError, match="rows are not blocks"):
            dataclasses.replace(step, grid=(10 * cluster, 2, 1)).blocks_of(shape, [0])


def test_an_image_of_other_macros_or_clusters_is_refused(shipped, fake_device):
    """What was compiled for one width, or for clusters, is not bound to a launch that was tuned to another."""
    device, variant = fake_device(), shipped.variant("n8")

    def bound(compiled: Shape, shape: Shape, **changed) -> None:
        fixed = variant.at(shape, device.gpu)
        launch = dataclasses.replace(fixed.launches[0], **changed)
        arrays = {a.name: device.empty(a.shape(shape), a.dtype) for a in fixed.arrays.values()}
        images = images_of(shipped, variant.at(compiled, device.gpu), "sm_90")
        bind(device, dataclasses.replace(fixed, launches=(launch,)), shape, arrays, images)

    for shape in (Shape(M=300, N=2048), Shape(M=2, N=65536)):
        bound(shape, shape)
    with pytest.raises(CompileError, match=r"rms_n8 was compiled with .*, 300x2052 needs .*'FULL'"):
        bound(Shape(M=300, N=2048), Shape(M=300, N=2052))
    with pytest.raises(CompileError, match="rms_n8 was compiled for clusters of 16 blocks, declared is 1"):
        bound(Shape(M=2, N=65536), Shape(M=2, N=65536), cluster=1)
    with pytest.raises(CompileError, match="rms_n8 was compiled for clusters of 1 blocks, declared is 2"):
        bound(Shape(M=300, N=2048), Shape(M=300, N=2048), cluster=2, grid=blocks_a_row(2))
    assert device.launched == []


def test_16_bit_arrays_follow_the_shape(shipped, fake_device):
    """A shape of bfloat16 takes arrays of it and refuses float32 ones; scratch that is float32 stays so."""
    device, shape = fake_device(), Shape(M=4, N=2048, dtype="bfloat16")
    variant = shipped.variant("n7").at(shape, device.gpu)
    images = images_of(shipped, variant, "sm_90")
    arrays = {a.name: device.empty(a.shape(shape), "bfloat16") for a in variant.arrays.values()}
    bind(device, shipped.variant("n7"), shape, arrays, images)
    with pytest.raises(RefusedError, match=r"w is refused.*it is float32, allowed is bfloat16"):
        bind(device, variant, shape, arrays | {"w": device.empty((2048,), "float32")}, images)
