"""Races on shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from finding_run import Defect, Empty, asm, assert_found_and_mended, floats, kernel

XY = "const float* x, float* y"
S64 = "__shared__ float s[64];"
PUT = "s[t] = x[t];"
DEFECTS = [
    Defect(
        "no-barrier",
        kernel(XY, S64, PUT, "y[t] = s[t ^ 32];"),
        ("y[t]", "__syncthreads(); y[t]"),
        (floats(64), Empty(64)),
        """race in k: read of shared memory at offset 0x80 and write by thread 32, no barrier between at k.cu:5 and
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "no-syncwarp",
        kernel(XY, S64, PUT, "y[t] = s[t ^ 1];"),
        ("y[t]", "__syncwarp(); y[t]"),
        (floats(64), Empty(64)),
        """warning: race in k: read of shared memory at offset 0x4 and write by thread 1, no barrier of the warp
        between at k.cu:5 and k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "loop-without-second-barrier",
        kernel(
            "const float* x, float* y, int n",
            S64,
            "float sum = 0;",
            "for (int r = 0; r < n; ++r) {",
            "s[t] = x[t] + r;",
            "__syncthreads();",
            "sum += s[t ^ 32];",
            "",
            "}",
            "y[t] = sum;",
        ),
        ("sum += s[t ^ 32];", "sum += s[t ^ 32]; __syncthreads();"),
        (floats(64), Empty(64), np.int32(3)),
        """race in k: write of shared memory at offset 0x0 and read by thread 32, no barrier between at k.cu:6 and
        k.cu:8, block (0, 0, 0), thread (0, 0, 0), 128 times""",
    ),
    Defect(
        "same-value-by-warps",
        kernel("const float* x, float* y", S64, "s[0] = x[0];", "__syncthreads();", "y[t] = s[0];"),
        ("s[0] = x", "if (t == 0) s[0] = x"),
        (
            floats(1),
            Empty(64),
        ),
        (
            """race in k: write of shared memory at offset 0x0 and write by thread 63 in the same instruction at
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 32 times""",
            """warning: race in k: write of shared memory at offset 0x0 and write by thread 63 in the same
        instruction at k.cu:4, block (0, 0, 0), thread (32, 0, 0), 31 times""",
        ),
    ),
    Defect(
        "same-value-by-a-warp",
        kernel("const float* x, float* y", S64, "s[0] = x[0];", "__syncthreads();", "y[t] = s[0];"),
        ("s[0] = x", "if (t == 0) s[0] = x"),
        (
            floats(1),
            Empty(32),
        ),
        """warning: race in k: write of shared memory at offset 0x0 and write by thread 31 in the same
        instruction at k.cu:4, block (0, 0, 0), thread (0, 0, 0), 31 times""",
        block=(32,),
    ),
    Defect(
        "broadcast",
        kernel("const float* x, float* y", S64, "if (t == 0) s[0] = x[0];", "y[t] = s[0];"),
        ("y[t]", "__syncthreads(); y[t]"),
        (
            floats(1),
            Empty(64),
        ),
        """race in k: write of shared memory at offset 0x0 and read by several threads, no barrier between at
        k.cu:4 and k.cu:5, block (0, 0, 0), thread (0, 0, 0)""",
    ),
    Defect(
        "warp-slices-loop",
        kernel(
            "const float* x, float* y, int n",
            S64,
            "float sum = 0; for (int r = 0; r < n; ++r) {",
            "s[t] = x[t] + r;",
            "__syncwarp();",
            "sum += s[t ^ 1];",
            "}",
            "y[t] = sum;",
        ),
        ("sum += s[t ^ 1];", "sum += s[t ^ 1]; __syncwarp();"),
        (floats(64), Empty(64), np.int32(3)),
        """warning: race in k: write of shared memory at offset 0x0 and read by thread 1, no barrier of the warp
        between at k.cu:5 and k.cu:7, block (0, 0, 0), thread (0, 0, 0), 128 times""",
    ),
    Defect(
        "broadcast-then-write",
        kernel(
            "const float* x, float* y",
            "__shared__ float s[1];",
            "if (t == 0) s[0] = x[0];",
            "__syncthreads();",
            "const float v = s[0];",
            "",
            "if (t == 0) s[0] = v + 1;",
            "__syncthreads();",
            "y[t] = v + s[0];",
        ),
        ("s[0];\n\n", "s[0];\n__syncthreads();\n"),
        (floats(64), Empty(64)),
        """race in k: write of shared memory at offset 0x0 and read by several threads, no barrier between at
        k.cu:8 and k.cu:6, block (0, 0, 0), thread (0, 0, 0)""",
    ),
    Defect(
        "syncwarp-is-no-barrier",
        kernel(
            "const int* n, float* y",
            "__shared__ float s[1];",
            "if (t == 0) s[0] = 1;",
            "__syncthreads();",
            "y[t] = s[n[t]];",
            "__syncwarp();",
            "if (t == 0) s[0] = 5;",
        ),
        ("if (t == 0) s[0] = 5", "__syncthreads(); if (t == 0) s[0] = 5"),
        (np.zeros(64, np.int32), Empty(64)),
        """race in k: write of shared memory at offset 0x0 and read by several threads, no barrier between at
        k.cu:8 and k.cu:6, block (0, 0, 0), thread (0, 0, 0)""",
    ),
    Defect(
        "volatile-build",
        kernel(
            XY, "__shared__ float s[64];", "s[t] = x[t];", "const float other = s[t ^ 32];", "(void)other; y[t] = x[t];"
        ),
        ("const float other", "__syncthreads(); const float other"),
        (floats(64), Empty(64)),
        """race in k: read of shared memory at offset 0x80 and write by thread 32, no barrier between at k.cu:5 and
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
        volatile=True,
    ),
    Defect(
        "named-barrier-missing",
        kernel(XY, S64, "if (t < 32) {", "s[t] = x[t];", "}", "else {", "y[t] = s[t - 32];", "}"),
        (
            "}\nelse {",
            'asm volatile("bar.arrive 1, 64;" ::: "memory"); }\nelse { asm volatile("bar.sync 1, 64;" ::: "memory");',
        ),
        (floats(64), Empty(64)),
        """race in k: read of shared memory at offset 0x0 and write by thread 0, no barrier between at k.cu:8 and
        k.cu:5, block (0, 0, 0), thread (32, 0, 0), 32 times""",
    ),
    Defect(
        "named-barriers-differ",
        kernel(
            XY,
            S64,
            "if (t < 32) {",
            "s[t] = x[t]; " + asm("bar.sync 1, 32;"),
            "}",
            "else if (t < 64) {",
            asm("bar.sync 2, 32;"),
            "y[t] = s[t - 32];",
            "}",
        ),
        (
            'bar.sync 1, 32;" ::: "memory");\n}\nelse if (t < 64) {\nasm volatile("bar.sync 2, 32',
            'bar.sync 1, 64;" ::: "memory");\n}\nelse if (t < 64) {\nasm volatile("bar.sync 1, 64',
        ),
        (floats(64), Empty(64)),
        """race in k: read of shared memory at offset 0x0 and write by thread 0, no barrier between at k.cu:9 and
        k.cu:5, block (0, 0, 0), thread (32, 0, 0), 32 times""",
    ),
    Defect(
        "atomic-then-read",
        kernel(
            "int* y",
            "__shared__ int s[1];",
            "if (t == 0) s[0] = 0;",
            "__syncthreads();",
            "atomicAdd(s, 1);",
            "y[t] = s[0];",
        ),
        ("y[t]", "__syncthreads(); y[t]"),
        (Empty(64, "int32"),),
        """race in k: read of shared memory at offset 0x0 and atomic access by several threads, no barrier
        between at k.cu:7 and k.cu:6, block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "atomic-and-plain-write",
        kernel(
            "int* y",
            "__shared__ int s[1];",
            "if (t == 0) s[0] = 0;",
            "atomicAdd(s, 1);",
            "__syncthreads();",
            "y[t] = s[0];",
        ),
        ("atomicAdd", "__syncthreads(); atomicAdd"),
        (Empty(64, "int32"),),
        (
            """race in k: atomic access of shared memory at offset 0x0 and write by thread 0, no barrier between at
        k.cu:5 and k.cu:4, block (0, 0, 0), thread (32, 0, 0), 32 times""",
            """warning: race in k: atomic access of shared memory at offset 0x0 and write by thread 0, no barrier of
        the warp between at k.cu:5 and k.cu:4, block (0, 0, 0), thread (1, 0, 0), 31 times""",
        ),
    ),
    Defect(
        "single-buffer",
        kernel(
            "const float* x, float* y, int n",
            "__shared__ float s[2][64];",
            "float sum = 0;",
            "for (int r = 0; r < n; ++r) {",
            "s[r & 0][t] = x[t] + r;",
            "__syncthreads();",
            "sum += s[r & 0][t ^ 32];",
            "}",
            "y[t] = sum;",
        ),
        (
            "s[r & 0][t] = x[t] + r;\n__syncthreads();\nsum += s[r & 0]",
            "s[r & 1][t] = x[t] + r;\n__syncthreads();\nsum += s[r & 1]",
        ),
        (floats(64), Empty(64), np.int32(5)),
        """race in k: write of shared memory at offset 0x0 and read by thread 32, no barrier between at k.cu:6 and
        k.cu:8, block (0, 0, 0), thread (0, 0, 0), 256 times""",
    ),
    Defect(
        "char",
        kernel("const char* x, char* y", "__shared__ char s[64];", "s[t] = x[t];", "y[t] = s[(t + 32) % 64];"),
        ("(t + 32) % 64", "t"),
        (np.ones(64, np.int8), Empty(64, "int8")),
        """race in k: read of shared memory at offset 0x20 and write by thread 32, no barrier between at k.cu:5 and
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "float4",
        kernel(
            "const float4* x, float* y",
            "__shared__ float4 s[64];",
            "s[t] = x[t];",
            "y[t] = ((float*)s)[4 * (t ^ 32) + 2];",
        ),
        ("y[t]", "__syncthreads(); y[t]"),
        (floats(256), Empty(64)),
        """race in k: read of shared memory at offset 0x208 and write by thread 32, no barrier between at k.cu:5
        and k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "one-block-of-four",
        kernel(XY, S64, PUT, "if (b == 2) y[t] = s[t ^ 32];", "else __syncthreads();"),
        ("if (b == 2) y[t]", "if (b == 2) __syncthreads(), y[t]"),
        (floats(64), Empty(64)),
        """race in k: read of shared memory at offset 0x80 and write by thread 32, no barrier between at k.cu:5 and
        k.cu:4, block (2, 0, 0), thread (0, 0, 0), 64 times""",
        grid=(4,),
    ),
    Defect(
        "inlined",
        kernel(
            XY,
            "__shared__ float s[64];",
            "put(s, t, x[t]);",
            "y[t] = get(s, t);",
            before=(
                "__device__ void put(float* p, int n, float v) { p[n] = v; }",
                "__device__ float get(float* p, int n) { return p[n ^ 32]; }",
            ),
        ),
        ("y[t]", "__syncthreads(); y[t]"),
        (floats(64), Empty(64)),
        """race in k: read of shared memory at offset 0x80 and write by thread 32, no barrier between at k.cu:2
        (inlined at k.cu:7) and k.cu:1 (inlined at k.cu:6), block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_it_is_told_and_its_twin_is_clean(defect):
    """Both lines, the threads, the offset and the count of a race are told; a barrier in between mends it."""
    assert_found_and_mended(defect)
