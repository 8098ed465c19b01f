"""Large cases are run and checked by some units of their grids, and what those can't tell is not passed over."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, Shape, Variant, ceil_div
from pytest_roofline.errors import NotCheckedError, WrongAnswerError
from pytest_roofline.run import run as module
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import SAMPLE_BLOCKS, SAMPLE_UNITS, Run, check, units_to_run
from pytest_roofline.run.sample import DRAWN, LEAD
from pytest_roofline.sim.device import SimDevice

DOUBLE = Operator(
    "double",
    "y = 2 x",
    arrays=(Array("x", ("N",)), Array("y", ("N",), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)
TEXT = """
extern "C" __global__ void twice(const float* x, float* y, long long N) {
    INDEX i = (INDEX)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * x[i];
}
"""
GRID = lambda s: ceil_div(s.N, 256)  # noqa: E731


@pytest.fixture
def device() -> SimDevice:
    return SimDevice("rtx4090")


@pytest.fixture
def kernel(tmp_path: Path, device):
    """``kernel(text, operator, grid, N=...)`` is a build of the one kernel in ``text``."""

    def make(text=TEXT, operator=DOUBLE, grid=GRID, name="twice", args=("x", "y", "N"), block=256, **extents) -> Build:
        (tmp_path / "kernel.cu").write_text(text.replace("INDEX", "long long"))
        variant = Variant("v1", operator, "kernel.cu", (Launch(name, args=args, grid=grid, block=block),))
        return Build.of(Plan(Case(replace(variant, root=tmp_path), Shape(**extents)), device.gpu))

    return make


def test_some_units_of_many_are_run(device, kernel):
    """From 2^14 blocks on the first, the last and some drawn; under that all of them, and on a GPU all always."""
    many, few = kernel(N=256 * SAMPLE_UNITS), kernel(N=256 * (SAMPLE_UNITS - 1))
    units = units_to_run(device, many)
    assert units[:LEAD] == list(range(LEAD))
    assert units[-1] == SAMPLE_UNITS - 1
    assert len(units) <= LEAD + DRAWN + 1
    assert units_to_run(device, few) is None
    device.evidence = "measured"
    assert units_to_run(device, many) is None


def test_c75_the_last_block_of_a_kernel_of_one_dim_is_checked(device, kernel):
    """2^24 elements and 100 more: the part that the last block has is compared, and one that drops it is found."""
    size = 2**24 + 100
    assert check(device, kernel(N=size)).values >= 256 * LEAD + 100
    dropped = TEXT.replace("i < N", "i < N / 256 * 256")
    with pytest.raises(WrongAnswerError, match=r"never written|wrote nothing"):
        check(SimDevice("rtx4090"), kernel(text=dropped, grid=lambda s: s.N // 256, N=257))
    wrong = TEXT.replace("2 * x[i]", "i >= N / 256 * 256 ? 0 : 2 * x[i]")
    with pytest.raises(WrongAnswerError, match=r"100 of \d+ values of y are wrong"):
        check(SimDevice("rtx4090"), kernel(text=wrong, N=size))


def test_a_sample_must_be_able_to_stand_alone(device, kernel, monkeypatch):
    """Atomics, or a reference that needs everything: in full where that is feasible, else not checked, with why."""
    total = Operator(
        "total",
        "s = sum x",
        arrays=(Array("x", ("N",), low=0.0), Array("s", (), role="output", initial=0.0, rtol=1e-3)),
        reference=lambda v: {"s": v.x.sum()},
    )
    text = """
    extern "C" __global__ void twice(const float* x, float* s) {
        if (threadIdx.x == 0) atomicAdd(s, x[blockIdx.x]);
    }
    """
    made = kernel(text=text, operator=total, args=("x", "s"), grid=lambda s: s.N, block=32, N=SAMPLE_UNITS)
    assert units_to_run(device, made) is None
    monkeypatch.setattr(module, "SAMPLE_BLOCKS", SAMPLE_UNITS - 1)
    with pytest.raises(NotCheckedError, match=r"too large to simulate in full, and twice works on s by atomics"):
        units_to_run(device, made)
    running = replace(DOUBLE, name="running", reference=lambda v: {"y": 2 * np.cumsum(v.x)})
    with pytest.raises(NotCheckedError, match=r"the reference of running needs all of its inputs for any value"):
        units_to_run(device, kernel(operator=running, N=256 * SAMPLE_UNITS))


def test_c96_the_largest_grid_is_sampled_whatever_its_arrays(device, kernel):
    """2^31 - 1 blocks of which all but four do nothing: in seconds, and idle blocks are no wrong offsets."""
    started = time.process_time()
    made = kernel(grid=2**31 - 1, N=1000)
    assert made.plan.launches[0].blocks > SAMPLE_BLOCKS
    assert check(device, made).values == LEAD * 256
    assert time.process_time() - started < 20


ROWS = Operator(
    "rows",
    "y = 2 x",
    arrays=(Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)
ROW = """
extern "C" __global__ void row(const float* x, float* y, int M, int N) {
    OFFSET at = (OFFSET)blockIdx.x * N;
    for (int i = threadIdx.x; i < N; i += blockDim.x) y[at + i] = 2 * x[at + i];
}
"""


@pytest.mark.parametrize(
    ("offset", "shape", "told"),
    [
        ("long long", {"M": 2**22, "N": 2**10 + 4}, ""),
        ("unsigned", {"M": 2**22, "N": 2**10 + 4}, r"off from where the first ones point: its offset is .* in 32 bits"),
        ("unsigned", {"M": 2**22 + 8, "N": 2**10}, r"off from where the first ones point: its offset is .* in 32 bits"),
    ],
)
def test_c89_an_offset_in_32_bits_is_found(device, kernel, offset, shape, told):
    """Past 2^32 elements it lands on another row, which it does right: only where it lands tells."""
    text, args = ROW.replace("OFFSET", offset), ("x", "y", "M", "N")
    made = kernel(text=text, operator=ROWS, name="row", args=args, grid=lambda s: s.M, **shape)
    if not told:
        assert check(device, made).values > 0
        return
    with pytest.raises(WrongAnswerError, match=told):
        check(device, made)


def test_a_block_that_writes_nothing_of_its_own_is_asked_alone(device, kernel):
    """One that is idle at the end of a grid is none that writes where others have written."""
    text = """
    extern "C" __global__ void twice(const float* x, float* y, long long N) {
        long long i = (long long)(blockIdx.x % 4) * blockDim.x + threadIdx.x;
        if (i < N) y[i] = 2 * x[i];
    }
    """
    with pytest.raises(WrongAnswerError, match="wrote nothing to y that others had not written"):
        check(device, kernel(text=text, grid=2 * SAMPLE_BLOCKS, N=1000))


def test_a_run_in_full_is_one_whatever_its_size(device, kernel):
    """``whole`` runs every block, which a count in full needs."""
    made = kernel(N=256 * SAMPLE_UNITS)
    run = Run(device, made, whole=True)
    run.run()
    assert run.units is None
    assert len(run.written()["y"]) == 256 * SAMPLE_UNITS


def test_what_the_verdict_looked_at_is_known(device, kernel):
    """All of a small output; of a sampled run the indices that its units wrote."""
    small = Run(device, kernel(N=1000))
    small.run()
    small.verify()
    assert small.picked == {}
    large = Run(device, kernel(N=256 * SAMPLE_UNITS))
    large.run()
    found = large.verify()
    assert len(large.picked["N"]) == found.values
