"""Teeth against faults of a declaration: the generic cases find what one usual shape does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant, ceil_div
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.run.build import Build
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import check
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.testing.cases import answer_cases

ROWS = 4  # of a block, a warp each
TEXT = """
extern "C" __global__ void scale(const float* x, float* y, int M, int N) {
    int row = blockIdx.x * 4 + threadIdx.x / 32;
    if (row >= M) return;
    for (int i = threadIdx.x % 32; i < N; i += 32) y[(long long)row * N + i] = 2 * x[(long long)row * N + i];
}
"""
DOUBLE = Operator(
    "double",
    "y = 2 x",
    arrays=(Array("x", ("M", "N"), low=-1.0), Array("y", ("M", "N"), role="output")),
    reference=lambda v: 2 * v.x,
    default=Shape(M=512, N=96),
)


def suite_of(folder: Path, grid) -> Suite:
    (folder / "scale.cu").write_text(TEXT)
    launch = Launch("scale", args=("x", "y", "M", "N"), grid=grid, block=32 * ROWS)
    variant = replace(Variant("four", DOUBLE, "scale.cu", (launch,)), root=folder)
    return replace(Suite((variant,), {"main": (DOUBLE.default,)}), root=folder)


def wrong(suite: Suite) -> set[int]:
    """The rows of the generic cases of which the answer is wrong, modulo those of a block."""
    device, found = SimDevice("rtx4090"), set()
    for case in answer_cases(suite).values():
        try:
            check(device, Build.of(Plan(case, device.gpu)))
        except WrongAnswerError as error:
            said = str(error)
        else:
            continue
        assert "never written" in said or "wrote nothing" in said
        found.add(case.shape.M % ROWS)
    return found


def test_the_generic_cases_of_four_rows_a_block_are_right(tmp_path):
    """What the next test breaks is right, at every case."""
    assert wrong(suite_of(tmp_path, lambda s: ceil_div(s.M, ROWS))) == set()


def test_a_grid_that_is_rounded_down_is_caught_by_every_remainder(tmp_path):
    """M // 4 blocks do the default right, and leave up to three rows out: some case has one, two and three too many."""
    assert wrong(suite_of(tmp_path, lambda s: max(1, s.M // ROWS))) == {1, 2, 3}
