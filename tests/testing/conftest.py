"""Declarations of small kernels, of which only the generic cases are asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_roofline import Launch, Limit, Operator, Suite, Variant
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan


@pytest.fixture
def declared(tmp_path: Path) -> Callable[..., Suite]:
    """``declared(operator, launch, text, *limits)`` is a suite of one variant with that source."""

    def make(operator: Operator, launch: Launch, text: str = "", *limits: Limit) -> Suite:
        (tmp_path / "kernel.cu").write_text(text)
        return Suite((Variant("v1", operator, "kernel.cu", launch, limits=limits),)).at(tmp_path / "suite.py")

    return make


def build(case: Case, gpu: str = "h200") -> Build:
    return Build.of(Plan(case, gpu_named(gpu)))
