"""The suite: RMSNorm (n1-n8), softmax (s1-s9), residual add with RMSNorm (a1, a2).

Each variant is one .cu file and one entry in ``variants``.

Everything else takes its lists from this file: correctness, perf, static and sanitizer tests, tables, README.
"""

from __future__ import annotations

from configs import rules
from variants import add_rmsnorm, rmsnorm, softmax
from variants.common import FEW, LONG, MANY_LONG

from pytest_roofline import Shape, Suite

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

SUITE = Suite((*rmsnorm.VARIANTS, *softmax.VARIANTS, *add_rmsnorm.VARIANTS), WORKLOADS, RULES)
