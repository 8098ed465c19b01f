"""A row laid out over threads in every way in which the variants are configured, whatever the rows they run on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from configs.layout import RowLayout
from specimens import fixed, specimens

from pytest_roofline import Shape
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run
from pytest_roofline.sim.device import SimDevice

THREADS = (64, 96, 160, 224, 480, 992, 1024)  # 2 to 32 warps, powers of two and others
COLUMNS = 3584
LONG = 65536  # columns from which one row is enough: how rows are told apart is the same for all lengths


def right(device, variant, shape, inputs=None) -> None:
    run = Run(device, Build.of(Plan(Case(variant, shape), device.gpu)), inputs)
    run.run()
    assert run.verify().of_tolerance <= 1
    if isinstance(device, SimDevice):
        assert device.take_findings() == ()


def laid_out(variant, layout, **macros):
    """The variant with its one launch compiled for another layout of a row."""
    (launch,) = variant.launches
    return replace(variant, launches=(replace(launch, **layout.launch(**macros)),))


@pytest.fixture
def clustered(roofline_parts, device):
    """The device, or a simulated one where that has no clusters of blocks."""
    return device if device.gpu.has_clusters else roofline_parts.devices.newer_simulator


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", ["n6", "s6"])
def test_c13_any_number_of_warps(device, suite, name, threads):
    """A row of 3584 is right with any number of warps, also where their partial results are padded."""
    shape = Shape(M=3, N=COLUMNS)
    width = 4
    groups = COLUMNS // width
    layout = RowLayout(shape.dtype, width, threads, -(-groups // threads), groups // threads)
    variant = laid_out(fixed(suite, name, shape, device.gpu), layout)
    assert dict(variant.launches[0].defines)["THREADS"] == str(threads)
    right(device, variant, shape)


THIRDS = 4 * 4 * 96  # columns that 96 threads hold in four vectors of four: three warps a block
ODD = [("n6", 1), ("n8", 1), ("n8", 2), ("a2", 1), ("a2", 2), ("s6", 1), ("s8", 1), ("s8", 2)]


@pytest.mark.parametrize(("name", "cluster"), ODD)
def test_padding_of_the_partials_counts_for_nothing(clustered, suite, name, cluster):
    """Three warps a block: not beside a sum of tiny squares, nor a maximum of -2.45e5, nor in a row all -inf."""
    shape = Shape(M=3, N=THIRDS)
    variant = fixed(suite, name, shape, clustered.gpu)
    defines = dict(variant.launches[0].defines)
    asked = {macro: defines[macro] for macro in ("X_CACHE", "Y_CACHE") if macro in defines}
    layout = RowLayout("float32", 4, 96, 4 // cluster, 4 // cluster, cluster, in_shared="REGISTER_VECTORS" in defines)
    variant = laid_out(variant, layout, **asked)
    if variant.operator.name == "softmax":
        values = {"x": np.repeat(np.float32([-2.45e5, -np.inf, 1.5])[:, None], THIRDS, axis=1)}
    else:
        values = {array.name: np.full(array.shape(shape), 1e-3, np.float32) for array in variant.operator.inputs}
    right(clustered, variant, shape, values)


def test_as_compiled_for_many_rows(clustered, suite, variant):
    """Each way in which a variant is compiled for the shapes that are timed is right, on two rows, or on a long one.

    Many rows are laid out otherwise than few: vectors kept in registers, cache policies, smaller clusters.
    """
    for plan in specimens(suite, variant, clustered.gpu):
        shape = plan.shape.replace(M=2 if plan.shape.N <= LONG else 1)
        right(clustered, fixed(suite, variant.name, plan.shape, clustered.gpu), shape)


def test_every_way_is_among_them(suite, clustered):
    """The ways include rows wholly, partly and not in registers, clusters, staggered starts, and every cache policy."""
    found = {
        name: [dict(plan.launches[-1].defines) for plan in specimens(suite, suite.variant(name), clustered.gpu)]
        for name in ("n7", "s7", "n8", "s8", "s9", "a2")
    }
    long = [one for name in ("n8", "s8", "s9") for one in found[name]]
    for macro, values in (
        ("REGISTER_VECTORS", "0 4"),
        ("X_CACHE", "DEFAULT EVICT_LAST"),
        ("CLUSTER", "1 8"),
        ("WIDTH", "1 4 8"),
    ):
        assert {*values.split()} <= {one[macro] for one in long}, macro
    for name in ("n7", "s7"):
        asked = {(one["X_CACHE"], one["Y_CACHE"]) for one in found[name]}
        assert asked >= {
            ("DEFAULT", "DEFAULT"),
            ("NO_ALLOCATE", "DEFAULT"),
            ("DEFAULT", "EVICT_LAST"),
            ("EVICT_LAST", "EVICT_LAST"),
            ("EVICT_LAST", "DEFAULT"),
        }
    assert {"DEFAULT", "NO_ALLOCATE", "EVICT_LAST"} <= {one["X_CACHE"] for one in found["a2"]}
    assert any(one["REGISTER_VECTORS"] == one["VECTORS"] != "1" for one in found["s8"])
    assert {one["STAGGER_CYCLES"] != "0" for one in found["s9"]} == {True, False}
