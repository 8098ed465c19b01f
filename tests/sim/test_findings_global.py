"""Races on global memory between the blocks of a launch, what depends on their order, and prefetches."""

from __future__ import annotations

import numpy as np
import pytest
from finding_run import Defect, Empty, assert_found_and_mended, errors, floats, ints, kernel, run

from pytest_roofline.sim.device import SimDevice

LAST = (
    "float* part, unsigned* tickets, float* y",
    "__shared__ bool last;",
    "if (t == 0) {",
    "part[b] = b + 1.0f;",
    "",
    "last = atomicAdd(tickets, 1u) == gridDim.x - 1;",
    "}",
    "__syncthreads();",
    "if (last && t == 0) {",
    "float sum = 0;",
    "for (int k = 0; k < gridDim.x; ++k) sum += part[k];",
    "y[0] = sum;",
    "}",
)


def prefetch(at: str, size: str) -> str:
    return f'asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"({at}), "r"({size}) : "memory");'


DEFECTS = [
    Defect(
        "two-writers",
        kernel("float* y", "if (t == 0) y[0] = 1;"),
        ("y[0]", "y[b]"),
        (Empty(2),),
        """race in k: write of what block 1 writes too in the same launch, at byte 0 of argument 0 of k (2
        float32) at k.cu:3, block (0, 0, 0), thread (0, 0, 0)""",
        grid=(2,),
    ),
    Defect(
        "reader-and-writer",
        kernel("float* y, float* z", "if (b == 0) y[t] = 2;", "else z[t] = y[t];"),
        ("z[t] = y[t]", "z[t] = y[t + 64]"),
        (floats(128), Empty(64)),
        """race in k: write of what block 1 reads in the same launch, at byte 0 of argument 0 of k (128
        float32) at k.cu:3 and k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
        grid=(2,),
    ),
    Defect(
        "in-place",
        kernel("float* x", "const float other = x[(i + 1) % 128];", "__syncthreads();", "x[i] = other;"),
        ("(i + 1) % 128", "b * 64 + (t + 1) % 64"),
        (floats(128),),
        """race in k: write of what block 1 reads in the same launch, at byte 0 of argument 0 of k (128
        float32) at k.cu:5 and k.cu:3, block (0, 0, 0), thread (0, 0, 0), 2 times""",
        grid=(2,),
    ),
    Defect(
        "last-block-without-fence",
        kernel(*LAST),
        ("part[b] = b + 1.0f;\n", "part[b] = b + 1.0f;\n__threadfence();"),
        (Empty(4), np.zeros(1, np.uint32), Empty(1)),
        """race in k: read of data that block 0 writes in the same launch, at byte 0 of argument 0 of k (4
        float32) at k.cu:12 and k.cu:5, block (3, 0, 0), thread (0, 0, 0), 3 times""",
        grid=(4,),
    ),
    Defect(
        "atomic-and-plain-write",
        kernel("int* x, int* y", "if (b == 0) atomicAdd(x, 1);", "else if (t == 0) x[0] = 5;"),
        ("x[0] = 5", "atomicAdd(x, 5)"),
        (ints(0), Empty(64, "int32")),
        """race in k: atomic access to what block 1 writes in the same launch, at byte 0 of argument 0 of k (1
        int32) at k.cu:3 and k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
        grid=(2,),
    ),
    Defect(
        "plain-write-and-atomic",
        kernel("int* x, int* y", "if (b == 1 && t == 0) x[0] = 5;", "if (b == 0) atomicAdd(x, 1);"),
        ("x[0] = 5", "atomicAdd(x, 5)"),
        (ints(0), Empty(64, "int32")),
        """race in k: atomic access to what block 1 writes in the same launch, at byte 0 of argument 0 of k (1
        int32) at k.cu:4 and k.cu:3, block (0, 0, 0), thread (0, 0, 0), 64 times""",
        grid=(2,),
    ),
    Defect(
        "non-coherent-own-block",
        kernel("float* x, float* y", "x[t] = 2;", "y[t] = __ldg(x + t);"),
        ("__ldg(x + t)", "x[t]"),
        (floats(64), Empty(64)),
        """race in k: non-coherent load (ld.global.nc) of data that block 0 itself writes in the same launch,
        at byte 0 of argument 0 of k (64 float32) at k.cu:4 and k.cu:3, block (0, 0, 0), thread (0, 0, 0),
        64 times""",
    ),
    Defect(
        "non-coherent-other-block",
        kernel("float* x, float* y", "if (b == 0) x[t] = 2;", "else y[t] = __ldg(x + t);"),
        ("__ldg(x + t)", "__ldg(x + 64 + t)"),
        (floats(128), Empty(64)),
        """race in k: write of what block 1 reads in the same launch, at byte 0 of argument 0 of k (128
        float32) at k.cu:3 and k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
        grid=(2,),
    ),
    Defect(
        "bytes",
        kernel("char* y", "if (t < 3) y[3 * b + t] = 1; if (b == 0 && t == 5) y[3] = 1;"),
        ("y[3] = 1", "y[2] = 1"),
        (Empty(6, "int8"),),
        """race in k: write of what block 1 writes too in the same launch, at byte 3 of argument 0 of k (6
        int8) at k.cu:3, block (0, 0, 0), thread (5, 0, 0)""",
        grid=(2,),
    ),
    Defect(
        "float4-and-float",
        kernel(
            "float* y",
            "if (b == 0 && t == 0) *(float4*)y = make_float4(0, 0, 0, 0);",
            "if (b == 1 && t == 0) y[3] = 1;",
        ),
        ("y[3]", "y[4]"),
        (Empty(5),),
        """race in k: write of what block 0 writes too in the same launch, at byte 12 of argument 0 of k (5
        float32) at k.cu:4 and k.cu:3, block (1, 0, 0), thread (0, 0, 0)""",
        grid=(2,),
    ),
    Defect(
        "module-variable",
        kernel("float* z", "if (b == 0) flag[t] = 2;", "else z[t] = flag[t];", before=("__device__ float flag[128];",)),
        ("z[t] = flag[t]", "z[t] = flag[t + 64]"),
        (Empty(64),),
        """race in k: write of what block 1 reads in the same launch, at byte 0 of the variable flag at k.cu:4
        and k.cu:5, block (0, 0, 0), thread (0, 0, 0), 64 times""",
        grid=(2,),
    ),
    Defect(
        "bulk-prefetch-misaligned",
        kernel("float* y", prefetch("t == 3 ? y + 1 : y", "256"), "y[t] = 1;"),
        ("y + 1", "y + 4"),
        (Empty(64),),
        """memory in k: prefetch of 256 bytes at {0[4]}: both must be multiples of 16 at k.cu:3, block (0, 0, 0),
        thread (3, 0, 0)""",
        gpu="h200",
    ),
    Defect(
        "bulk-prefetch-of-a-part",
        kernel("float* y", prefetch("y", "t < 40 ? 16 * t : 16 * t + 8"), "y[t] = 1;"),
        ("16 * t + 8", "16 * t"),
        (Empty(64),),
        """memory in k: prefetch of 648 bytes at {0[0]}: both must be multiples of 16 at k.cu:3, block (0, 0, 0),
        thread (40, 0, 0), 24 times""",
        gpu="h200",
    ),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_it_is_told_and_its_twin_is_clean(defect):
    """Both lines, the blocks, the byte, the buffer and the count are told; the mended twin is clean."""
    assert_found_and_mended(defect)


def under_both(text, args, **sizes):
    """What a kernel leaves under the two schedules."""
    return [run(text, args, device=SimDevice(reverse=reverse), **sizes) for reverse in (False, True)]


def test_blocks_of_different_chunks_race_too():
    """Blocks that are not executed together are compared all the same, under either schedule."""
    text = kernel("float* y, float* z", "if (b == 0) y[t] = 2;", "if (b == 79) z[t] = y[t];")
    for ran in under_both(text, (floats(1024), Empty(1024)), grid=(80,), block=(1024,)):
        assert errors(ran) == {("race", ("k.cu:3", "k.cu:4"))}
        (finding,) = ran.findings
        assert finding.count == 1024


def test_a_race_ends_with_the_launch():
    """What one launch wrote, the next may read in any block; nothing is left of the order in the launch before."""
    text = kernel("float* y, int which", "if (which == 0) y[i] = 1;", "else y[i] += y[(i + 64) % 128] * 0;")
    device = SimDevice()
    array = device.empty((128,), "float32")
    for which in (0, 1):
        ran = run(text, (array, np.int32(which)), grid=(2,), device=device)
        assert errors(ran) == (set() if which == 0 else {("race", ("k.cu:4",))})


def test_a_write_and_a_read_in_two_launches_are_no_race():
    """Launches are ordered."""
    device = SimDevice()
    array = device.empty((128,), "float32")
    assert run(kernel("float* y", "y[i] = 1;"), (array,), grid=(2,), device=device).findings == ()
    text = kernel("float* y", "if (y[127 - i] < 0) y[i] = 0;")
    assert run(text, (array,), grid=(2,), device=device).findings == ()


def test_the_order_of_float_atomics_shows_between_the_schedules():
    """Sums of floats by atomics depend on their order: the schedules differ in the last bits, and nothing is told."""
    values = np.geomspace(1e-8, 1, 128).astype(np.float32)
    first, second = under_both(
        kernel("const float* x, float* y", "atomicAdd(y, x[i]);"), (values, floats(1)), grid=(2,)
    )
    assert first.findings == second.findings == ()
    assert first.arrays[1] != second.arrays[1]
    np.testing.assert_allclose(first.arrays[1], second.arrays[1], rtol=1e-5)


def test_an_unsynchronised_winner_shows_between_the_schedules():
    """Of the threads that write one place the last in order wins, and the second schedule takes the first."""
    first, second = under_both(kernel("int* y", "y[0] = t;"), (ints(-1),))
    assert (first.arrays[0][0], second.arrays[0][0]) == (63, 0)


def test_the_block_that_wins_shows_between_the_schedules():
    """Of blocks that write one place another one wins, and tickets of a counter go round the other way."""
    first, second = under_both(kernel("int* y", "if (t == 0) y[0] = b;"), (ints(-1),), grid=(4,))
    assert (first.arrays[0][0], second.arrays[0][0]) == (3, 0)
    text = kernel("int* c, int* y", "if (t == 0) y[atomicAdd(c, 1)] = b;")
    first, second = under_both(text, (ints(0), Empty(4, "int32")), grid=(4,))
    assert first.findings == second.findings == ()
    assert (first.arrays[1].tolist(), second.arrays[1].tolist()) == ([0, 1, 2, 3], [3, 2, 1, 0])


def test_an_ordered_result_is_the_same_bit_for_bit():
    """Block sums by shuffles and shared memory, and their sum by the last block, do not depend on the schedule."""
    text = kernel(
        "const float* x, float* part, unsigned* tickets, float* y",
        "__shared__ float s[8]; __shared__ bool last; float v = x[i];",
        "for (int d = 16; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);",
        "if (t % 32 == 0) s[t / 32] = v;",
        "__syncthreads();",
        "if (t == 0) { for (int w = 1; w < 8; ++w) v += s[w];",
        "part[b] = v; __threadfence(); last = atomicAdd(tickets, 1u) == gridDim.x - 1; }",
        "__syncthreads();",
        "if (last && t == 0) { v = 0; for (int k = 0; k < gridDim.x; ++k) v += part[k]; y[0] = v; }",
    )
    values = np.geomspace(1e-6, 1, 100 * 256).astype(np.float32)
    args = (values, Empty(100), np.zeros(1, np.uint32), Empty(1))
    first, second = under_both(text, args, grid=(100,), block=(256,))
    assert first.findings == second.findings == ()
    assert [a.tobytes() for a in first.arrays] == [a.tobytes() for a in second.arrays]
    np.testing.assert_allclose(first.arrays[3], values.sum(dtype=np.float64), rtol=1e-5)
