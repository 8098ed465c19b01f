"""Barriers, convergence, endless loops and traps."""

from __future__ import annotations

import pytest
from finding_run import Defect, Empty, asm, assert_found_and_mended, floats, ints, kernel

XY = "const float* x, float* y"
DEFECTS = [
    Defect(
        "barrier-after-return",
        kernel("float* y", "if (t >= 32) return;", "__syncthreads();", "y[t] = 1;"),
        ("return", "y[t] = 2"),
        (Empty(64),),
        """warning: barrier in k: a barrier that threads of the block never reach, for they have returned at
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 32 times""",
    ),
    Defect(
        "different-barriers",
        kernel(
            "const float* x, float* y",
            "__shared__ float s[64];",
            "if (t < 32) {",
            "s[t] = x[t];",
            "__syncthreads();",
            "} else {",
            "s[t] = 2 * x[t];",
            "__syncthreads();",
            "s[t] += 1;",
            "}",
            "y[t] = s[t];",
        ),
        ("if (t < 32)", "if (b < 32)"),
        (floats(64), Empty(64)),
        """barrier in k: threads of one block meet at different barriers at k.cu:6 and k.cu:9, block (0, 0, 0),
        thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "barrier-in-a-loop",
        kernel(
            "const int* n, float* y",
            "float v = 0;",
            "for (int r = 0; r < n[t / 32]; ++r) {",
            "__syncthreads();",
            "v += n[r & 1];",
            "}",
            "__syncthreads();",
            "y[t] = v;",
        ),
        ("n[t / 32]", "n[0]"),
        (ints(2, 3), Empty(64)),
        """barrier in k: threads of one block meet at different barriers at k.cu:5 and k.cu:8, block (0, 0, 0),
        thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "barrier-never-reached",
        kernel("float* y", "if (t < 32) " + asm("bar.sync 1, 64;"), "else " + asm("bar.sync 2, 64;"), "y[t] = 1;"),
        ('"bar.sync 2', '"bar.sync 1'),
        (Empty(64),),
        """barrier in k: a barrier that part of the block never reaches at k.cu:3, block (0, 0, 0), thread (0, 0,
        0), 32 times""",
    ),
    Defect(
        "arrive-count",
        kernel("float* y", "if (t < 32) " + asm("bar.arrive 1, 96;"), "else " + asm("bar.sync 1, 64;"), "y[t] = 1;"),
        ("bar.arrive 1, 96", "bar.arrive 1, 64"),
        (Empty(64),),
        """barrier in k: threads meet at a named barrier with different counts, 64 and 96 at k.cu:4, block (0,
        0, 0), thread (32, 0, 0), 32 times""",
    ),
    Defect(
        "barrier-of-too-many",
        kernel("float* y", "if (t < 32) " + asm("bar.sync 1, 96;"), "y[t] = 1;"),
        ("bar.sync 1, 96", "bar.sync 1, 32"),
        (Empty(64),),
        """barrier in k: a barrier that part of the block never reaches at k.cu:3, block (0, 0, 0), thread (0, 0,
        0), 32 times""",
    ),
    Defect(
        "barrier-reduction",
        kernel("int* y", "if (t < 32) y[t] = __syncthreads_count(t & 1);", "else y[t] = 3;"),
        (
            "if (t < 32) y[t] = __syncthreads_count(t & 1);\nelse",
            "const int n = __syncthreads_count(t & 1); if (t < 32) y[t] = n; else",
        ),
        (Empty(64, "int32"),),
        """warning: barrier in k: a barrier that threads of the block never reach, for they have returned at
        k.cu:3, block (0, 0, 0), thread (0, 0, 0), 32 times""",
    ),
    Defect(
        "shuffle-missing-lane",
        kernel(
            "const float* x, float* y",
            "float v = x[t];",
            "if (t % 32 < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);",
            "__syncthreads(); y[t] = v;",
        ),
        ("0xffffffffu", "0x0000ffffu"),
        (floats(64), Empty(64)),
        """convergence in k: shfl.sync.bfly.b32 waits for a lane that its member mask names and that never arrives
        at k.cu:4, block (0, 0, 0), thread (0, 0, 0), 32 times""",
    ),
    Defect(
        "vote-missing-lane",
        kernel(
            "const float* x, unsigned* y",
            "unsigned v = 0; if (t % 32 != 5) v = __ballot_sync(0xffffffffu, x[t] > 20);",
            "__syncthreads(); y[t] = v;",
        ),
        ("0xffffffffu", "0xffffffdfu"),
        (floats(64), Empty(64, "uint32")),
        """convergence in k: vote.sync.ballot.b32 waits for a lane that its member mask names and that never
        arrives at k.cu:3, block (0, 0, 0), thread (0, 0, 0), 62 times""",
    ),
    Defect(
        "syncwarp-missing-lane",
        kernel("float* y", "if (t % 32 < 16) __syncwarp();", "__syncthreads(); y[t] = 1;"),
        ("__syncwarp()", "__syncwarp(0xffff)"),
        (Empty(64),),
        """convergence in k: bar.warp.sync waits for a lane that its member mask names and that never arrives at
        k.cu:3, block (0, 0, 0), thread (0, 0, 0), 32 times""",
    ),
    Defect(
        "lane-not-named",
        kernel("const float* x, float* y", "float v = x[t];", "v = __shfl_xor_sync(0x0000ffffu, v, 1);", "y[t] = v;"),
        ("0x0000ffffu", "0xffffffffu"),
        (floats(64), Empty(64)),
        """convergence in k: a lane executes it that the member mask does not name at k.cu:4, block (0, 0, 0),
        thread (16, 0, 0), 32 times""",
    ),
    Defect(
        "shuffle-from-absent",
        kernel(
            "const float* x, float* y",
            "float v = x[t];",
            "if (t % 32 < 16) v = __shfl_sync(0x0000ffffu, v, t % 32 + 1);",
            "y[t] = v;",
        ),
        ("t % 32 + 1", "(t + 1) % 16"),
        (floats(64), Empty(64)),
        """warning: convergence in k: the shuffle reads from a lane that does not take part at k.cu:4, block (0, 0, 0),
        thread (15, 0, 0), 2 times""",
    ),
    Defect(
        "shuffle-past-the-block",
        kernel("const float* x, float* y", "y[t] = __shfl_down_sync(0xffffffffu, x[t], 16);"),
        ("down_sync(0xffffffffu, x[t], 16", "xor_sync(0xffffffffu, x[t], 8"),
        (floats(48), Empty(48)),
        """warning: convergence in k: the shuffle reads from a lane that does not take part at k.cu:3, block (0, 0, 0),
        thread (32, 0, 0), 16 times""",
        block=(48,),
    ),
    Defect(
        "mma-missing-lane",
        kernel(
            "unsigned* y",
            "if (t < 31) {",
            "unsigned d[2] = {0, 0}, a = 0, c = 0;",
            'asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%2}, {%2}, {%3,%3};"',
            ': "=r"(d[0]), "=r"(d[1]) : "r"(a), "r"(c));',
            "y[t] = d[0];",
            "}",
        ),
        ("t < 31", "t < 32"),
        (Empty(32, "uint32"),),
        """convergence in k: mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 needs all 32 lanes of the warp at
        k.cu:6, block (0, 0, 0), thread (0, 0, 0), 31 times""",
        block=(32,),
    ),
    Defect(
        "wait-for-nobody",
        kernel("volatile int* flag, float* y", "while (flag[b] == 0) {", "}", "y[t] = 1;"),
        ("== 0", "!= 0"),
        (ints(0), Empty(64)),
        """steps in k: no end after 1251 steps: a wait for what does not come at k.cu:3, block
        (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "endless-loop",
        kernel("int* flag, float* y", "int n = flag[0];", "do {", "n = n * 5 + 1;", "y[t] = n;", "} while (n != 2);"),
        ("n != 2", "n != 31"),
        (ints(0), Empty(64)),
        """steps in k: no end after 20000 steps: an endless loop, or a wait for what does not come at k.cu:5, block
        (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "trap",
        kernel("const float* x, float* y", "if (x[t] > 60) __trap();", "y[t] = 1;"),
        ("> 60", "> 64"),
        (floats(64), Empty(64)),
        """trap in k: the kernel stopped itself (trap, or a failed assert) at k.cu:3, block (0, 0, 0), thread (60,
        0, 0), 4 times""",
    ),
    Defect(
        "assert",
        kernel("const float* x, float* y", "assert(x[t] < 60);", "y[t] = 1;"),
        ("< 60", "< 65"),
        (floats(64), Empty(64)),
        """trap in k: the kernel stopped itself (trap, or a failed assert) at k.cu:3, block (0, 0, 0), thread (59,
        0, 0), 5 times""",
    ),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_it_is_told_and_its_twin_is_clean(defect):
    """Each kind of defect is told with its line, first thread and count; the twin is clean."""
    assert_found_and_mended(defect)
