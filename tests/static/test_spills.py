"""Shapes at which registers are short: a thread holds fewer vectors there, or the compiler spills."""

from __future__ import annotations

import pytest
from specimens import specimens

from pytest_roofline import Shape
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.static import ARCHITECTURES, check_accesses, check_resources, gpu_of

SHORT = [  # each spilled before its rule
    ("n8", Shape(M=72, N=78544), "h200"),  # vectors kept by 384 threads in four blocks an SM
    ("n8", Shape(M=70, N=60528), "h100"),
    ("n8", Shape(M=2325, N=358816, dtype="float16"), "h100"),  # four 16-bit vectors at once beside kept ones
    ("n8", Shape(M=943, N=524288, dtype="bfloat16"), "h100"),
    ("n8", Shape(M=47, N=242688, dtype="float16"), "rtx5090"),
    ("a2", Shape(M=3069, N=42818, dtype="bfloat16"), "b200"),  # 16 pairs of each of three arrays
    ("a2", Shape(M=498, N=42758, dtype="float16"), "rtx5090"),
    ("n8", Shape(M=70, N=182824, dtype="bfloat16"), "h200"),  # and places to be filled up
    ("n8", Shape(M=4096, N=175536, dtype="bfloat16"), "h100"),
    ("n8", Shape(M=10000, N=90624, dtype="bfloat16"), "h200"),
    ("n8", Shape(M=2048, N=359560, dtype="bfloat16"), "h100"),
    ("n8", Shape(M=4096, N=32768, dtype="float16"), "h200"),  # four 16-bit vectors at once in 2048 threads of an SM
    ("a2", Shape(M=500, N=252616, dtype="bfloat16"), "h200"),  # places to be filled up in a block of 29 to 31 warps
    ("a2", Shape(M=265, N=238136, dtype="bfloat16"), "h100"),
    ("a2", Shape(M=10000, N=117800, dtype="float16"), "b200"),
    ("a2", Shape(M=10000, N=59224, dtype="bfloat16"), "rtx5090"),
    ("a2", Shape(M=132, N=53768, dtype="bfloat16"), "h200"),  # eight partials at once beside 32 elements
    ("s8", Shape(M=1, N=503832, dtype="float16"), "h200"),  # eight partials at once in 1536 threads of an SM
    ("s9", Shape(M=32, N=480000, dtype="bfloat16"), "h200"),
    ("s9", Shape(M=300, N=30000, dtype="float16"), "h200"),  # a whole row as floats in 256 threads
]


@pytest.mark.parametrize(("name", "shape", "on"), SHORT, ids=str)
def test_nothing_spills_where_registers_are_short(suite, name, shape, on):
    """Stack frame, spill stores and spill loads are 0 bytes."""
    for launch in Build.of(Plan(Case(suite.variant(name), shape, suite), gpu_named(on))).launches:
        check_resources(launch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_nothing_spills_at_any_specimen(suite, variant, arch):
    """The same in every way in which the variants are compiled for the shapes of specimens.py."""
    for plan in specimens(suite, variant, gpu_of(arch)):
        build = Build.of(plan)
        for launch in build.launches:
            check_resources(launch)
            check_accesses(build, launch)
