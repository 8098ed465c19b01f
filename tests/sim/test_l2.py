"""The model of the L2 cache: by hand on small sequences, and on the suite against what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from specimens import built

from pytest_roofline import Shape
from pytest_roofline.bench import ncu as counters
from pytest_roofline.bench.ncu import Counters
from pytest_roofline.errors import CountersError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.l2 import LINE, Dram, Geometry, Sweep, traffic, whole_grid
from pytest_roofline.model.models import Models
from pytest_roofline.run.case import Case
from pytest_roofline.run.device import POISON
from pytest_roofline.run.gpu.child import Counted
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.observe.traffic import Touch

ROOM = 8  # lines of the small caches below, which have one set


def rows(blocks, nlines, write=False, start=0, shared=False):
    """Block b touches ``nlines`` lines of its own, or all of them the same."""
    every = np.arange(blocks)
    first = LINE * (start + nlines * every * (not shared))
    return Touch(every, first, first + LINE * nlines, write)


def small(*sweeps, partitions=1):
    """The traffic of launches, one after the other, with a small cache."""
    return list(traffic(sweeps, Geometry(sets=1, partitions=partitions, ways=ROOM)))


def test_a_second_sweep_over_more_than_fits_misses_every_line():
    """Least recently used keeps nothing of a sequence one line longer than itself, and all of one that fits."""
    for blocks, again in ((ROOM + 1, ROOM + 1), (ROOM, 0)):
        sweep = Sweep((rows(blocks, 1),), blocks, in_flight=1)
        assert small(sweep, sweep) == [Dram(blocks * LINE, 0), Dram(again * LINE, 0)]


def test_a_repeated_read_is_free_while_all_in_flight_fit():
    """A block reads its row twice: from DRAM twice only if the rows of all blocks in flight exceed the cache."""
    row = rows(32, 2)
    for in_flight, reads in ((4, 1), (5, 2)):
        (moved,) = small(Sweep((row, row), 32, in_flight))
        assert moved.read >= reads * 32 * 2 * LINE * 0.9
    assert small(Sweep((row, row), 32, 4)) == [Dram(32 * 2 * LINE, 0)]


def test_writes_reach_dram_when_they_are_pushed_out():
    """What is still in the cache at the end was not written; warm, as much of the run before is pushed out instead."""
    sweep = Sweep((rows(100, 1, write=True),), 100, in_flight=1)
    assert small(sweep, sweep) == [Dram(0, (100 - ROOM) * LINE), Dram(0, 100 * LINE)]


def test_a_line_read_from_the_other_partition_takes_two_places():
    """Of two partitions each keeps what its own SMs read: lines that all read must fit in each, and are read once."""
    for lines, fit in ((ROOM, True), (ROOM + 1, False)):
        everyone = Sweep((rows(64, lines, shared=True),), 64, in_flight=64)
        first, again = small(everyone, everyone, partitions=2)
        assert (first == Dram(lines * LINE, 0), again == Dram(0, 0)) == (fit, fit)


def test_the_whole_grid_is_read_off_a_few_blocks():
    """Three blocks at a steady distance stand for all; at an unsteady one, or of different sizes, they do not."""
    blocks = np.array([0, 1, 9])

    def touched(first, size=64):
        first = np.array(first)
        return [Touch(blocks, first, first + size, write=False)]

    (found,) = whole_grid(touched([100, 164, 676]), 10)
    assert found.first.tolist() == list(range(100, 740, 64))
    assert (found.end - found.first == 64).all()
    (same,) = whole_grid(touched([100, 100, 100]), 10)
    assert same.first.tolist() == [100] * 10
    assert whole_grid(touched([100, 164, 677]), 10) is None
    assert whole_grid(touched([100, 164, 676], np.array([64, 64, 32])), 10) is None


@pytest.fixture(scope="module")
def modelled():
    """``modelled(suite, variant, shape, gpu, state)``: the speed of light."""
    models = {}

    def run(suite, variant, shape, name, state):
        case = Case(variant, shape, suite)
        found, _ = models.setdefault(name, Models(gpu_named(name))).sol(case, state)
        return found

    return run


ROWS = (8192, 16384, 2048, 32)
SAVED = json.loads(Path(__file__).with_name("h200_counters.json").read_text())
PLAIN = ("n1", "n2", "n3", "n4", "s1", "s2", "s3", "s4")  # what later variants ask of the caches is not modelled


def assert_agree(sol, counted, rows):
    """Modelled DRAM bytes against ncu's: from 8192 rows within 5 % (cold: reads; writes within 0.6N), else 0.6N."""
    n = sol.facts.plan.shape.M * sol.facts.plan.shape.N
    if rows >= 8192:
        read = sum(one.dram_read for one in counted)
        written = sum(one.dram_written for one in counted)
        if sol.state == "warm":
            assert sol.dram.read + sol.dram.written == pytest.approx(read + written, rel=0.05)
        else:
            assert sol.dram.read == pytest.approx(read, rel=0.05)
            assert sol.dram.written == pytest.approx(written, abs=0.6 * n)
        return
    for launch, one in zip(sol.launches, counted, strict=True):
        assert launch.dram.read == pytest.approx(one.dram_read, abs=0.6 * n), launch.work.kernel
        assert launch.dram.written == pytest.approx(one.dram_written, abs=0.6 * n), launch.work.kernel


