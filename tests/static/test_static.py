"""What the compiler made of each kernel of the suite, on every architecture in use. Needs no GPU."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_roofline.build.static import ARCHITECTURES, check_accesses, check_resources
from pytest_roofline.declare.suite import Shape
from pytest_roofline.run.arguments import check_parameters
from pytest_roofline.run.check import gpu_of, images_of, make_inputs, reference, rows_to_check
from pytest_roofline.sanitize.compute_sanitizer import nearest_shape
from pytest_roofline.testing.cases import specimens

pytestmark = pytest.mark.parametrize("arch", ARCHITECTURES)


@pytest.fixture
def compiled(suite, variant, arch):
    """(variant, launch, image) of each launch, in every way in which the variant is compiled."""
    made = [(fixed, images_of(suite, fixed, arch)) for fixed, _ in specimens(suite, variant, gpu_of(arch))]
    return [(fixed, launch, images[fixed.source_of(launch)]) for fixed, images in made for launch in fixed.launches]


def test_no_spill_and_no_stack(compiled):
    """Everything a kernel keeps is in registers: stack frame, spill stores and spill loads are 0 bytes."""
    for _, launch, image in compiled:
        assert 0 < check_resources(launch, image).registers <= 255


def test_parameters_have_the_declared_types(compiled):
    """Each kernel takes, in order, what the declaration says that it takes."""
    for variant, launch, image in compiled:
        check_parameters(variant, launch, image)


def test_global_loads_and_stores(compiled):
    """Each input is loaded, and each output stored, at the declared width; without a loop over the row, once."""
    for variant, launch, image in compiled:
        check_accesses(variant, launch, image)


def test_the_reference_gives_every_output(suite, variant, arch):
    """On a small shape that the variant runs the float64 reference returns each declared output, in its shape."""
    operator, shape = variant.operator, nearest_shape(variant, Shape(2, 64))
    inputs = make_inputs(operator, shape)
    outputs = reference(operator, inputs, rows_to_check(operator, shape))
    assert {name: array.shape for name, array in outputs.items()} == {a.name: a.shape(shape) for a in operator.outputs}
    assert all(np.isfinite(array).any() for array in outputs.values())
