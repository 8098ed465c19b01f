"""Parametrises the edge cases of a module over the variants of its operator; tests may import what is beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_roofline import Shape
from pytest_roofline.plugin.hooks import PARTS
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.run import Run

sys.path.append(str(Path(__file__).parent))


def shape_of(x) -> Shape:
    """The shape of a case whose input x is this array."""
    return Shape(M=x.shape[0], N=x.shape[1], dtype=x.dtype.name)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``edge`` gets (case, inputs) for each variant of its OPERATOR and each of its CASES.

    A case that a variant refuses is left out here; that it is refused is tested in test_shapes.py.
    """
    if "edge" not in metafunc.fixturenames:
        return
    suite = metafunc.config.stash[PARTS].suite
    made = {name: make() for name, make in metafunc.module.CASES.items()}
    edges = {
        f"{variant.name}-{name}": (Case(variant, shape_of(inputs["x"]), suite), inputs)
        for variant in suite.family(suite.operators[metafunc.module.OPERATOR])
        for name, inputs in made.items()
        if not variant.broken_limit(shape_of(inputs["x"]))
    }
    metafunc.parametrize("edge", list(edges.values()), ids=list(edges))


@pytest.fixture
def run_of(device, roofline_parts):
    """``run_of(variant, shape, inputs=None, scalars=None)``: the variant ran once; the run, with its outputs."""

    def run(variant, shape, inputs=None, scalars=None):
        plan, used = roofline_parts.devices.plan(roofline_parts.case(variant, shape))
        made = Run(used, Build.of(plan), inputs, scalars)
        made.run()
        used.synchronize()
        return made

    return run


@pytest.fixture
def variant_outputs(run_of):
    """``variant_outputs(variant, shape, inputs, scalars=None)`` runs it once and returns its outputs on the host."""

    def run(variant, shape, inputs, scalars=None):
        made = run_of(variant, shape, inputs, scalars)
        return {a.name: made.device.download(made.arrays[a.name]) for a in made.operator.outputs}

    return run
