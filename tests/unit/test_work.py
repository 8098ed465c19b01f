"""Counts of a few blocks stand for the grid, where all are alike; grids that are not are counted in full."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pytest_roofline.run.check import Job, images_of

from pytest_roofline import Shape, load
from pytest_roofline.bench.modelled import counters, grown
from pytest_roofline.errors import NotCheckedError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model import work as module
from pytest_roofline.model.facts import facts_of
from pytest_roofline.model.l2 import Dram
from pytest_roofline.model.sol import LAUNCH_SECONDS, LaunchFloor, floor, limits
from pytest_roofline.model.work import Work, count, sample_of, unique_bytes
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.observe.traffic import Counts, Touch, kind_of

RTX4090 = gpu_named("rtx4090")


def test_sampled_counts_are_those_of_the_full_grid(suite, variant):
    """Eight of 48 rows, scaled, are exactly what all 48 give: by array, by line, by class of instruction."""
    shape = Shape(M=48, N=1000)
    sampled, _ = count(suite, variant, shape, RTX4090)
    device = SimDevice(RTX4090)
    device.detailed = device.tracing = True
    job = Job(device, suite, variant, shape)
    job.run()
    for one, step, launch in zip(sampled, job.program.steps, device.take_launches(), strict=True):
        full = module._work(step, [launch], tuple(launch.touched), 48)
        assert one.executed == 8
        assert one.uniform
        assert (one.buffers, one.lines) == (full.buffers, full.lines)
        assert (one.issued, one.special) == (full.issued, full.special)
        assert one.unique_bytes == full.unique_bytes


TRIANGLE = """
extern "C" __global__ void triangle(const float* x, float* y, int N) {
    long long row = blockIdx.x;
    for (int i = threadIdx.x; i < N; i += blockDim.x) y[row * N + i] = i <= row ? x[row * N + i] : 0.0f;
}
"""
DECLARATION = """
import numpy as np
from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant

def lower(arrays, scalars):
    return {"y": np.tril(arrays["x"])}

OPERATOR = Operator("lower", "y = tril(x)", (Array("x", ("M", "N")),), (Array("y", ("M", "N")),), (), lower,
                    Shape(64, 64), 1e-6, lambda n: 0.0, rowwise=False)
SUITE = Suite((Variant("triangle", OPERATOR, "triangle.cu", "",
                      (Launch("triangle", ("x", "y", "N"), ("x",), ("y",), block=(32, 1, 1)),)),), ())
"""


def test_a_grid_that_is_not_uniform_is_counted_in_full(tmp_path):
    """Each row of a lower triangle loads one element more than the row before: the sum is exact."""
    (tmp_path / "triangle.cu").write_text(TRIANGLE)
    (tmp_path / "suite.py").write_text(DECLARATION)
    suite = load(tmp_path / "suite.py")
    variant = suite.variants[0]
    (found,), accuracy = count(suite, variant, Shape(M=64, N=64), RTX4090)
    assert found.executed == found.blocks == 64
    assert not found.uniform
    assert found.buffers["x"].lanes == 64 * 65 // 2
    assert accuracy.rows == 64
    # Where its operator does go by rows, the sampled blocks are seen to differ.
    by_rows = dataclasses.replace(
        variant,
        operator=dataclasses.replace(
            variant.operator, rowwise=True, reference=lambda arrays, _: {"y": np.tril(arrays["x"])[: len(arrays["x"])]}
        ),
    )
    (again,), _ = count(suite, by_rows, Shape(M=64, N=64), RTX4090)
    assert again.executed == 64
    assert again.buffers["x"].lanes == found.buffers["x"].lanes
    with pytest.raises(NotCheckedError, match="too many elements to count all of them: 8388608, 4194304 at most"):
        count(suite, variant, Shape(M=4096, N=2048), RTX4090)


def test_what_is_too_large_to_count_is_not_checked(empty_project):
    """A perf test whose blocks differ and are too many is a skip that says so, and no failure."""
    folder = empty_project.path / "kernels"
    folder.mkdir()
    (folder / "triangle.cu").write_text(TRIANGLE)
    workload = 'Workload("main", {"lower": (Shape(4096, 2048),)})'
    (folder / "suite.py").write_text(
        DECLARATION.replace("Variant, Shape", "Variant, Shape, Workload").replace("),), ())", f"),), ({workload},))")
    )
    empty_project.pytester.makeini("[pytest]\nroofline_suite = kernels/suite.py\n")
    empty_project.use_tests(perf="perf/test_perf.py")
    empty_project.hide_gpu()
    result = empty_project.run("-k", "test_variant")
    result.assert_outcomes(skipped=1, deselected=result.parseoutcomes().get("deselected", 0))
    result.stdout.fnmatch_lines(["1 tests (1 in *): the blocks of triangle differ *too many elements to count all*"])


def test_the_sample():
    """All of up to eight blocks, else eight in order with the first and the last, always the same ones."""
    assert [sample_of(blocks) for blocks in (1, 8)] == [[0], list(range(8))]
    for blocks in (9, 100, 16384):
        found = sample_of(blocks)
        assert (found[0], found[-1], len(found)) == (0, blocks - 1, 8)
        assert found == sorted(set(found)) == sample_of(blocks)
    assert len({block % 8 for block in sample_of(4096)}) > 3, "no kind of block is left out by its number's divisors"


def touch(*spans, write=False):
    first, end = zip(*spans, strict=True)
    return Touch(np.arange(len(spans)), np.array(first), np.array(end), write)


def test_unique_bytes_count_what_is_touched_twice_once():
    """Overlaps and repeats of a block count once, other blocks' accesses not at all."""
    touched = [touch((0, 64), (1000, 1064)), touch((32, 96), (1000, 1064)), touch((200, 204), (0, 4))]
    assert [unique_bytes(touched, block) for block in (0, 1, 2)] == [100, 68, 0]


