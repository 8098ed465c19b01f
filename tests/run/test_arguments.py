"""Scalars, parameters and arrays are checked before anything is launched."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from specimens import built, planned

from pytest_roofline import Array, Scalar, Shape
from pytest_roofline.errors import CompileError, DeclarationError, RefusedError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.arguments import bind, typed_scalar
from pytest_roofline.run.build import Build, compiled
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import LackingError, Plan
from pytest_roofline.run.sample import blocks_of

SHAPE = Shape(M=4, N=2048)


def changed(variant, **fields):
    """The variant with another launch."""
    return dataclasses.replace(variant, launches=(dataclasses.replace(variant.launches[0], **fields),))


def plan_of(variant, shape=SHAPE, gpu="h200"):
    return Plan(Case(variant, shape), gpu_named(gpu))


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


def test_the_declared_parameters_match_the_compiled_ones(shipped):
    """A declaration that says double, forgets an argument or swaps two is refused by position and type."""
    variant = shipped.variant("n3")
    images = compiled(plan_of(variant))
    Build(plan_of(variant), images)
    eps = dataclasses.replace(variant.operator, scalars=(Scalar("eps", "double", 1e-6),))
    wrong = {
        r"parameter 4: eps is declared as double \(f64.*compiled with f32": dataclasses.replace(variant, operator=eps),
        "takes 5 parameters, declared are 4": changed(variant, args=("x", "w", "y", "N")),
        "parameter 3: eps is declared as float": changed(variant, args=("x", "w", "y", "eps", "N")),
    }
    for message, other in wrong.items():
        with pytest.raises(CompileError, match=message):
            Build(plan_of(other), images)


@pytest.fixture
def given(shipped, fake_device):
    device = fake_device()
    n3 = shipped.variant("n3")
    images = compiled(plan_of(n3))

    def make(scalars=None, variant=n3, **other):
        arrays = {a.name: device.upload(np.ones(a.shape(SHAPE), np.float32)) for a in variant.operator.inputs}
        arrays["y"] = device.empty((4, 2048), "float32")
        return bind(device, Build(plan_of(variant), images), arrays | other, scalars)

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


def test_a_grid_that_no_gpu_has_is_refused(shipped):
    """A grid of 0 blocks or of too many, and too much dynamic shared memory (C28), are refused with the limit."""
    variant = shipped.variant("n3")
    with pytest.raises(RefusedError, match="grid"):
        plan_of(changed(variant, grid=lambda shape: (1, 65536, 1)))
    for grid in ((0, 1, 1), (1, -1), "7", (1, 1, 1, 1)):
        with pytest.raises(DeclarationError, match="grid"):
            plan_of(changed(variant, grid=lambda shape, grid=grid: grid))
    limit = gpu_named("h200").shared_per_block_optin
    with pytest.raises(LackingError, match=f"of at most {limit}"):
        plan_of(changed(variant, shared=limit + 1))


def test_adjacent_arrays_do_not_overlap_and_scratch_counts(given, shipped):
    """An output that begins where an input ends is taken; scratch that lies in an input is refused."""
    device = given.device
    block = device.upload(np.ones((8, 2048), np.float32))
    given(x=block[:4], y=block[4:]).run()
    scratch = dataclasses.replace(shipped.variant("n3"), scratch=(Array("part", ("M",)),))
    with pytest.raises(RefusedError, match="part and x overlap"):
        given(variant=scratch, x=block[:4], part=block[0, :4])


def test_units_are_blocks_or_clusters_of_them(shipped):
    """Unit r is block r, or the blocks of cluster r in order."""
    single, spread = planned(shipped, "n3", M=10, N=8), planned(shipped, "n8", M=2, N=65536)
    assert [list(blocks_of(single.launches[0], unit, 10)) for unit in (0, 7)] == [[0], [7]]
    assert spread.launches[0].cluster == 16
    assert list(blocks_of(spread.launches[0], 1, 2)) == list(range(16, 32))


def test_an_image_of_other_macros_or_clusters_is_refused(shipped):
    """What was compiled for one width, or for clusters, is not used for a launch that was configured to another."""
    few, many = planned(shipped, "n8", M=2, N=65536), planned(shipped, "n8", M=300, N=2048)
    wide, single = compiled(few), compiled(many)
    Build(few, wide)
    Build(many, single)
    with pytest.raises(CompileError, match=r"rms_n8 was compiled with .*, 300x2052 needs .*'FULL'"):
        Build(planned(shipped, "n8", M=300, N=2052), single)

    class OneBlock(Plan):
        """The same macros, and another number of blocks of a cluster."""

        def __init__(self, plan, cluster):
            (launch,) = plan.launches
            object.__setattr__(self, "case", plan.case)
            object.__setattr__(self, "gpu", plan.gpu)
            object.__setattr__(self, "launches", (dataclasses.replace(launch, cluster=cluster),))

    with pytest.raises(CompileError, match="rms_n8 was compiled for clusters of 16 blocks, declared is 1"):
        Build(OneBlock(few, 1), wide)
    with pytest.raises(CompileError, match="rms_n8 was compiled for clusters of 1 blocks, declared is 2"):
        Build(OneBlock(many, 2), single)


def test_narrow_arrays_follow_the_shape(shipped, fake_device):
    """A shape of bfloat16 takes arrays of it and refuses float32 ones."""
    device = fake_device()
    build = built(shipped, "n7", M=4, N=2048, dtype="bfloat16")
    arrays = {name: device.empty(array.shape, "bfloat16") for name, array in build.plan.arrays.items()}
    bind(device, build, arrays)
    with pytest.raises(RefusedError, match=r"w is refused.*it is float32, allowed is bfloat16"):
        bind(device, build, arrays | {"w": device.empty((2048,), "float32")})
