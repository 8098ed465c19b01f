"""The ladder: RMSNorm (n1-n4) and softmax (s1-s4), each rung one .cu file and one entry here.

Everything else takes its lists from this file: correctness, perf, static and sanitizer tests, tables, README.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_roofline.ladder import (
    Array,
    Arrays,
    Ladder,
    Launch,
    Limit,
    Operator,
    Prediction,
    Rung,
    Scalar,
    Shape,
    Stage,
)

FEW, LONG = "sweep 32 (decode batch)", "long row"  # stages that predictions name
BLOCK = 256
PAYLOAD = 32  # floats of a row that a thread of n3, n4, s3 and s4 keeps in registers


def rmsnorm_reference(arrays: Arrays, scalars: Mapping[str, float]) -> dict[str, np.ndarray]:
    """y = x * rsqrt(mean(x^2) + eps) * w, row by row in float64; x (M, N), w (N,), y (M, N)."""
    x = arrays["x"]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.mean(x * x, axis=1, keepdims=True)
        return {"y": x * (1.0 / np.sqrt(mean + scalars["eps"])) * arrays["w"]}


def softmax_reference(arrays: Arrays, scalars: Mapping[str, float]) -> dict[str, np.ndarray]:
    """y_i = exp(x_i - m) / sum_j exp(x_j - m) with m = max(x), row by row in float64; x and y (M, N)."""
    x = arrays["x"]
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return {"y": e / np.sum(e, axis=1, keepdims=True)}


def absolute_tolerance(columns: int) -> float:
    """Floor of the tolerance; 1e-7 alone would let zeros pass on very long rows, whose values are about 1/N."""
    return min(1e-7, 1e-3 / columns)


X = Array("x", ("M", "N"), low=-3.0, high=3.0)
W = Array("w", ("N",), low=0.0, high=1.0)
Y = Array("y", ("M", "N"))

RMSNORM = Operator(
    name="rmsnorm",
    formula="y = x * rsqrt(mean(x^2) + eps) * w",
    inputs=(X, W),
    outputs=(Y,),
    scalars=(Scalar("eps", "float", 1e-6),),
    reference=rmsnorm_reference,
    default_shape=Shape(4096, 3584),  # hidden size of Qwen2.5-7B
    rtol=2e-3,  # __expf and rsqrtf are why it is loose
    atol=absolute_tolerance,
)
SOFTMAX = Operator(
    name="softmax",
    formula="y_i = exp(x_i - max(x)) / sum_j exp(x_j - max(x))",
    inputs=(X,),
    outputs=(Y,),
    scalars=(),
    reference=softmax_reference,
    default_shape=Shape(4096, 2048),  # context length
    rtol=2e-3,
    atol=absolute_tolerance,
)

LOOP = Limit(
    "N",
    "the column counter is a 32-bit int and runs up to one block past the row",
    at_most=2**31 - 1 - BLOCK,
)
REGISTERS = Limit(
    "N",
    f"the whole row must fit the block's registers, {BLOCK} threads x {PAYLOAD} floats, "
    "which is also why attention kernels work in tiles",
    at_most=BLOCK * PAYLOAD,
)
FLOAT4 = Limit("N", "rows are read and written as float4", multiple_of=4)

RSTD = Array("rstd", ("M",))
ROW_MAX = Array("row_max", ("M",))
ROW_SUM = Array("row_sum", ("M",))
DIVIDE = Launch(
    "sm_s1_div",
    args=("x", "row_max", "row_sum", "y", "N"),
    reads=("x",),
    writes=("y",),
    source="softmax/s1_three_kernels.cu",
)

RUNGS = (
    Rung(
        "n1",
        RMSNORM,
        "rmsnorm/n1_two_kernels.cu",
        "two launches, x read by both",
        launches=(
            Launch("rms_n1_pass1", args=("x", "rstd", "N", "eps"), reads=("x",), writes=()),
            Launch("rms_n1_pass2", args=("x", "w", "rstd", "y", "N"), reads=("x",), writes=("y",)),
        ),
        limits=(LOOP,),
        scratch=(RSTD,),
    ),
    Rung(
        "n2",
        RMSNORM,
        "rmsnorm/n2_fused.cu",
        "one kernel, x still read twice",
        launches=(Launch("rms_n2", args=("x", "w", "y", "N", "eps"), reads=("x", "x"), writes=("y",)),),
        limits=(LOOP,),
        predictions=(
            Prediction("n1", 0.95, 1.05, "the ledger is the same: fusing two kernels saves no byte"),
            Prediction("", 11.0, 12.5, "x is read twice", quantity="dram"),
            Prediction("", 70, 95, "as n1: the same bytes at the same rate", quantity="mbu"),
        ),
    ),
    Rung(
        "n3",
        RMSNORM,
        "rmsnorm/n3_registers.cu",
        "the row stays in registers",
        launches=(Launch("rms_n3", args=("x", "w", "y", "N", "eps"), reads=("x",), writes=("y",), unrolled=PAYLOAD),),
        limits=(REGISTERS,),
        predictions=(
            Prediction("n1", 1.35, 1.65, "12N becomes 8N: the second read of x is gone"),
            Prediction(
                "", 6.5, 8.2, "x is read once, and what is left of y in L2 at the end is not written", quantity="dram"
            ),
            Prediction("", 75, 95, "nothing but DRAM is in the way", quantity="mbu"),
        ),
    ),
    Rung(
        "n4",
        RMSNORM,
        "rmsnorm/n4_float4.cu",
        "n3 with 128-bit accesses",
        launches=(
            Launch(
                "rms_n4", args=("x", "w", "y", "N", "eps"), reads=("x",), writes=("y",), vector=16, unrolled=PAYLOAD
            ),
        ),
        limits=(REGISTERS, FLOAT4),
        alignment=16,
        predictions=(
            Prediction("n3", 1.0, 1.15, "the same bytes with a quarter of the memory instructions"),
            Prediction("n3", 1.0, 1.6, "few rows: SMs idle, and fewer instructions a row count", stage=FEW),
        ),
    ),
    Rung(
        "s1",
        SOFTMAX,
        "softmax/s1_three_kernels.cu",
        "three launches, x read by each",
        launches=(
            Launch("sm_s1_max", args=("x", "row_max", "N"), reads=("x",), writes=()),
            Launch("sm_s1_sum", args=("x", "row_max", "row_sum", "N"), reads=("x",), writes=()),
            DIVIDE,
        ),
        limits=(LOOP,),
        scratch=(ROW_MAX, ROW_SUM),
    ),
    Rung(
        "s2",
        SOFTMAX,
        "softmax/s2_online.cu",
        "maximum and sum in one pass",
        launches=(Launch("sm_s2_ms", args=("x", "row_max", "row_sum", "N"), reads=("x",), writes=()), DIVIDE),
        limits=(LOOP,),
        scratch=(ROW_MAX, ROW_SUM),
        predictions=(
            Prediction("s1", 1.2, 1.45, "16N becomes 12N: one read of x fewer"),
            Prediction("s1", 1.2, 1.45, "the same for a long row, however few there are", stage=LONG),
        ),
    ),
    Rung(
        "s3",
        SOFTMAX,
        "softmax/s3_registers.cu",
        "the row stays in registers",
        launches=(Launch("sm_s3", args=("x", "y", "N"), reads=("x",), writes=("y",), unrolled=PAYLOAD),),
        limits=(REGISTERS,),
        predictions=(
            Prediction("s1", 1.8, 2.2, "16N becomes 8N: x is read once"),
            Prediction(
                "", 5.5, 8.2, "x is read once, and what is left of y in L2 at the end is not written", quantity="dram"
            ),
        ),
    ),
    Rung(
        "s4",
        SOFTMAX,
        "softmax/s4_float4.cu",
        "s3 with 128-bit accesses and fewer exponentials",
        launches=(Launch("sm_s4", args=("x", "y", "N"), reads=("x",), writes=("y",), vector=16, unrolled=PAYLOAD),),
        limits=(REGISTERS, FLOAT4),
        alignment=16,
        predictions=(
            Prediction("s3", 1.0, 1.15, "the same bytes in a quarter of the requests, fewer exponentials"),
            Prediction("s3", 1.0, 1.6, "few rows: SMs idle, and fewer instructions a row count", stage=FEW),
        ),
    ),
)


def both(rows: int) -> dict[str, tuple[Shape, ...]]:
    return {"rmsnorm": (Shape(rows, 3584),), "softmax": (Shape(rows, 2048),)}


STAGES = (
    Stage("main ladder", both(8192)),
    Stage("sweep 1 (decode)", both(1)),
    Stage(FEW, both(32)),
    Stage("sweep 2048 (prefill)", both(2048)),
    Stage("sweep 16384 (large)", both(16384)),
    Stage(LONG, {"softmax": (Shape(32, 152064),)}),  # vocabulary of Qwen2.5
)

LADDER = Ladder(RUNGS, STAGES)