def test_instructions_have_a_class():
    """Moves and integers are "other", for ptxas may drop them; a load of a parameter is no access to memory."""
    kinds = {
        "ld.global.nc.v4.f32": "load",
        "ld.param.u64": "other",
        "st.shared.f32": "store",
        "ex2.approx.ftz.f32": "special",
        "div.full.f32": "special",
        "div.s32": "other",
        "fma.rn.f32": "float",
        "add.s64": "other",
        "add.ftz.f32": "float_add",
        "add.rn.f32": "float",
        "neg.f32": "other",
        "shfl.sync.bfly.b32": "shuffle",
        "bar.sync": "barrier",
        "atom.global.add.f32": "atomic",
        "mov.u32": "other",
    }
    assert {opcode: kind_of(opcode) for opcode in kinds} == kinds


def made(**changed):
    counts = Counts(lanes=2560, bytes=10240, requests=80, unique_bytes=10240, sectors=320)
    spans = [(1024 * n, 1024 * (n + 1)) for n in range(10)]
    work = Work("k", 10, 4, {"x": counts}, {}, {"float": 5120, "other": 9999}, 2560, (touch(*spans),))
    return dataclasses.replace(work, **changed)


def test_limits_by_hand():
    """DRAM bytes over the peak; the rest by the SM that has most to do, here one block of ten on an SM of its own."""
    found = limits(made(), Dram(10080, 0), RTX4090)
    clock = 2520e6
    assert found == pytest.approx(
        {
            "DRAM": 10080 / 1008.096e9,
            "L2": 1024 / (64 * clock),
            "special": 256 / (16 * clock),
            "issue": 512 / (4 * clock),
        }
    )
    two = limits(made(blocks=129), Dram(0, 0), RTX4090)["special"]
    assert two == pytest.approx(2560 / 129 * 2 / (16 * clock))
    uneven = limits(made(blocks=10, executed=10), Dram(0, 0), RTX4090)["special"]
    assert uneven == pytest.approx(2560 / 10 / (16 * clock)), "blocks of unequal work may be spread evenly"


def test_the_ceiling_that_binds_is_named():
    """The longest time, or the launch where all are shorter; the floor is the launch and that time."""
    long = LaunchFloor(made(), None, {"DRAM": 3e-6, "issue": 5e-6})
    assert (long.bound, long.seconds) == ("issue", pytest.approx(LAUNCH_SECONDS + 5e-6))
    short = LaunchFloor(made(), None, {"DRAM": 1e-9})
    assert (short.bound, short.seconds) == ("launch", pytest.approx(LAUNCH_SECONDS + 1e-9))


def test_what_has_gaps_is_not_modelled():
    """A block that touches four bytes here and there spans more than it moves: its DRAM traffic is not guessed."""
    assert made().dense
    gaps = made(buffers={"x": Counts(lanes=10, bytes=40, requests=10, unique_bytes=40, sectors=10)})
    assert not gaps.dense
    assert gaps.unique_bytes == 0
    assert limits(gaps, None, RTX4090)["L2"] == 0


def test_what_blocks_share_goes_through_l2_once():
    """A table that all blocks read may stay in L1: its bytes are spread over the SMs, those of one block are not."""
    counts = Counts(lanes=1, bytes=1, requests=1, unique_bytes=10 * 4096, sectors=10 * 128)
    table = made(buffers={"w": counts}, touched=(touch(*[(0, 4096)] * 10),))
    assert (table.unique_bytes, table.largest_block) == (4096, 4096)
    assert limits(table, None, RTX4090)["L2"] == pytest.approx(4096 / (64 * 2520e6))


def test_counters_that_grew_are_named_with_the_largest_first():
    """What is new, what doubled, and what shrank a little; what is equal is left out."""
    then = counters(made())
    now = counters(made(special=5120, issued={"float": 5000, "other": 9999, "store": 3}))
    assert grown(now, then) == [
        "k.issued.store 0 -> 3 (new)",
        "k.special_lanes 2560 -> 5120 (+100 %)",
        "k.issued.float 5120 -> 5000 (-2 %)",
    ]
    assert grown(then, then) == []


def test_a_floor_with_gaps_has_no_dram_in_it(suite):
    """Where one launch touches memory with gaps the DRAM traffic is None, and no ceiling of it binds."""
    gaps = made(buffers={"x": Counts(lanes=10, bytes=40, requests=10, unique_bytes=40, sectors=10)})
    variant = suite.variant("n3")
    facts = facts_of(variant, Shape(M=10, N=1024), RTX4090, images_of(suite, variant, RTX4090.arch))
    found = floor(facts, [gaps], "cold")
    assert found.dram is None
    assert "DRAM" not in found.launches[0].limits
    assert floor(facts, [made()], "cold").dram == Dram(10240, 0)
