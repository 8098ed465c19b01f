"""Counts of a few blocks stand for the grid, where all are alike; grids that are not are counted in full."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, ceil_div
from pytest_roofline.errors import NotCheckedError, WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.count import FULL_ELEMENTS, count, counting_device
from pytest_roofline.model.work import SAMPLE, sample_of, work_of
from pytest_roofline.run.run import Run

RTX4090 = gpu_named("rtx4090")


def counted_in_full(build):
    device = counting_device(build)
    run = Run(device, build, whole=True)
    run.run()
    device.synchronize()
    return [
        work_of(step, [launch], tuple(launch.touched), step.planned.blocks, step.planned.blocks)
        for step, launch in zip(run.program.steps, device.take_launches(), strict=True)
    ]


def assert_same(sampled, full):
    """What the sampled count says of the whole grid is exactly what the whole grid did."""
    assert (sampled.buffers, sampled.lines) == (full.buffers, full.lines)
    assert (sampled.issued, sampled.special) == (full.issued, full.special)
    assert (sampled.unique_bytes, sampled.largest_block) == (full.unique_bytes, full.largest_block)
    assert sampled.blocks == full.blocks


def by_bytes(touched):
    return {
        (int(block), int(first), int(end), one.write)
        for one in touched
        for block, first, end in zip(one.blocks, one.first, one.end, strict=True)
    }


VARIANTS = [f"n{n}" for n in range(1, 9)] + [f"s{n}" for n in range(1, 10)] + ["a1", "a2"]


@pytest.mark.parametrize("name", VARIANTS)
def test_sampled_counts_are_those_of_the_full_grid(build, name):
    """Eight of 48 rows, scaled, are exactly what all 48 give: by array, by line, by class of instruction."""
    made = build(name, "h200", M=48, N=1000)
    counted = count(made)
    assert counted.accuracy.values > 0
    for one, full in zip(counted.works, counted_in_full(made), strict=True):
        assert one.executed < one.blocks
        assert one.uniform
        assert_same(one, full)


COPY = Operator(
    "copy",
    "y = 2 x",
    arrays=(Array("x", ("N",)), Array("y", ("N",), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)
ONE_EACH = """
extern "C" __global__ void twice(const float* x, float* y, long long N) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = 2 * x[i];
}
"""
TWICE = Launch("twice", args=("x", "y", "N"), grid=lambda s: ceil_div(s.N, 256), block=256)


def test_c75_a_kernel_of_one_dim_is_sampled(kernel):
    """2^24 elements in one dim: eight blocks of 65536 are counted and compared, in seconds."""
    started = time.process_time()
    counted = count(kernel(ONE_EACH, COPY, TWICE, N=2**24))
    (work,) = counted.works
    assert (work.executed, work.blocks) == (SAMPLE, 2**16)
    assert work.buffers["x"].bytes == work.buffers["y"].bytes == 4 * 2**24
    assert counted.accuracy.values == SAMPLE * 256
    assert work.unique_bytes == 8 * 2**24
    assert time.process_time() - started < 10


def test_a_last_block_that_differs_is_counted_for_itself(kernel):
    """1000 elements past the last whole block: exactly what the whole grid does, and nothing is scaled from it."""
    made = kernel(ONE_EACH, COPY, TWICE, N=256 * 40 + 100)
    counted = count(made)
    (work,), (full,) = counted.works, counted_in_full(made)
    assert work.executed == SAMPLE - 1 < work.blocks == 41
    assert not work.uniform
    assert_same(work, full)
    assert work.buffers["x"].lanes == 256 * 40 + 100
    assert by_bytes(work.touched) == by_bytes(full.touched)
    assert counted.accuracy.values == (SAMPLE - 2) * 256 + 100


FOUR_ROWS = """
extern "C" __global__ void four(const float* x, float* y, int M, int N) {
    for (int r = 4 * blockIdx.x; r < 4 * blockIdx.x + 4 && r < M; ++r)
        for (int i = threadIdx.x; i < N; i += blockDim.x) y[(long long)r * N + i] = 2 * x[(long long)r * N + i];
}
"""
ROWS = Operator(
    "rows",
    "y = 2 x",
    arrays=(Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)


def test_c76_a_grid_that_drops_the_last_rows_is_a_wrong_answer(kernel):
    """M // 4 blocks of four rows: at 42 rows the last two are never written, sampled or not; rounded up it is right."""
    four = Launch("four", args=("x", "y", "M", "N"), grid=lambda s: ceil_div(s.M, 4), block=64)
    assert count(kernel(FOUR_ROWS, ROWS, four, M=42, N=100)).accuracy.values > 0
    dropped = Launch("four", args=("x", "y", "M", "N"), grid=lambda s: max(1, s.M // 4), block=64)
    made = kernel(FOUR_ROWS, ROWS, dropped, M=5, N=100)
    with pytest.raises(WrongAnswerError, match=r"100 of 500 values of y were never written, the first is y\[4, 0\]"):
        count(made)


FAR = """
extern "C" __global__ void far(const float* x, float* y) {
    if (threadIdx.x == 0 && blockIdx.x < 1024) y[blockIdx.x] = 2 * x[blockIdx.x];
}
"""


def test_c96_a_grid_of_the_most_blocks_is_sampled_or_refused_with_the_reason(kernel):
    """2^31 - 1 blocks: no array of all their numbers is made. Where all but the first do nothing they are unlike."""
    started = time.process_time()
    far = Launch("far", args=("x", "y"), grid=2**31 - 1, block=32)
    with pytest.raises(NotCheckedError, match=r"blocks of far do different work, .*too many blocks .*: 2147483647"):
        count(kernel(FAR, COPY, far, N=1024))
    every = FAR.replace("blockIdx.x < 1024", "true").replace("blockIdx.x]", "blockIdx.x % 1024]")
    (work,) = count(kernel(every, COPY, far, N=1024)).works
    assert work.buffers["y"].bytes == 4 * (2**31 - 1)
    assert work.touched is None
    assert time.process_time() - started < 20


SUM = Operator(
    "sum",
    "s = sum x",
    arrays=(Array("x", ("N",), low=0.0), Array("s", (), role="output", initial=0.0, rtol=1e-4)),
    reference=lambda v: {"s": v.x.sum()},
)
ATOMIC = """
extern "C" __global__ void add(const float* x, float* s) {
    atomicAdd(s, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
"""


def test_atomics_on_an_output_are_counted_on_some_blocks_and_not_checked(kernel):
    """Every block has a part in the sum: what eight do is scaled, and the answer is not checked, with the reason."""
    launch = Launch("add", args=("x", "s"), grid=lambda s: s.N // 256, block=256)
    counted = count(kernel(ATOMIC, SUM, launch, N=2**23))
    (work,) = counted.works
    assert work.executed == SAMPLE
    assert work.issued["atomic"] == 2**23 // 32
    assert counted.accuracy.values == 0
    assert "add works on s by atomics: every block has a part in the answer" in counted.accuracy.not_checked
    small = count(kernel(ATOMIC, SUM, launch, N=2048))
    assert (small.works[0].executed, small.accuracy.values) == (8, 1), "all blocks ran: the answer is checked"


WAITING = """
extern "C" __global__ void meet(const float* x, float* y, unsigned* count) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (*(volatile unsigned*)count < gridDim.x) {}
    }
    __syncthreads();
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
"""


def test_a_kernel_that_waits_for_all_blocks_is_told_as_that_in_seconds(kernel):
    """A grid-wide barrier without the blocks that were left out never opens: that is the reason given."""
    counter = Array("count", (), role="output", dtype="uint32", initial=0)
    meeting = Operator(
        "meeting",
        "y = 2 x",
        arrays=(*COPY.arrays, counter),
        reference=lambda v: {"y": 2 * v.x, "count": np.uint32(v.N // 256)},
    )
    launch = Launch("meet", args=("x", "y", "count"), grid=lambda s: s.N // 256, block=256)
    made = kernel(WAITING, meeting, launch, N=2 * FULL_ELEMENTS)
    started = time.process_time()
    with pytest.raises(NotCheckedError, match=r"meet waits for blocks that were left out, or .*too many elements"):
        count(made)
    assert time.process_time() - started < 20


TILED = """
extern "C" __global__ void tile(const float* a, const float* b, float* c, int M, int N) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    c[(long long)i * N + j] = a[i] * b[j];
}
"""
OUTER = Operator(
    "outer",
    "c = a b",
    arrays=(Array("a", ("M",)), Array("b", ("N",)), Array("c", ("M", "N"), role="output")),
    reference=lambda v: {"c": v.a[:, None] * v.b[None, :]},
)
TILE = Launch("tile", args=("a", "b", "c", "M", "N"), grid=lambda s: (s.N // 16, s.M // 16), block=(16, 16))


def test_tiles_of_a_matrix_are_sampled(kernel):
    """Blocks along x and y read and write at a steady distance along each: all of them follow from eight."""
    made = kernel(TILED, OUTER, TILE, M=16 * 9, N=16 * 7)
    (work,), (full,) = count(made).works, counted_in_full(made)
    assert work.executed == SAMPLE < work.blocks == 63
    assert_same(work, full)
    assert by_bytes(work.touched) == by_bytes(full.touched)
    large = count(kernel(TILED, OUTER, TILE, M=4096, N=4096))
    assert large.works[0].executed == SAMPLE
    assert large.accuracy.values > 0


TRIANGLE = """
extern "C" __global__ void triangle(const float* x, float* y, int N) {
    long long row = blockIdx.x;
    for (int i = threadIdx.x; i < N; i += blockDim.x) y[row * N + i] = i <= row ? x[row * N + i] : 0.0f;
}
"""
LOWER = Operator(
    "lower",
    "y = tril(x)",
    arrays=(Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")),
    reference=lambda v: {"y": np.tril(v.x)},
)


def test_a_grid_that_is_not_uniform_is_counted_in_full(kernel):
    """Each row of a lower triangle loads one element more than the row before: the sum is exact."""
    launch = Launch("triangle", args=("x", "y", "N"), grid=lambda s: s.M, block=32)
    counted = count(kernel(TRIANGLE, LOWER, launch, M=64, N=64))
    (work,) = counted.works
    assert work.executed == work.blocks == 64
    assert not work.uniform
    assert work.buffers["x"].lanes == 64 * 65 // 2
    assert counted.accuracy.values == 64 * 64
    with pytest.raises(NotCheckedError, match=r"blocks of triangle do different work, .*: 8388608, 4194304 at most"):
        count(kernel(TRIANGLE, LOWER, launch, M=4096, N=2048))


UNLIKE = """
extern "C" __global__ void unlike(const float* x, float* y, int N) {
    long long at = (long long)blockIdx.x * N + threadIdx.x;
    for (int again = 0; again <= blockIdx.x % 3; ++again) y[at] = 2 * *(volatile const float*)&x[at];
}
"""


def test_a_count_in_full_is_of_every_block(kernel):
    """Blocks that differ are all run, also where a check would run some of so many."""
    launch = Launch("unlike", args=("x", "y", "N"), grid=lambda s: s.M, block=32)
    rows = 3 * 2**13
    (work,) = count(kernel(UNLIKE, ROWS, launch, M=rows, N=32)).works
    assert work.executed == rows
    assert work.buffers["x"].lanes == 32 * rows * 2


def test_an_answer_that_is_wrong_in_the_sample_is_an_error(kernel):
    """A sampled count compares exactly what the units that ran wrote; an input that was changed is told too."""
    wrong = ONE_EACH.replace("2 * x[i]", "i == N - 1 ? 0 : 2 * x[i]")
    with pytest.raises(WrongAnswerError, match=r"1 of 1792 values of y are wrong"):
        count(kernel(wrong, COPY, TWICE, N=2**24))
    changing = ONE_EACH.replace("const float* x", "float* x").replace("y[i] =", "x[i] = 0, y[i] =")
    with pytest.raises(WrongAnswerError, match=r"changed its input x"):
        count(kernel(changing.replace("2 * x[i]", "2 * x[i] + 0"), COPY, TWICE, N=2**24))


def test_the_sample():
    """All of up to eight blocks, else eight in order with the first and the last, always the same ones."""
    assert [sample_of(blocks) for blocks in (1, 8)] == [[0], list(range(8))]
    for blocks in (9, 100, 16384, 2**31 - 1):
        found = sample_of(blocks)
        assert (found[0], found[-1], len(found)) == (0, blocks - 1, 8)
        assert found == sorted(set(found)) == sample_of(blocks)
    assert len({block % 8 for block in sample_of(4096)}) > 3, "no kind of block is left out by its number's divisors"
