"""Residual add with RMSNorm: a1 and a2."""

from __future__ import annotations

from configs import rules
from operators import ADD_RMSNORM

from pytest_roofline import Prediction, Variant

from .common import CLUSTER_GRID, CLUSTER_REGISTERS, CLUSTER_ROW, FEW, TYPED, by_row

VARIANTS = (
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
