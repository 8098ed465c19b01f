"""A row spread over threads in every way in which the tuned variants are compiled, whatever the rows they are run on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pytest_roofline.run.check import Job, images_of
from pytest_roofline.testing.rows import Spread

from pytest_roofline import Shape
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.testing.cases import specimens

THREADS = (64, 96, 160, 224, 480, 992, 1024)  # 2 to 32 warps, powers of two and others
COLUMNS = 3584


def right(device, suite, variant, shape, inputs=None) -> None:
    job = Job(device, suite, variant, shape, inputs, images_of(suite, variant, device.arch))
    job.run()
    assert job.verify().of_tolerance <= 1
    if isinstance(device, SimDevice):
        assert device.take_findings() == ()


@pytest.fixture
def clustered(roofline_session, device):
    """The device, or a simulated one where that has no clusters of blocks."""
    return device if device.gpu.has_clusters else roofline_session.newer_simulator


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", ["n6", "s6"])
def test_c13_any_number_of_warps(device, suite, name, threads):
    """A row of 3584 is right with any number of warps, also where their partial results leave places free."""
    shape = Shape(M=3, N=COLUMNS)
    width = 4
    groups = COLUMNS // width
    spread = Spread(shape.dtype, width, threads, -(-groups // threads), groups // threads)
    variant = suite.variant(name).at(shape, device.gpu)
    variant = replace(variant, launches=(replace(variant.launches[0], **spread.launch()),))
    assert dict(variant.launches[0].defines)["THREADS"] == str(threads)
    right(device, suite, variant, shape)


THIRDS = 4 * 4 * 96  # columns that 96 threads hold in four vectors of four: three warps a block
ODD = [("n6", 1), ("n8", 1), ("n8", 2), ("a2", 1), ("a2", 2), ("s6", 1), ("s8", 1), ("s8", 2)]


@pytest.mark.parametrize(("name", "cluster"), ODD)
def test_what_fills_the_places_of_missing_warps_counts_for_nothing(clustered, suite, name, cluster):
    """Three warps a block: not beside a sum of tiny squares, nor a maximum of -2.45e5, nor in a row all -inf."""
    shape = Shape(M=3, N=THIRDS)
    variant = suite.variant(name).at(shape, clustered.gpu)
    defines = dict(variant.launches[0].defines)
    asked = {macro: defines[macro] for macro in ("X_LINES", "Y_LINES") if macro in defines}
    spread = Spread("float32", 4, 96, 4 // cluster, 4 // cluster, cluster, staged="KEPT" in defines)
    variant = replace(variant, launches=(replace(variant.launches[0], **spread.launch(**asked)),))
    if variant.operator.name == "softmax":
        values = {"x": np.repeat(np.float32([-2.45e5, -np.inf, 1.5])[:, None], THIRDS, axis=1)}
    else:
        values = {array.name: np.full(array.shape(shape), 1e-3, np.float32) for array in variant.operator.inputs}
    right(clustered, suite, variant, shape, values)


def test_as_compiled_for_many_rows(clustered, suite, variant):
    """Each way in which a variant is compiled for the shapes that are timed is right, on two rows.

    Many rows are spread otherwise than few: vectors kept in registers, what is asked of the caches, smaller clusters.
    """
    for fixed, shape in specimens(suite, variant, clustered.gpu):
        right(clustered, suite, fixed, Shape(M=2, N=shape.N, dtype=shape.dtype))


def test_every_way_is_among_them(suite, clustered):
    """The ways include rows wholly, partly and not in registers, clusters, turns, and all that the caches are asked."""
    found = {
        name: [dict(fixed.launches[-1].defines) for fixed, _ in specimens(suite, suite.variant(name), clustered.gpu)]
        for name in ("n7", "s7", "n8", "s8", "s9", "a2")
    }
    long = [one for name in ("n8", "s8", "s9") for one in found[name]]
    for macro, values in (("KEPT", "0 4"), ("X_LINES", "PLAIN STAY"), ("CLUSTER", "1 8"), ("WIDTH", "1 4 8")):
        assert {*values.split()} <= {one[macro] for one in long}, macro
    for name in ("n7", "s7"):
        asked = {(one["X_LINES"], one["Y_LINES"]) for one in found[name]}
        assert asked >= {("PLAIN", "PLAIN"), ("PASS", "PLAIN"), ("PLAIN", "STAY"), ("STAY", "STAY"), ("STAY", "PLAIN")}
    assert {"PLAIN", "PASS", "STAY"} <= {one["X_LINES"] for one in found["a2"]}
    assert any(one["KEPT"] == one["VECTORS"] != "1" for one in found["s8"])
    assert {one["TURN_CYCLES"] != "0" for one in found["s9"]} == {True, False}
