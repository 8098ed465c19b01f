"""Shipped variants planned for shapes that compile them in different ways: widths, types, many and few rows."""

from __future__ import annotations

from dataclasses import replace

from pytest_roofline import Shape, Suite, Variant
from pytest_roofline.hardware.gpus import Gpu, gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import LackingError, Plan

ROWS = 4096  # more than a GPU needs to be full
# Odd, vectors of four, the longest row in a block's registers, then rows in shared memory over ever larger clusters.
COLUMNS = (1001, 1004, 8192, 16384, 65536, 152064, 262143)
# What few rows get, rows that just fit the GPU, arrays that just fit an L2 cache, and such as are far beyond any; then
# long rows of pairs, and the longest.
BESIDE = ((32, 152064), (300, 30000), (2048, 3584), (2**16, 4096), (3000, 42818), (943, 2**19))
# A third type is as wide as the second, and only its conversions are others.
OF_MORE_TYPES = ((ROWS, 1004), (ROWS, 65536))


def specimens(suite: Suite, variant: Variant, gpu: Gpu) -> list[Plan]:
    """Plans of the variant on ``gpu``, one for each way in which it is compiled at these shapes and the workloads'."""
    shapes = {*suite.shapes(variant.operator)}
    sizes = (*((ROWS, n) for n in COLUMNS), *BESIDE)
    for dtype in variant.dtypes:
        wanted = sizes if dtype in variant.dtypes[:2] else OF_MORE_TYPES
        shapes |= {Shape(M=m, N=n, dtype=dtype) for m, n in wanted}
    found: dict[object, Plan] = {}
    ordered = sorted(shapes, key=lambda s: (s.M, s.N, s.dtype))
    for shape in [suite.default(variant.operator), *ordered]:
        if variant.broken_limit(shape):
            continue
        try:
            plan = Plan(Case(variant, shape, suite), gpu)
        except LackingError:
            continue
        found.setdefault(tuple(launch.defines for launch in plan.launches), plan)
    return list(found.values())


def planned(suite: Suite, name: str, gpu: str | Gpu = "h200", **shape: object) -> Plan:
    """One variant at a shape on a GPU: ``planned(suite, "n3", M=8, N=1000)``."""
    on = gpu_named(gpu) if isinstance(gpu, str) else gpu
    return Plan(Case(suite.variant(name), Shape(**shape), suite), on)


def built(suite: Suite, name: str, gpu: str | Gpu = "h200", **shape: object) -> Build:
    """The same, compiled."""
    return Build.of(planned(suite, name, gpu, **shape))


def fixed(suite: Suite, name: str, shape: Shape, gpu: str | Gpu = "h200") -> Variant:
    """A variant whose launches are configured for one shape on a GPU, whatever shape it is then planned for."""
    variant, on = suite.variant(name), gpu_named(gpu) if isinstance(gpu, str) else gpu
    return replace(variant, launches=variant.configured(shape, on))
