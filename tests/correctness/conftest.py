"""Parametrises the edge cases of a module over the rungs of its operator, and lets tests import what is beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_roofline.check import Job
from pytest_roofline.ladder import Shape
from pytest_roofline.plugin import SESSION

sys.path.append(str(Path(__file__).parent))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``edge`` gets (rung, shape, inputs) for each rung of its OPERATOR and each of its CASES.

    A case that a rung refuses is left out here; that it is refused is tested in test_shapes.py.
    """
    if "edge" not in metafunc.fixturenames:
        return
    ladder = metafunc.config.stash[SESSION].ladder
    made = {name: make() for name, make in metafunc.module.CASES.items()}
    shapes = {name: Shape(*inputs["x"].shape, inputs["x"].dtype.name) for name, inputs in made.items()}
    edges = {
        f"{rung.name}-{name}": (rung, shapes[name], inputs)
        for rung in ladder.family(ladder.operators[metafunc.module.OPERATOR])
        for name, inputs in made.items()
        if rung.broken_limit(shapes[name]) is None
    }
    metafunc.parametrize("edge", list(edges.values()), ids=list(edges))


@pytest.fixture
def rung_outputs(device, roofline_session, ladder):
    """``rung_outputs(rung, shape, inputs, scalars=None)`` runs the rung once and returns its outputs on the host."""

    def run(rung, shape, inputs, scalars=None):
        used = roofline_session.device_for(rung, shape)
        job = Job(used, ladder, rung, shape, inputs, scalars=scalars)
        job.run()
        used.synchronize()
        return {name: used.download(array) for name, array in job.outputs.items()}

    return run
