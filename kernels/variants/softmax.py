"""Softmax: s1 to s9."""

from __future__ import annotations

from dataclasses import replace

from configs import rules
from operators import SOFTMAX

from pytest_roofline import Array, Prediction, Variant

from .common import (
    BLOCK_ROW,
    CLUSTER_GRID,
    CLUSTER_ROW,
    FEW,
    FLOAT4,
    LONG,
    LOOP,
    MANY_LONG,
    PAYLOAD,
    REGISTERS,
    TYPED,
    by_row,
)

ROW_MAX = Array("row_max", ("M",), dtype="float32")
ROW_SUM = Array("row_sum", ("M",), dtype="float32")
DIVIDE = by_row(
    "sm_s1_div",
    args=("x", "row_max", "row_sum", "y", "N"),
    reads=("x",),
    writes=("y",),
    source="softmax/s1_three_kernels.cu",
)
ROW = by_row("", args=("x", "y", "N"), reads=("x",), writes=("y",), vector=16)

VARIANTS = (
    Variant(
        "s1",
        SOFTMAX,
        "softmax/s1_three_kernels.cu",
        title="three launches, x read by each",
        launches=(
            by_row("sm_s1_max", args=("x", "row_max", "N"), reads=("x",), writes=()),
            by_row("sm_s1_sum", args=("x", "row_max", "row_sum", "N"), reads=("x",), writes=()),
            DIVIDE,
        ),
        limits=(LOOP,),
        scratch=(ROW_MAX, ROW_SUM),
    ),
    Variant(
        "s2",
        SOFTMAX,
        "softmax/s2_online.cu",
        title="maximum and sum in one pass",
        launches=(by_row("sm_s2_ms", args=("x", "row_max", "row_sum", "N"), reads=("x",), writes=()), DIVIDE),
        limits=(LOOP,),
        scratch=(ROW_MAX, ROW_SUM),
        predictions=(
            Prediction("s1", 1.2, 1.45, "16N becomes 12N: one read of x fewer"),
            Prediction("s1", 1.2, 1.45, "the same for a long row, however few there are", workload=LONG),
        ),
    ),
    Variant(
        "s3",
        SOFTMAX,
        "softmax/s3_registers.cu",
        title="the row stays in registers",
        launches=(by_row("sm_s3", args=("x", "y", "N"), reads=("x",), writes=("y",), unrolled=PAYLOAD),),
        limits=(REGISTERS,),
        predictions=(
            Prediction("s1", 1.8, 2.2, "16N becomes 8N: x is read once"),
            Prediction(
                "", 5.5, 8.2, "x is read once, and what is left of y in L2 at the end is not written", quantity="dram"
            ),
        ),
    ),
    Variant(
        "s4",
        SOFTMAX,
        "softmax/s4_float4.cu",
        title="s3 with 128-bit accesses and fewer exponentials",
        launches=(by_row("sm_s4", args=("x", "y", "N"), reads=("x",), writes=("y",), vector=16, unrolled=PAYLOAD),),
        limits=(REGISTERS, FLOAT4),
        alignment=16,
        predictions=(
            Prediction("s3", 1.0, 1.15, "the same bytes in a quarter of the requests, fewer exponentials"),
            Prediction(
                "s3", 1.0, 1.6, "few rows: SMs idle, and fewer instructions a row count", workload=FEW, needs_gpu=True
            ),
        ),
    ),
    Variant(
        "s5",
        SOFTMAX,
        "softmax/s5_once.cu",
        title="the maximum first: one exponential an element",
        launches=(replace(ROW, kernel="sm_s5", configure=rules.for_width),),
        limits=(REGISTERS, FLOAT4),
        alignment=16,
        predictions=(
            Prediction("s4", 1.05, 1.3, "one exponential an element instead of 2.5"),
            Prediction("s4", 1.0, 1.3, "few rows: fewer instructions, but four barriers", workload=FEW, needs_gpu=True),
        ),
    ),
    Variant(
        "s6",
        SOFTMAX,
        "softmax/s6_one_barrier.cu",
        title="one barrier: exponentials around the warp's maximum",
        launches=(replace(ROW, kernel="sm_s6", configure=rules.softmax_row),),
        limits=(BLOCK_ROW,),
        **TYPED,
        predictions=(
            Prediction("s5", 1.0, 1.1, "three barriers fewer, while other rows keep DRAM busy", needs_gpu=True),
            Prediction("s5", 1.05, 1.5, "few rows: three barriers fewer", workload=FEW, needs_gpu=True),
        ),
    ),
    Variant(
        "s7",
        SOFTMAX,
        "softmax/s7_cache_policy.cu",
        title="y stays in L2 where it can",
        launches=(replace(ROW, kernel="sm_s7", configure=rules.cached_softmax_row),),
        limits=(BLOCK_ROW,),
        **TYPED,
        predictions=(
            Prediction(
                "s6", 1.0, 1.06, "half the L2 cache more of y is not written to DRAM within the launch", needs_gpu=True
            ),
            Prediction("", 4.8, 6.5, "the L2 cache keeps what it can of y", quantity="dram", needs_gpu=True),
        ),
    ),
    Variant(
        "s8",
        SOFTMAX,
        "softmax/s8_cluster.cu",
        title="a long row in shared memory, over a cluster of blocks",
        launches=(replace(ROW, kernel="sm_s8", configure=rules.long_softmax_row),),
        limits=(CLUSTER_ROW, CLUSTER_GRID),
        **TYPED,
        predictions=(
            Prediction(
                "s2", 1.3, 1.7, "12N becomes 8N: s2's second read of a long row comes from DRAM", workload=MANY_LONG
            ),
            Prediction(
                "s2",
                3.0,
                8.0,
                "32 blocks alone can't pull more than a quarter of the GPU",
                workload=LONG,
                needs_gpu=True,
            ),
        ),
    ),
    Variant(
        "s9",
        SOFTMAX,
        "softmax/s9_staggered.cu",
        title="few long rows, staggered: the first are written while the last are read",
        launches=(replace(ROW, kernel="sm_s9", configure=rules.staggered_softmax_row),),
        limits=(CLUSTER_ROW, CLUSTER_GRID),
        **TYPED,
        predictions=(
            Prediction(
                "s8", 1.05, 1.2, "reads and writes overlap by all groups but one", workload=LONG, needs_gpu=True
            ),
            Prediction("s8", 0.99, 1.01, "rows come in waves: nothing is staggered", workload=MANY_LONG),
        ),
    ),
)