@pytest.mark.parametrize("state", ["cold", "warm"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", PLAIN)
def test_the_model_against_what_an_h200_counted(modelled, suite, name, rows, state):
    """Each variant of the plain suite, cold and warm, against counters of 2026-11-30 (driver 580.159.04)."""
    variant = suite.variant(name)
    shape = Shape(M=rows, N=variant.operator.default.N)
    (launches,) = (
        case["launches"]
        for case in SAVED["cases"]
        if (case["variant"], case["M"], case["N"], case["state"]) == (variant.name, shape.M, shape.N, state)
    )
    counted = [Counters(**launch) for launch in launches]
    assert_agree(modelled(suite, variant, shape, "h200", state), counted, rows)


@pytest.fixture(scope="module")
def hardware(roofline_parts):
    """(variant, rows, state) -> ncu's counters of each launch, all from one run under ncu."""
    if roofline_parts.devices.missing:
        pytest.skip(f"not checked: no CUDA device ({roofline_parts.devices.missing})")
    suite, device = roofline_parts.suite, roofline_parts.devices.cuda
    cases = [
        Counted(built(suite, variant.name, device.gpu, M=rows, N=variant.operator.default.N), state)
        for variant in map(suite.variant, PLAIN)
        for rows in ROWS
        for state in ("cold", "warm")
    ]
    try:
        found = counters.count(counters.find(), suite.file, cases, device.index)
    except CountersError as error:
        pytest.skip(f"not checked: {error}")
    of = [(c.build.plan.case.variant.name, c.build.plan.shape.M, c.state) for c in cases]
    return dict(zip(of, found, strict=True))


@pytest.mark.parametrize("state", ["cold", "warm"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", PLAIN)
def test_the_model_against_the_hardware(cuda_device, roofline_parts, hardware, name, rows, state):
    """The same on this machine's GPU, now."""
    if cuda_device.name != "NVIDIA H200":
        pytest.skip(f"not checked: the model was held against an H200's counters, this is {cuda_device.name}")
    variant = roofline_parts.suite.variant(name)
    case = Case(variant, Shape(M=rows, N=variant.operator.default.N), roofline_parts.suite)
    sol, _ = roofline_parts.models.sol(case, state)
    assert_agree(sol, hardware[name, rows, state], rows)


def test_the_second_read_of_n2_is_free_on_an_rtx_4090(modelled, suite):
    """n2 reads x twice, and 72 MiB of L2 hold what its blocks in flight touch: 8N, where n1 moves 12N."""
    shape = Shape(M=8192, N=3584)
    for name, each in (("n1", 12), ("n2", 8), ("n3", 8)):
        found = modelled(suite, suite.variant(name), shape, "rtx4090", "warm").dram
        assert (found.read + found.written) / (shape.M * shape.N) == pytest.approx(each, rel=0.01), name


def test_few_rows_stay_in_the_cache(modelled, suite, variant):
    """At 32 rows nothing goes to DRAM when warm; cold, every input is read once and nothing is written yet."""
    shape = Shape(M=32, N=variant.operator.default.N)
    assert modelled(suite, variant, shape, "h200", "warm").dram == Dram(0, 0)
    cold = modelled(suite, variant, shape, "h200", "cold").dram
    of_rows = sum(array.dims == ("M", "N") for array in variant.operator.inputs)
    assert 4 * of_rows <= cold.read / (shape.M * shape.N) < 4 * of_rows + 0.2
    assert cold.written == 0


def test_sparse_memory_is_read_where_nothing_was_touched():
    """Bytes of a page that nobody touched are the poison, also when reading them makes the page."""
    array = SimDevice(sparse_above=2**10).empty((2**20,), "uint8")
    assert set(array[70000:70010].get()) == {POISON}
