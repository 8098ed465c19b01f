"""Which block of a cluster is first is luck: the checks look at both orders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, Shape, Variant
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run
from pytest_roofline.sanitize.report import FINDINGS
from pytest_roofline.sanitize.simulated import Simulator
from pytest_roofline.sim.device import SimDevice

TURNS = Operator(
    "turns",
    "y = x, written by whichever block comes first",
    arrays=(
        Array("x", ("N",)),
        Array("turn", (1,), role="output", dtype="int32", initial=0),
        Array("y", ("N",), role="output"),
    ),
    reference=lambda v: {"turn": np.full(1, 2), "y": v.x},
)
# Right if the first block of the cluster is the first to take a turn; else it writes past the end of y.
TEXT = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) turns(const float* x, int* turn, float* y, int N) {
    __shared__ int mine;
    if (threadIdx.x == 0) mine = atomicAdd(turn, 1);
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i + (blockIdx.x == 0 && mine == 1 ? N : 0)] = x[i];
}
"""


@pytest.fixture
def build(tmp_path: Path) -> Build:
    (tmp_path / "turns.cu").write_text(TEXT)
    launch = Launch("turns", args=("x", "turn", "y", "N"), grid=2, block=32, cluster=2)
    variant = replace(Variant("turns", TURNS, "turns.cu", (launch,)), root=tmp_path)
    return Build.of(Plan(Case(variant, Shape(N=64)), gpu_named("h200")))


def test_a_fault_of_the_second_block_of_a_cluster_being_first_is_found(build):
    """In one order the kernel is right; in the other it writes out of bounds, and memcheck says so."""
    first = SimDevice("h200")
    Run(first, build, guard=0).run()
    assert first.take_findings() == ()
    report = Simulator(SimDevice).check("memcheck", build)
    assert report.verdict == FINDINGS
    (finding,) = report.findings
    assert "past the end of argument 2 of turns" in finding.message
