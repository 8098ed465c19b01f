"""Shapes at which registers are short: a thread holds fewer vectors there, or the compiler spills."""

from __future__ import annotations

import pytest

from pytest_roofline.build.static import check_resources
from pytest_roofline.declare.suite import Shape
from pytest_roofline.hardware.gpus import gpu
from pytest_roofline.run.check import images_of

SHORT = [  # each spilled before its rule
    ("n8", Shape(72, 78544), "h200"),  # vectors kept by 384 threads in four blocks an SM
    ("n8", Shape(70, 60528), "h100"),
    ("n8", Shape(2325, 358816, "float16"), "h100"),  # four 16-bit vectors at once beside kept ones
    ("n8", Shape(943, 524288, "bfloat16"), "h100"),
    ("n8", Shape(47, 242688, "float16"), "rtx5090"),
    ("a2", Shape(3069, 42818, "bfloat16"), "b200"),  # 16 pairs of each of three arrays
    ("a2", Shape(498, 42758, "float16"), "rtx5090"),
    ("n8", Shape(70, 182824, "bfloat16"), "h200"),  # and places to be filled up
    ("n8", Shape(4096, 175536, "bfloat16"), "h100"),
    ("n8", Shape(10000, 90624, "bfloat16"), "h200"),
    ("n8", Shape(2048, 359560, "bfloat16"), "h100"),
    ("n8", Shape(4096, 32768, "float16"), "h200"),  # four 16-bit vectors at once in 2048 threads of an SM
    ("a2", Shape(500, 252616, "bfloat16"), "h200"),  # places to be filled up in a block of 29 to 31 warps
    ("a2", Shape(265, 238136, "bfloat16"), "h100"),
    ("a2", Shape(10000, 117800, "float16"), "b200"),
    ("a2", Shape(10000, 59224, "bfloat16"), "rtx5090"),
    ("a2", Shape(132, 53768, "bfloat16"), "h200"),  # eight partials at once beside 32 elements
    ("s8", Shape(1, 503832, "float16"), "h200"),  # eight partials at once in 1536 threads of an SM
    ("s9", Shape(32, 480000, "bfloat16"), "h200"),
    ("s9", Shape(300, 30000, "float16"), "h200"),  # a whole row as floats in 256 threads
]


@pytest.mark.parametrize(("name", "shape", "on"), SHORT, ids=str)
def test_nothing_spills_where_registers_are_short(suite, name, shape, on):
    """Stack frame, spill stores and spill loads are 0 bytes."""
    target = gpu(on)
    fixed = suite.variant(name).at(shape, target)
    images = images_of(suite, fixed, target.arch)
    for launch in fixed.launches:
        check_resources(launch, images[fixed.source_of(launch)])
