"""Accesses out of bounds or misaligned, in every memory and of every width, and how a finding is told."""

from __future__ import annotations

import numpy as np
import pytest
from finding_run import Defect, Empty, assert_found_and_mended, floats, kernel

XY = "const float* x, float* y"
DEFECTS = [
    Defect(
        "load-past-the-end",
        kernel(XY, "y[i] = x[i];"),
        ("y[i] = x[i]", "if (i < 50) y[i] = x[i]"),
        (floats(50), Empty(64)),
        """memory in k: access of 4 bytes at {0[200]}, which ends 4 bytes past the end of argument 0 of k (50
        float32) at k.cu:3, block (0, 0, 0), thread (50, 0, 0), 14 times""",
    ),
    Defect(
        "store-past-the-end",
        kernel(XY, "y[i] = x[i];"),
        ("y[i] = x[i]", "if (i < 50) y[i] = x[i]"),
        (floats(64), Empty(50)),
        """memory in k: access of 4 bytes at {1[200]}, which ends 4 bytes past the end of argument 1 of k (50
        float32) at k.cu:3, block (1, 0, 0), thread (18, 0, 0), 14 times""",
        grid=(2,),
        block=(32,),
    ),
    Defect(
        "char",
        kernel("const unsigned char* x, unsigned char* y", "y[i] = x[i];"),
        ("y[i] = x[i]", "if (i < 61) y[i] = x[i]"),
        (np.ones(61, np.uint8), Empty(64, "uint8")),
        """memory in k: access of 1 bytes at {0[61]}, which ends 1 bytes past the end of argument 0 of k (61 uint8)
        at k.cu:3, block (0, 0, 0), thread (61, 0, 0), 3 times""",
    ),
    Defect(
        "half",
        kernel("const __half* x, __half* y", "y[i] = x[i];", before=("#include <cuda_fp16.h>",)),
        ("y[i] = x[i]", "if (i < 61) y[i] = x[i]"),
        (np.ones(61, np.float16), Empty(64, "float16")),
        """memory in k: access of 2 bytes at {0[122]}, which ends 2 bytes past the end of argument 0 of k (61
        float16) at k.cu:4, block (0, 0, 0), thread (61, 0, 0), 3 times""",
    ),
    Defect(
        "float4",
        kernel("const float4* x, float4* y", "y[i] = x[i];"),
        ("y[i] = x[i]", "if (i < 63) y[i] = x[i]"),
        (floats(254), Empty(256)),
        """memory in k: access of 16 bytes at {0[1008]}, which ends 8 bytes past the end of argument 0 of k (254
        float32) at k.cu:3, block (0, 0, 0), thread (63, 0, 0)""",
    ),
    Defect(
        "float4-misaligned",
        kernel(XY, "((float4*)y)[i] = *(const float4*)(x + 4 * i + 1);"),
        ("4 * i + 1", "4 * i"),
        (floats(264), Empty(256)),
        """memory in k: misaligned access of 16 bytes at {0[4]} in argument 0 of k (264 float32) at k.cu:3,
        block (0, 0, 0), thread (0, 0, 0), 64 times""",
    ),
    Defect(
        "float2-misaligned-store",
        kernel(XY, "*(float2*)(y + 2 * t + (t == 7)) = make_float2(x[t], 1.0f);"),
        (" + (t == 7)", ""),
        (floats(64), Empty(130)),
        """memory in k: misaligned access of 8 bytes at {1[60]} in argument 1 of k (130 float32) at k.cu:3,
        block (0, 0, 0), thread (7, 0, 0)""",
    ),
    Defect(
        "no-address",
        kernel(XY, "y[i] = x[i];"),
        ("x[i]", "1.0f"),
        (np.uint64(2**20), Empty(64)),
        """memory in k: access of 4 bytes at 0x100000, where nothing is allocated at k.cu:3, block (0, 0, 0), thread
        (0, 0, 0), 64 times""",
    ),
    Defect(
        "atomic",
        kernel("int* x, float* y", "atomicAdd(x + i, 1); y[i] = 1.0f;"),
        ("atomicAdd", "if (i < 40) atomicAdd"),
        (np.ones(40, np.int32), Empty(64)),
        """memory in k: access of 4 bytes at {0[160]}, which ends 4 bytes past the end of argument 0 of k (40
        int32) at k.cu:3, block (0, 0, 0), thread (40, 0, 0), 24 times""",
    ),
    Defect(
        "constant",
        kernel("float* y, int n", "y[i] = table[t & n];", before=("__constant__ float table[4] = {1, 2, 3, 4};",)),
        ("t & n", "t & 3"),
        (Empty(64), np.int32(7)),
        """memory in k: access of 4 bytes at 0x700000010, which ends 4 bytes past the end of the variable table at
        k.cu:4, block (0, 0, 0), thread (4, 0, 0), 32 times""",
    ),
    Defect(
        "variable",
        kernel("float* y", "table[t] = 1.0f;", "if (t < 32) y[t] = table[t];", before=("__device__ float table[32];",)),
        ("table[t] =", "if (t < 32) table[t] ="),
        (Empty(32),),
        """memory in k: access of 4 bytes at 0x700000080, which ends 4 bytes past the end of the variable table at
        k.cu:4, block (0, 0, 0), thread (32, 0, 0)""",
        block=(33,),
    ),
    Defect(
        "shared-store",
        kernel(XY, "__shared__ float s[32];", "s[t] = x[t]; __syncthreads();", "y[t] = s[t & 31];"),
        ("s[t] =", "if (t < 32) s[t] ="),
        (floats(64), Empty(64)),
        """memory in k: out of bounds shared access of 4 bytes at offset 0x80, the block has 128 bytes at k.cu:4,
        block (0, 0, 0), thread (32, 0, 0), 32 times""",
    ),
    Defect(
        "shared-load",
        kernel(XY, "__shared__ float s[64];", "s[t] = x[t]; __syncthreads();", "y[t] = s[t + 1];"),
        ("t + 1", "(t + 1) % 64"),
        (floats(64), Empty(64)),
        """memory in k: out of bounds shared access of 4 bytes at offset 0x100, the block has 256 bytes at k.cu:5,
        block (0, 0, 0), thread (63, 0, 0)""",
    ),
    Defect(
        "shared-negative",
        kernel(XY, "__shared__ float s[64];", "s[t] = x[t]; __syncthreads();", "y[t] = s[t - 3];"),
        ("t - 3", "t"),
        (floats(64), Empty(64)),
        """memory in k: out of bounds shared access of 4 bytes at offset -0xc, the block has 256 bytes at k.cu:5,
        block (0, 0, 0), thread (0, 0, 0), 3 times""",
    ),
    Defect(
        "dynamic-shared",
        kernel(XY, "extern __shared__ float s[];", "s[t] = x[t]; __syncthreads();", "y[t] = s[t / 2];"),
        ("s[t] =", "if (t < 62) s[t] ="),
        (floats(64), Empty(64)),
        """memory in k: out of bounds shared access of 4 bytes at offset 0xf8, the block has 248 bytes at k.cu:4,
        block (0, 0, 0), thread (62, 0, 0), 2 times""",
        shared=62 * 4,
    ),
    Defect(
        "static-and-dynamic-shared",
        kernel(
            XY,
            "extern __shared__ float s[]; __shared__ float u[8];",
            "s[t] = x[t]; if (t < 8) u[t] = 1.0f; __syncthreads();",
            "y[t] = t < 62 ? s[t ^ 1] + u[t & 7] : 0;",
        ),
        ("s[t] =", "if (t < 62) s[t] ="),
        (floats(64), Empty(64)),
        """memory in k: out of bounds shared access of 4 bytes at offset 0x118, the block has 280 bytes at k.cu:4,
        block (0, 0, 0), thread (62, 0, 0), 2 times""",
        shared=62 * 4,
    ),
    Defect(
        "shared-misaligned",
        kernel(
            "const float* x, float* y",
            "__shared__ __align__(16) float s[68];",
            "s[t] = x[t]; if (t < 4) s[t + 64] = 0; __syncthreads();",
            "float2 v = *(float2*)(s + t); y[t] = v.x + v.y;",
        ),
        ("s + t)", "s + t / 2 * 2)"),
        (floats(64), Empty(64)),
        """memory in k: misaligned shared access of 8 bytes at offset 0x4, the block has 272 bytes at k.cu:5, block
        (0, 0, 0), thread (1, 0, 0), 32 times""",
    ),
    Defect(
        "shared-atomic",
        kernel(
            "int* y",
            "__shared__ int s[8];",
            "if (t < 8) s[t] = 0; __syncthreads();",
            "atomicAdd(s + t % 9, 1); __syncthreads();",
            "if (t < 8) y[t] = s[t];",
        ),
        ("t % 9", "t % 8"),
        (Empty(8, "int32"),),
        """memory in k: out of bounds shared access of 4 bytes at offset 0x20, the block has 32 bytes at k.cu:5,
        block (0, 0, 0), thread (8, 0, 0), 7 times""",
    ),
    Defect(
        "generic-shared",
        kernel(
            XY,
            "__shared__ float s[32];",
            "if (t < 32) s[t] = 0; __syncthreads();",
            "put(t < 32 ? s + t + 1: y + t - 32, x[t]);",
            before=("__device__ __noinline__ void put(float* p, float v) {", " *p = v;", "}"),
        ),
        ("s + t + 1", "s + t"),
        (floats(64), Empty(32)),
        """memory in k: out of bounds shared access of 4 bytes at offset 0x80, the block has 128 bytes at k.cu:2,
        block (0, 0, 0), thread (31, 0, 0)""",
    ),
    Defect(
        "generic-global",
        kernel(
            XY,
            "__shared__ float s[32];",
            "if (t < 32) s[t] = 0; __syncthreads();",
            "put(t < 32 ? s + t: y + t - 31, x[t]);",
            before=("__device__ __noinline__ void put(float* p, float v) {", " *p = v;", "}"),
        ),
        ("t - 31", "t - 32"),
        (floats(64), Empty(32)),
        """memory in k: access of 4 bytes at {1[128]}, which ends 4 bytes past the end of argument 1 of k (32
        float32) at k.cu:2, block (0, 0, 0), thread (63, 0, 0)""",
    ),
    Defect(
        "two-dimensions",
        "\n".join(
            [
                'extern "C" __global__ void k(float* y, int n) {',
                "int t = threadIdx.x + blockDim.x * threadIdx.y;",
                "int b = blockIdx.x + gridDim.x * blockIdx.y;",
                "if (b == 4 && t == 45) n = 75;",
                "y[60 * b + t + n] = 1.0f;",
                "}",
            ]
        ),
        ("n = 75", "n = 0"),
        (Empty(60 * 6), np.int32(0)),
        """memory in k: access of 4 bytes at {0[1440]}, which ends 4 bytes past the end of argument 0 of k (360
        float32) at k.cu:5, block (1, 1, 0), thread (5, 2, 0)""",
        grid=(3, 2),
        block=(20, 3),
    ),
    Defect(
        "three-dimensions",
        "\n".join(
            [
                'extern "C" __global__ void k(float* y, int n) {',
                "int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);",
                "int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);",
                "if (b == 17 && t == 45) n = 375;",
                "y[60 * b + t + n] = 1.0f;",
                "}",
            ]
        ),
        ("n = 375", "n = 0"),
        (Empty(1440), np.int32(0)),
        """memory in k: access of 4 bytes at {0[5760]}, which ends 4 bytes past the end of argument 0 of k (1440
        float32) at k.cu:5, block (1, 2, 2), thread (1, 1, 2)""",
        grid=(2, 3, 4),
        block=(4, 5, 3),
    ),
    Defect(
        "inlined",
        kernel(
            "const float* x, float* y",
            "y[t] = outer(x, t);",
            before=(
                "__device__ float inner(const float* p, int n) {",
                " return p[n + 1];",
                "}",
                "__device__ float outer(const float* p, int n) {",
                " return inner(p, n) * 2;",
                "}",
            ),
        ),
        ("p[n + 1]", "p[n]"),
        (floats(64), Empty(64)),
        """memory in k: access of 4 bytes at {0[256]}, which ends 4 bytes past the end of argument 0 of k (64
        float32) at k.cu:2 (inlined at k.cu:5 (inlined at k.cu:9)), block (0, 0, 0), thread (63, 0, 0)""",
    ),
    Defect(
        "several",
        kernel(
            XY,
            "__shared__ float s[64];",
            "s[t] = x[t + 1];",
            "y[t] = s[t ^ 32];",
            "y[t + 64] = s[t];",
            "__syncthreads();",
            "if (t > 60) __trap();",
        ),
        (
            "x[t + 1];\ny[t] = s[t ^ 32];\ny[t + 64] = s[t];\n__syncthreads();\nif (t > 60)",
            "x[t];\n__syncthreads();\ny[t] = s[t ^ 32];\n\nif (t > 64)",
        ),
        (floats(64), Empty(120)),
        (
            """memory in k: access of 4 bytes at {0[256]}, which ends 4 bytes past the end of argument 0 of k (64
        float32) at k.cu:4, block (0, 0, 0), thread (63, 0, 0)""",
            """race in k: read of shared memory at offset 0x80 and write by thread 32, no barrier between at k.cu:5 and
        k.cu:4, block (0, 0, 0), thread (0, 0, 0), 64 times""",
            """memory in k: access of 4 bytes at {1[480]}, which ends 4 bytes past the end of argument 1 of k (120
        float32) at k.cu:6, block (0, 0, 0), thread (56, 0, 0), 8 times""",
            """trap in k: the kernel stopped itself (trap, or a failed assert) at k.cu:8, block (0, 0, 0), thread (61,
        0, 0), 3 times""",
        ),
    ),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_it_is_told_and_its_twin_is_clean(defect):
    """Message, source line with what it is inlined in, block and thread of the first case, and count are right."""
    assert_found_and_mended(defect)
