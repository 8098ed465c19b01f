"""Generic tests find their shapes whatever a project declares, and the faults that only some shapes show."""

from __future__ import annotations

import pytest

from pytest_roofline import Array, Launch, Limit, Operator, Shape
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.run.run import check
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.testing.cases import PARAMETERS, answer_cases, huge_cases, sanitize_cases
from pytest_roofline.testing.statics import builds

ROWS = Operator(
    "rows",
    "y = 2 x",
    arrays=(Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)
SUM = Operator(
    "sum",
    "s[m] = sum of x[m]",
    arrays=(Array("x", ("M", "N")), Array("s", ("M",), role="output")),
    reference=lambda v: {"s": v.x.sum(axis=1)},
)
# A row a block, 256 elements at a time: what is over is dropped.
BY_256 = """
extern "C" __global__ void rows(const float* x, float* y, int N) {
    x += (long long)blockIdx.x * N; y += (long long)blockIdx.x * N;
    for (int i = threadIdx.x; i + 256 - threadIdx.x <= N; i += 256) y[i] = 2 * x[i];
}
"""
# One row; four elements at a time, and those that are over if KEPT.
FLAT_SUM = """
extern "C" __global__ void sum(const float* x, float* s, int N) {
    float mine = 0;
    for (int i = 4 * threadIdx.x; i + 3 < N; i += 128) mine += (x[i] + x[i + 1]) + (x[i + 2] + x[i + 3]);
    if (KEPT && threadIdx.x < N % 4) mine += x[N / 4 * 4 + threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
    if (threadIdx.x == 0) *s = mine;
}
"""
FOUR_ROWS = """
extern "C" __global__ void four(const float* x, float* y, int M, int N) {
    for (int r = 4 * blockIdx.x; r < 4 * blockIdx.x + 4 && r < M; ++r)
        for (int i = threadIdx.x; i < N; i += blockDim.x) y[(long long)r * N + i] = 2 * x[(long long)r * N + i];
}
"""


def wrong(suite, built) -> list[str]:
    """The generic cases at which the answer is wrong."""
    device, found = SimDevice("h200"), []
    for name, case in answer_cases(suite).items():
        try:
            check(device, built(suite, case.shape))
        except WrongAnswerError:
            found.append(name)
    return found


@pytest.mark.parametrize("default", [None, Shape(M=64, N=1024)])
def test_c73_shapes_that_a_limit_allows_are_found(declared, built, default):
    """Of N % 256 == 0 multiples run, in every kind of case, and what lies beside one is refused; nothing is wrong."""
    operator = Operator(**{**vars(ROWS), "default": default})
    limit = Limit(lambda s: s.N % 256 == 0, "N % 256 == 0: 256 elements at a time")
    suite = declared(
        BY_256, operator, Launch("rows", args=("x", "y", "N"), grid=lambda s: s.M, block=256), limits=(limit,)
    )
    shapes = [case.shape for case in answer_cases(suite).values()]
    assert {256, 512} <= {shape.N for shape in shapes}
    assert {1, 2, 3, 5, 7, 31, 33} <= {shape.M for shape in shapes}
    assert all(shape.N % 256 == 0 for shape in shapes)
    ((_, refused),) = PARAMETERS["refused_case"](suite).values()
    assert refused.N % 256
    assert len(huge_cases(suite)) == len(sanitize_cases(suite)) == 1
    assert [*builds(suite, suite.variants[0], "sm_90")]
    assert wrong(suite, built) == []


def test_c73_the_kernel_is_wrong_where_the_limit_is_not_declared(declared, built):
    """The same kernel without its limit is found at the shapes beside a multiple."""
    suite = declared(BY_256, ROWS, Launch("rows", args=("x", "y", "N"), grid=lambda s: s.M, block=256))
    found = wrong(suite, built)
    assert {"v1-8x1", "v1-8x255", "v1-8x257"} <= {*found}
    assert "v1-8x256" not in found


@pytest.mark.parametrize("kept", [True, False])
def test_c74_the_other_extents_have_all_their_boundaries(declared, built, kept):
    """With M <= 1 there are all sizes of N, and a sum that drops a tail of three is wrong at some of them."""
    limit = Limit(lambda s: s.M <= 1, "M <= 1: one row")
    text = FLAT_SUM.replace("KEPT", str(kept).lower())
    suite = declared(text, SUM, Launch("sum", args=("x", "s", "N"), grid=1, block=32), limits=(limit,))
    shapes = {case.shape for case in answer_cases(suite).values()}
    assert {1, 2, 3, 5, 7, 31, 32, 33, 1000, 1001} <= {shape.N for shape in shapes}
    assert {shape.M for shape in shapes} == {1}
    ((_, refused),) = PARAMETERS["refused_case"](suite).values()
    assert refused.M > 1
    assert huge_cases(suite) == {}
    assert {"v1-1x1", "v1-1x3", "v1-1x33", "v1-1x1001"} <= {*wrong(suite, built)} or kept
    assert not kept or wrong(suite, built) == []


@pytest.mark.parametrize("grid", ["dropped", "covered"])
def test_c76_remainders_of_what_a_block_covers_are_among_the_cases(declared, built, grid):
    """max(1, M // 4) blocks of four rows leave the last ones out; each remainder of 4 is run."""
    grids = {"dropped": lambda s: max(1, s.M // 4), "covered": lambda s: -(-s.M // 4)}
    launch = Launch("four", args=("x", "y", "M", "N"), grid=grids[grid], block=64)
    suite = declared(FOUR_ROWS, ROWS, launch)
    assert {case.shape.M % 4 for case in answer_cases(suite).values() if case.shape.M > 4} == {0, 1, 2, 3}
    found = wrong(suite, built)
    assert bool(found) == (grid == "dropped")
    assert grid == "covered" or {"v1-5x8", "v1-7x8"} <= {*found}
