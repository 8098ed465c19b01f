"""The second schedule is another one, over the blocks of a cluster too: lanes, blocks of code and chunks in reverse."""

from __future__ import annotations

import numpy as np
import pytest
from finding_run import Empty, kernel, run

from pytest_roofline.sim.device import SimDevice

CLUSTER = "__cluster_dims__(2, 1, 1) "
# Each lane of both blocks counts a word up in the shared memory of the first block.
SHARED = kernel(
    "int* y",
    "__shared__ int counter;",
    "if (t == 0) counter = 0;",
    'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");',
    "unsigned here = (unsigned)__cvta_generic_to_shared(&counter), there; int old;",
    'asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(here));',
    'asm volatile("atom.shared::cluster.add.u32 %0, [%1], 1;" : "=r"(old) : "r"(there) : "memory");',
    "y[i] = old;",
    'asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");',
    bounds=CLUSTER,
)
GLOBAL = kernel("int* y, int* counter", "y[i] = atomicAdd(counter, 1);", bounds=CLUSTER)
BLOCKS = kernel("int* y, int* counter", "if (t == 0) y[b] = atomicAdd(counter, 1);", bounds=CLUSTER)
BRANCHES = kernel(
    "int* y, int* counter",
    "int old;",
    "if (b) { old = atomicAdd(counter, 1) + 1000; } else { old = atomicAdd(counter, 1) * 3; }",
    "y[i] = old;",
    bounds=CLUSTER,
)


def under_both(text, args, grid=(2,), block=(32,)):
    """The first array after a run under the first schedule, and under the second."""
    found = []
    for reverse in (False, True):
        ran = run(text, args, grid, block, device=SimDevice("h200", reverse=reverse))
        assert ran.texts() == []
        found.append(ran.arrays[0])
    return found


def zero() -> np.ndarray:
    return np.zeros(1, np.int32)


@pytest.mark.parametrize(
    ("text", "args"),
    [(SHARED, (Empty(64, "int32"),)), (GLOBAL, (Empty(64, "int32"), zero()))],
    ids=["shared memory of another block", "global memory"],
)
def test_lanes_of_a_cluster_are_taken_in_reverse(text, args):
    """The first lane of the first block is first under the one schedule and last under the other."""
    first, second = under_both(text, args)
    assert first.tolist() == [*range(64)]
    assert second.tolist() == [*range(63, -1, -1)]


def test_chunks_of_clusters_are_taken_in_reverse():
    """Clusters that do not run together, for there are too many, are taken from the last."""
    first, second = under_both(BLOCKS, (Empty(512, "int32"), zero()), grid=(512,), block=(256,))
    assert first.tolist() == [*range(512)]
    assert second.tolist() == [*range(511, -1, -1)]


def test_of_two_branches_the_other_is_run_first():
    """Blocks of a cluster that go two ways: which goes first is another one under the second schedule."""
    first, second = under_both(BRANCHES, (Empty(64, "int32"), zero()))
    of_first, of_second = (sorted((found[32:] - 1000).tolist()) for found in (first, second))
    assert {tuple(of_first), tuple(of_second)} == {tuple(range(32)), tuple(range(32, 64))}
