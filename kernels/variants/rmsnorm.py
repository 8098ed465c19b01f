"""RMSNorm: n1 to n8."""

from __future__ import annotations

from dataclasses import replace

from configs import rules
from operators import RMSNORM

from pytest_roofline import Array, Prediction, Variant

from .common import (
    BLOCK_ROW,
    CLUSTER_GRID,
    CLUSTER_ROW,
    FEW,
    FLOAT4,
    LOOP,
    MANY_LONG,
    PAYLOAD,
    REGISTERS,
    TYPED,
    by_row,
)

RSTD = Array("rstd", ("M",), dtype="float32")
ROW = by_row("", args=("x", "w", "y", "N", "eps"), reads=("x",), writes=("y",), vector=16)

VARIANTS = (
    Variant(
        "n1",
        RMSNORM,
        "rmsnorm/n1_two_kernels.cu",
        title="two launches, x read by both",
        launches=(
            by_row("rms_n1_pass1", args=("x", "rstd", "N", "eps"), reads=("x",), writes=()),
            by_row("rms_n1_pass2", args=("x", "w", "rstd", "y", "N"), reads=("x",), writes=("y",)),
        ),
        limits=(LOOP,),
        scratch=(RSTD,),
    ),
    Variant(
        "n2",
        RMSNORM,
        "rmsnorm/n2_fused.cu",
        title="one kernel, x still read twice",
        launches=(by_row("rms_n2", args=("x", "w", "y", "N", "eps"), reads=("x", "x"), writes=("y",)),),
        limits=(LOOP,),
        predictions=(
            Prediction("n1", 0.95, 1.05, "the bytes moved are the same: fusing two kernels saves no byte"),
            Prediction("", 11.0, 12.5, "x is read twice", quantity="dram"),
            Prediction("", 70, 95, "as n1: the same bytes at the same rate", quantity="mbu"),
        ),
    ),
    Variant(
        "n3",
        RMSNORM,
        "rmsnorm/n3_registers.cu",
        title="the row stays in registers",
        launches=(by_row("rms_n3", args=("x", "w", "y", "N", "eps"), reads=("x",), writes=("y",), unrolled=PAYLOAD),),
        limits=(REGISTERS,),
        predictions=(
            Prediction("n1", 1.35, 1.65, "12N becomes 8N: the second read of x is gone"),
            Prediction(
                "", 6.5, 8.2, "x is read once, and what is left of y in L2 at the end is not written", quantity="dram"
            ),
            Prediction("", 75, 95, "nothing but DRAM is in the way", quantity="mbu"),
        ),
    ),
    Variant(
        "n4",
        RMSNORM,
        "rmsnorm/n4_float4.cu",
        title="n3 with 128-bit accesses",
        launches=(
            by_row(
                "rms_n4", args=("x", "w", "y", "N", "eps"), reads=("x",), writes=("y",), vector=16, unrolled=PAYLOAD
            ),
        ),
        limits=(REGISTERS, FLOAT4),
        alignment=16,
        predictions=(
            Prediction("n3", 1.0, 1.15, "the same bytes with a quarter of the memory instructions"),
            Prediction(
                "n3", 1.0, 1.6, "few rows: SMs idle, and fewer instructions a row count", workload=FEW, needs_gpu=True
            ),
        ),
    ),
    Variant(
        "n5",
        RMSNORM,
        "rmsnorm/n5_width.cu",
        title="n4 compiled for its width",
        launches=(replace(ROW, kernel="rms_n5", configure=rules.for_width),),
        limits=(REGISTERS, FLOAT4),
        alignment=16,
        predictions=(
            Prediction(
                "n4", 1.0, 1.05, "the same bytes; fewer registers let more blocks wait for DRAM", needs_gpu=True
            ),
            Prediction("n4", 1.0, 1.2, "few rows: no idle trips of the loops", workload=FEW, needs_gpu=True),
        ),
    ),
    Variant(
        "n6",
        RMSNORM,
        "rmsnorm/n6_one_barrier.cu",
        title="one barrier, the weight on its way early",
        launches=(replace(ROW, kernel="rms_n6", configure=rules.row),),
        limits=(BLOCK_ROW,),
        **TYPED,
        predictions=(
            Prediction("n5", 1.0, 1.05, "the same bytes, and DRAM has enough to do in the meantime", needs_gpu=True),
            Prediction("n5", 1.15, 1.6, "few rows: one wait for memory instead of two", workload=FEW, needs_gpu=True),
        ),
    ),
    Variant(
        "n7",
        RMSNORM,
        "rmsnorm/n7_cache_policy.cu",
        title="y stays in L2 where it can",
        launches=(replace(ROW, kernel="rms_n7", configure=rules.cached_row),),
        limits=(BLOCK_ROW,),
        **TYPED,
        predictions=(
            Prediction(
                "n6", 1.0, 1.06, "half the L2 cache more of y is not written to DRAM within the launch", needs_gpu=True
            ),
            Prediction("", 5.5, 7.0, "the L2 cache keeps what it can of y", quantity="dram", needs_gpu=True),
        ),
    ),
    Variant(
        "n8",
        RMSNORM,
        "rmsnorm/n8_cluster.cu",
        title="a long row in shared memory, over a cluster of blocks",
        launches=(replace(ROW, kernel="rms_n8", configure=rules.long_row),),
        limits=(CLUSTER_ROW, CLUSTER_GRID),
        **TYPED,
        predictions=(
            Prediction(
                "n2", 1.3, 1.7, "12N becomes 8N: n2's second read of a long row comes from DRAM", workload=MANY_LONG
            ),
            Prediction("", 7.0, 8.2, "x is read once", quantity="dram", workload=MANY_LONG),
        ),
    ),
)
