"""Faults that generic cases find in kernels of other kinds, and right kernels that they pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Limit, Operator, ceil_div
from pytest_roofline.errors import RooflineError, StaticCheckError, WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import check
from pytest_roofline.run.static import check_accesses
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.testing.cases import answer_cases

GPU = gpu_named("rtx4090")

DOUBLE = Operator(
    "double",
    "y = 2 x",
    arrays=(Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)
SUMS = Operator(
    "sums",
    "s = sum of each row",
    arrays=(Array("x", ("M", "N")), Array("s", ("M",), role="output", rtol=1e-5)),
    reference=lambda v: {"s": v.x.sum(axis=1)},
)


def found_in(suite) -> dict[str, RooflineError | None]:
    """What each generic case comes to on the simulator, by id."""
    device, found = SimDevice(GPU), {}
    for name, case in answer_cases(suite).items():
        try:
            assert check(device, Build.of(Plan(case, GPU))).values > 0
            found[name] = None
        except WrongAnswerError as error:
            found[name] = error
    return found


FOUR_ROWS = """
extern "C" __global__ void four(const float* x, float* y, int M, int N) {
    for (int r = 4 * blockIdx.x; r < 4 * blockIdx.x + 4 && r < M; ++r)
        for (int i = threadIdx.x; i < N; i += blockDim.x) y[(long long)r * N + i] = 2 * x[(long long)r * N + i];
}
"""


def test_c76_a_grid_rounded_down_is_found(declared):
    """max(1, M // 4) blocks of four rows: right at M = 1, 2 and 3 and at multiples of four, wrong at all others."""

    def rounded(grid):
        return declared(DOUBLE, Launch("four", args=("x", "y", "M", "N"), grid=grid, block=64), FOUR_ROWS)

    right = found_in(rounded(lambda s: ceil_div(s.M, 4)))
    assert len(right) > 20
    assert not any(right.values())
    wrong = {name: error for name, error in found_in(rounded(lambda s: max(1, s.M // 4))).items() if error}
    assert {"v1-5x8", "v1-6x8", "v1-7x8"} <= {*wrong}
    assert all("were never written" in str(error) for error in wrong.values())


TILES = """
extern "C" __global__ void tiles(const float* x, float* y, int M, int N) {
    const long long row = (long long)blockIdx.x * N;
    for (int i = threadIdx.x; i < N; i += 256) y[row + i] = 2 * x[row + i];
}
"""


def test_c73_a_kernel_of_whole_tiles_is_run_and_its_fault_found(declared):
    """N % 256 == 0: cases of one tile, of two and more are run; a kernel that does the first tile alone is wrong."""

    def tiled(text):
        launch = Launch("tiles", args=("x", "y", "M", "N"), grid=lambda s: s.M, block=256)
        return declared(DOUBLE, launch, text, Limit(lambda s: s.N % 256 == 0, "whole tiles of 256"))

    right = found_in(tiled(TILES))
    assert {"v1-8x256", "v1-8x512", "v1-3x256"} <= {*right}
    assert not any(right.values())
    wrong = found_in(tiled(TILES.replace("i < N;", "i < 256;")))
    assert wrong["v1-8x256"] is None
    assert "2048 of 4096 values of y were never written" in str(wrong["v1-8x512"])


FLAT = """
extern "C" __global__ void flat(const float* x, float* s, int N) {
    float sum = 0;
    for (int i = threadIdx.x; i < TRIPS; i += 256) sum += x[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(s, sum);
}
"""


def test_c74_a_flat_reduction_that_drops_the_tail_is_found(declared):
    """M <= 1: right at every N; what drops the tail past a multiple of 4 is wrong at 1, 257 and 1001, not at 256."""
    sums = replace(SUMS, arrays=(SUMS.arrays[0], replace(SUMS.arrays[1], initial=0.0)))

    def flat(trips):
        launch = Launch("flat", args=("x", "s", "N"), grid=1, block=256)
        return declared(sums, launch, FLAT.replace("TRIPS", trips), Limit(lambda s: s.M <= 1, "one row"))

    right = found_in(flat("N"))
    assert len(right) >= 15
    assert not any(right.values())
    wrong = {name for name, error in found_in(flat("N / 4 * 4")).items() if error}
    assert {"v1-1x1", "v1-1x257", "v1-1x1001"} <= wrong
    assert "v1-1x256" not in wrong


MIXED = """
extern "C" __global__ void mixed(const float4* x, const long long* at, float* s, signed char* sign, int N) {
    const long long row = at[blockIdx.x];
    float sum = 0;
    for (int i = threadIdx.x; i < N / 4; i += 32) {
        const float4 v = x[row * (N / 4) + i];
        sum += v.x + v.y + v.z + v.w;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) { s[blockIdx.x] = sum; sign[blockIdx.x] = sum < 0 ? -1 : 1; }
}
"""
PICKED = Operator(
    "picked",
    "s = sum of the row at[m], sign = its sign",
    arrays=(
        Array("x", ("M", "N"), low=1.0, high=2.0),
        Array("at", ("M",), dtype="int64", low=0, high="M"),
        Array("s", ("M",), role="output", rtol=1e-5),
        Array("sign", ("M",), role="output", dtype="int8"),
    ),
    reference=lambda v: {"s": v.x[v.at].sum(axis=1), "sign": np.where(v.x[v.at].sum(axis=1) < 0, -1, 1)},
)
WIDTHS = {"x": 16, "at": 8, "s": 4, "sign": 1}


@pytest.mark.parametrize("name", ["", "x", "at", "s", "sign"])
def test_c71_each_array_has_a_width_of_its_own(declared, name):
    """16-byte rows, 8-byte indices, 4-byte sums and single bytes pass; a width declared wrong names its array."""
    widths = {**WIDTHS, **({name: {16: 8, 8: 16, 4: 8, 1: 4}[WIDTHS[name]]} if name else {})}
    launch = Launch("mixed", args=("x", "at", "s", "sign", "N"), grid=lambda s: s.M, block=32, vector=widths)
    suite = declared(PICKED, launch, MIXED, Limit(lambda s: s.N % 4 == 0, "float4"))
    built = [Build.of(Plan(case, GPU)) for case in answer_cases(suite).values()]
    if not name:
        assert not any(found_in(suite).values())
        check_accesses(built[0], built[0].launches[0])
        return
    with pytest.raises(StaticCheckError, match=f"(loads of|stores to) {name} .*declared is a width of {widths[name]}"):
        check_accesses(built[0], built[0].launches[0])


def test_c72_an_output_by_atomics_alone_is_written(declared):
    """red and atom are writes: the static check passes an output that no store touches, and its answers are checked."""
    sums = replace(SUMS, arrays=(SUMS.arrays[0], replace(SUMS.arrays[1], initial=0.0)))
    text = FLAT.replace("x[i]", "x[(long long)blockIdx.x * N + i]").replace("atomicAdd(s,", "atomicAdd(s + blockIdx.x,")
    launch = Launch("flat", args=("x", "s", "N"), grid=lambda s: s.M, block=256, vector=4)
    suite = declared(sums, launch, text.replace("TRIPS", "N"))
    assert not any(found_in(suite).values())
    (case, *_) = answer_cases(suite).values()
    built = Build.of(Plan(case, GPU))
    check_accesses(built, built.launches[0])
