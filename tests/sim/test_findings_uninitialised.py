"""Reads of what nobody wrote, and the shared memory of clusters."""

from __future__ import annotations

import numpy as np
import pytest
from finding_run import Defect, Empty, asm, assert_found_and_mended, floats, kernel

XY = "const float* x, float* y"
S64 = "__shared__ float s[64];"
PUT = "s[t] = x[t];"
CLUSTER = (
    "__device__ float far(float* p, unsigned rank) {",
    " unsigned a = (unsigned)__cvta_generic_to_shared(p), r; float v;",
    ' asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank));',
    ' asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(r) : "memory");',
    " return v; }",
)
CLUSTER_SYNC = asm("barrier.cluster.arrive.release.aligned;") + asm("barrier.cluster.wait.acquire.aligned;")
DEFECTS = [
    Defect(
        "global",
        kernel(XY, "y[i] = x[i];"),
        ("x[i]", "1.0f"),
        (Empty(64), Empty(64)),
        """uninitialised in k: read of 4 bytes that nobody wrote at {0[0]} in argument 0 of k (64 float32) at
        k.cu:3, block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "global-float4",
        kernel("float4* x, float4* y", "if (t & 1) x[t] = make_float4(0, 0, 0, 0);", "y[t] = x[t];"),
        ("if (t & 1) ", ""),
        (Empty(256), Empty(256)),
        """uninitialised in k: read of 16 bytes that nobody wrote at {0[0]} in argument 0 of k (256 float32) at
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 32 times""",
    ),
    Defect(
        "global-part-of-a-float4",
        kernel("float* x, float4* y", "x[4 * t + 1] = 1.0f;", "y[t] = ((float4*)x)[t];"),
        ("x[4 * t + 1] = 1.0f;", "((float4*)x)[t] = make_float4(0, 0, 0, 0);"),
        (Empty(256), Empty(256)),
        """uninitialised in k: read of 16 bytes that nobody wrote at {0[0]} in argument 0 of k (256 float32) at
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "global-char",
        kernel("char* x, char* y", "if (t != 9) x[t] = 1;", "y[t] = x[t];"),
        ("if (t != 9) ", ""),
        (Empty(64, "int8"), Empty(64, "int8")),
        """uninitialised in k: read of 1 bytes that nobody wrote at {0[9]} in argument 0 of k (64 int8) at k.cu:4,
        block (0, 0, 0), thread (9, 0, 0)""",
    ),
    Defect(
        "global-atomic",
        kernel("int* x", "atomicAdd(x + t, 1);"),
        ("atomicAdd", "atomicExch"),
        (Empty(64, "int32"),),
        """uninitialised in k: atomic access to argument 0 of k (64 int32) where nobody wrote at k.cu:3, block (0,
        0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "global-cas",
        kernel("int* x, int* y", "y[t] = atomicCAS(x + t, 0, 1);"),
        ("atomicCAS", "x[t] = 0; atomicCAS"),
        (Empty(64, "int32"), Empty(64, "int32")),
        """uninitialised in k: atomic access to argument 0 of k (64 int32) where nobody wrote at k.cu:3, block (0,
        0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "shared",
        kernel(XY, S64, "if (t >= 3) " + PUT, "__syncthreads();", "y[t] = s[63 - t];"),
        ("if (t >= 3) ", ""),
        (floats(64), Empty(64)),
        """uninitialised in k: read of 4 bytes of shared memory at offset 0x8 that nobody wrote at k.cu:6, block
        (0, 0, 0), thread (61, 0, 0), 3 times""",
    ),
    Defect(
        "shared-char",
        kernel(
            "const char* x, char* y",
            "__shared__ char s[64];",
            "if (t >= 3) s[t] = x[t];",
            "__syncthreads();",
            "y[t] = s[63 - t];",
        ),
        ("if (t >= 3) ", ""),
        (np.ones(64, np.int8), Empty(64, "int8")),
        """uninitialised in k: read of 1 bytes of shared memory at offset 0x2 that nobody wrote at k.cu:6, block
        (0, 0, 0), thread (61, 0, 0), 3 times""",
    ),
    Defect(
        "shared-atomic",
        kernel(
            "int* y",
            "__shared__ int s[64];",
            "if (t >= 3) s[t] = 0;",
            "__syncthreads();",
            "atomicAdd(s + 63 - t, 1);",
            "__syncthreads();",
            "y[t] = s[t];",
        ),
        ("if (t >= 3) ", ""),
        (Empty(64, "int32"),),
        """uninitialised in k: read of 4 bytes of shared memory at offset 0x8 that nobody wrote at k.cu:6, block
        (0, 0, 0), thread (61, 0, 0), 3 times""",
    ),
    Defect(
        "cluster",
        kernel(
            "float* y",
            "__shared__ float s; unsigned rank = b % 2;",
            "if (t == 0 && b != 1) s = b;",
            CLUSTER_SYNC,
            "y[i] = far(&s, rank ^ 1);",
            CLUSTER_SYNC,
            before=CLUSTER,
            bounds="__cluster_dims__(2, 1, 1)",
        ),
        (" && b != 1", ""),
        (Empty(128),),
        """uninitialised in k: read of 4 bytes of a cluster's shared memory that nobody wrote at k.cu:4 (inlined at
        k.cu:11), block (0, 0, 0), thread (0, 0, 0), 32 times""",
        grid=(4,),
        block=(32,),
        gpu="h200",
    ),
    Defect(
        "cluster-rank",
        kernel(
            "float* y",
            "__shared__ float s; unsigned rank = b % 2;",
            "if (t == 0) s = b;",
            CLUSTER_SYNC,
            "y[i] = far(&s, rank + 1);",
            CLUSTER_SYNC,
            before=CLUSTER,
            bounds="__cluster_dims__(2, 1, 1)",
        ),
        ("rank + 1", "rank ^ 1"),
        (Empty(128),),
        """memory in k: shared memory of block 2 of a cluster of 2 at k.cu:4 (inlined at k.cu:11), block (1, 0, 0),
        thread (0, 0, 0), 64 times""",
        grid=(4,),
        block=(32,),
        gpu="h200",
    ),
    Defect(
        "cluster-past",
        kernel(
            "float* y",
            "__shared__ float s[4]; unsigned rank = b % 2;",
            "if (t < 4) s[t] = b;",
            CLUSTER_SYNC,
            "y[i] = far(s + t % 5, rank ^ 1);",
            CLUSTER_SYNC,
            before=CLUSTER,
            bounds="__cluster_dims__(2, 1, 1)",
        ),
        ("t % 5", "t % 4"),
        (Empty(128),),
        """memory in k: out of bounds shared access of 4 bytes at offset 0x10, the block has 16 bytes at k.cu:4
        (inlined at k.cu:11), block (0, 0, 0), thread (4, 0, 0), 24 times""",
        grid=(4,),
        block=(32,),
        gpu="h200",
    ),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_it_is_told_and_its_twin_is_clean(defect):
    """The buffer or offset, the size, the first thread and the count are told; what is written first is clean."""
    assert_found_and_mended(defect)
