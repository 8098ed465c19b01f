"""Builds of small kernels of other kinds, and of the shipped suite."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_roofline import Launch, Operator, Shape, Suite, Variant
from pytest_roofline.hardware.gpus import Gpu, gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan

sys.path.append(str(Path(__file__).parent))  # for the module beside the tests


@pytest.fixture
def build(shipped: Suite) -> Callable[..., Build]:
    """``build("n3", "rtx4090", M=8, N=1000)`` is that variant of the shipped suite compiled for that GPU."""

    def make(name: str, gpu: str = "rtx4090", **extents: int) -> Build:
        return Build.of(Plan(Case(shipped.variant(name), Shape(**extents), shipped), gpu_named(gpu)))

    return make


@pytest.fixture
def kernel(tmp_path: Path) -> Callable[..., Build]:
    """``kernel(text, operator, *launches, M=8)`` is a build of the kernels in ``text`` for an RTX 4090."""

    def make(
        text: str, operator: Operator, *launches: Launch, gpu: Gpu | None = None, scratch: tuple = (), **extents: int
    ) -> Build:
        (tmp_path / "kernel.cu").write_text(text)
        variant = replace(Variant("v1", operator, "kernel.cu", launches, scratch=scratch), root=tmp_path)
        return Build.of(Plan(Case(variant, Shape(**extents)), gpu or gpu_named("rtx4090")))

    return make
