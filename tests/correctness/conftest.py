"""Parametrises the edge cases of a module over the variants of its operator, and lets tests import what is beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pytest_roofline.run.check import Job

from pytest_roofline import Shape
from pytest_roofline.plugin.hooks import SESSION

sys.path.append(str(Path(__file__).parent))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``edge`` gets (variant, shape, inputs) for each variant of its OPERATOR and each of its CASES.

    A case that a variant refuses is left out here; that it is refused is tested in test_shapes.py.
    """
    if "edge" not in metafunc.fixturenames:
        return
    suite = metafunc.config.stash[SESSION].suite
    made = {name: make() for name, make in metafunc.module.CASES.items()}
    shapes = {name: Shape(*inputs["x"].shape, inputs["x"].dtype.name) for name, inputs in made.items()}
    edges = {
        f"{variant.name}-{name}": (variant, shapes[name], inputs)
        for variant in suite.family(suite.operators[metafunc.module.OPERATOR])
        for name, inputs in made.items()
        if variant.broken_limit(shapes[name]) is None
    }
    metafunc.parametrize("edge", list(edges.values()), ids=list(edges))


@pytest.fixture
def variant_outputs(device, roofline_session, suite):
    """``variant_outputs(variant, shape, inputs, scalars=None)`` runs the variant once and returns its outputs on the host."""

    def run(variant, shape, inputs, scalars=None):
        used = roofline_session.device_for(variant, shape)
        job = Job(used, suite, variant, shape, inputs, scalars=scalars)
        job.run()
        used.synchronize()
        return {name: used.download(array) for name, array in job.outputs.items()}

    return run
