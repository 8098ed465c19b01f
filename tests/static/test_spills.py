"""Shapes at which registers are short: a thread holds fewer vectors there, or the compiler spills."""

from __future__ import annotations

import pytest

from pytest_roofline.cards import card
from pytest_roofline.check import images_of
from pytest_roofline.ladder import Shape
from pytest_roofline.static import check_resources

SHORT = [  # each spilled before its rule
    ("n8", Shape(72, 78544), "h200"),  # vectors kept by 384 threads in four blocks an SM
    ("n8", Shape(70, 60528), "h100"),
    ("n8", Shape(2325, 358816, "float16"), "h100"),  # four 16-bit vectors at once beside kept ones
    ("n8", Shape(943, 524288, "bfloat16"), "h100"),
    ("n8", Shape(47, 242688, "float16"), "rtx5090"),
    ("a2", Shape(3069, 42818, "bfloat16"), "b200"),  # 16 pairs of each of three arrays
    ("a2", Shape(498, 42758, "float16"), "rtx5090"),
    ("s9", Shape(300, 30000, "float16"), "h200"),  # a whole row as floats in 256 threads
]


@pytest.mark.parametrize(("name", "shape", "on"), SHORT, ids=str)
def test_nothing_spills_where_registers_are_short(ladder, name, shape, on):
    """Stack frame, spill stores and spill loads are 0 bytes."""
    target = card(on)
    fixed = ladder.rung(name).at(shape, target)
    images = images_of(ladder, fixed, target.arch)
    for launch in fixed.launches:
        check_resources(launch, images[fixed.source_of(launch)])
