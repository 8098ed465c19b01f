"""The suite: RMSNorm (n1-n8), softmax (s1-s9), residual add with RMSNorm (a1, a2).

Each variant is one .cu file and one entry here.

Everything else takes its lists from this file: correctness, perf, static and sanitizer tests, tables, README.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from configs import rules
from configs.layout import blocks_a_row
from operators import ADD_RMSNORM, RMSNORM, SOFTMAX

from pytest_roofline import Array, Launch, Limit, Prediction, Shape, Suite, Variant

FEW, LONG, MANY_LONG = "sweep 32 (decode batch)", "long row", "many long rows"  # workloads that predictions name
BLOCK = 256
PAYLOAD = 32  # floats of a row that a thread of n3, n4, s3 and s4 keeps in registers


LAST_TRIP = 2**31 - 1 - BLOCK
LOOP = Limit(
    lambda s: s.N <= LAST_TRIP,
    f"N <= {LAST_TRIP}: the column counter is a 32-bit int and runs up to one block past the row",
)
REGISTERS = Limit(
    lambda s: s.N <= BLOCK * PAYLOAD,
    f"N <= {BLOCK * PAYLOAD}: the whole row must fit the block's registers, {BLOCK} threads x {PAYLOAD} floats, "
    "which is also why attention kernels work in tiles",
)
FLOAT4 = Limit(lambda s: s.N % 4 == 0, "N % 4 == 0: rows are read and written as float4")
BLOCK_ROW = Limit(
    lambda s: s.N <= rules.BLOCK_COLUMNS, f"N <= {rules.BLOCK_COLUMNS}: the row stays in the registers of one block"
)
CLUSTER_ROW = Limit(
    lambda s: s.N <= rules.CLUSTER_COLUMNS,
    f"N <= {rules.CLUSTER_COLUMNS}: the row must fit the shared memory of a cluster of 16 blocks",
)
CLUSTER_REGISTERS = Limit(
    lambda s: s.N <= rules.CLUSTER_REGISTER_COLUMNS,
    f"N <= {rules.CLUSTER_REGISTER_COLUMNS}: the row stays in the registers of a cluster of 16 blocks",
)
CLUSTER_GRID = Limit(
    lambda s: s.M <= rules.CLUSTER_ROWS,
    f"M <= {rules.CLUSTER_ROWS}: a grid has at most 2^31 - 1 blocks, 16 of them for a row",
)


# One block of 256 threads a row, 4 bytes an access; a configuration replaces what it needs.
by_row = partial(Launch, grid=blocks_a_row(1), block=BLOCK, vector=4)

RSTD = Array("rstd", ("M",), dtype="float32")
ROW_MAX = Array("row_max", ("M",), dtype="float32")
ROW_SUM = Array("row_sum", ("M",), dtype="float32")
DIVIDE = by_row(
    "sm_s1_div",
    args=("x", "row_max", "row_sum", "y", "N"),
    reads=("x",),
    writes=("y",),
    source="softmax/s1_three_kernels.cu",
)

DTYPES = ("float32", "float16", "bfloat16")
TYPED = {"alignment": 16, "dtypes": DTYPES, "capability": 80}  # of kernels that are built on vector.cuh
RMSNORM_ROW = by_row("", args=("x", "w", "y", "N", "eps"), reads=("x",), writes=("y",), vector=16)
SOFTMAX_ROW = by_row("", args=("x", "y", "N"), reads=("x",), writes=("y",), vector=16)

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
        launches=(replace(RMSNORM_ROW, kernel="rms_n5", configure=rules.for_width),),
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
        launches=(replace(RMSNORM_ROW, kernel="rms_n6", configure=rules.row),),
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
        launches=(replace(RMSNORM_ROW, kernel="rms_n7", configure=rules.cached_row),),
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
        launches=(replace(RMSNORM_ROW, kernel="rms_n8", configure=rules.long_row),),
        limits=(CLUSTER_ROW, CLUSTER_GRID),
        **TYPED,
        predictions=(
            Prediction(
                "n2", 1.3, 1.7, "12N becomes 8N: n2's second read of a long row comes from DRAM", workload=MANY_LONG
            ),
            Prediction("", 7.0, 8.2, "x is read once", quantity="dram", workload=MANY_LONG),
        ),
    ),
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
        launches=(replace(SOFTMAX_ROW, kernel="sm_s5", configure=rules.for_width),),
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
        launches=(replace(SOFTMAX_ROW, kernel="sm_s6", configure=rules.softmax_row),),
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
        launches=(replace(SOFTMAX_ROW, kernel="sm_s7", configure=rules.cached_softmax_row),),
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
        launches=(replace(SOFTMAX_ROW, kernel="sm_s8", configure=rules.long_softmax_row),),
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
        launches=(replace(SOFTMAX_ROW, kernel="sm_s9", configure=rules.staggered_softmax_row),),
        limits=(CLUSTER_ROW, CLUSTER_GRID),
        **TYPED,
        predictions=(
            Prediction(
                "s8", 1.05, 1.2, "reads and writes overlap by all groups but one", workload=LONG, needs_gpu=True
            ),
            Prediction("s8", 0.99, 1.01, "rows come in waves: nothing is staggered", workload=MANY_LONG),
        ),
    ),
    Variant(
        "a1",
        ADD_RMSNORM,
        "add_rmsnorm/a1_two_kernels.cu",
        title="two launches: add, then the best RMSNorm",
        launches=(
            by_row(
                "add_a1", args=("x", "r", "h", "N"), reads=("x", "r"), writes=("h",), vector=16, configure=rules.added
            ),
            by_row(
                "rms_n7",
                args=("h", "w", "y", "N", "eps"),
                reads=("h",),
                writes=("y",),
                source="rmsnorm/n7_cache_policy.cu",
                vector=16,
                configure=rules.normed,
            ),
        ),
        limits=(CLUSTER_ROW, CLUSTER_GRID),
        **TYPED,
    ),
    Variant(
        "a2",
        ADD_RMSNORM,
        "add_rmsnorm/a2_fused.cu",
        title="one launch, h in registers",
        launches=(
            by_row(
                "add_rms_a2",
                args=("x", "r", "w", "h", "y", "N", "eps"),
                reads=("x", "r"),
                writes=("h", "y"),
                vector=16,
                configure=rules.fused,
            ),
        ),
        limits=(CLUSTER_REGISTERS, CLUSTER_GRID),
        **TYPED,
        predictions=(
            Prediction("a1", 1.2, 1.3, "20N becomes 16N: h is not read again"),
            Prediction("a1", 1.3, 2.2, "few rows: one launch instead of two", workload=FEW),
        ),
    ),
)


RULES = {
    "rmsnorm": rules.best_rmsnorm,
    "softmax": rules.best_softmax,
    "add_rmsnorm": rules.best_add_rmsnorm,
}


def all_of(rows: int, dtype: str = "float32") -> dict[str, tuple[Shape, ...]]:
    """Every operator at its usual width."""
    hidden, context = Shape(M=rows, N=3584, dtype=dtype), Shape(M=rows, N=2048, dtype=dtype)
    return {"rmsnorm": (hidden,), "softmax": (context,), "add_rmsnorm": (hidden,)}


WORKLOADS = {
    "main": all_of(8192),
    "sweep 1 (decode)": all_of(1),
    FEW: all_of(32),
    "sweep 2048 (prefill)": all_of(2048),
    "sweep 16384 (large)": all_of(16384),
    "main in bfloat16": all_of(8192, "bfloat16"),
    LONG: {"softmax": (Shape(M=32, N=152064),)},  # vocabulary of Qwen2.5
    MANY_LONG: {
        "rmsnorm": (Shape(M=4096, N=65536),),
        "softmax": (Shape(M=4096, N=32768), Shape(M=4096, N=152064)),
    },
}

SUITE = Suite(VARIANTS, WORKLOADS, RULES)
