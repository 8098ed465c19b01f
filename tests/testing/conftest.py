"""Suites of one small kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_roofline import Launch, Limit, Operator, Suite, Variant


@pytest.fixture
def declared(tmp_path: Path) -> Callable[..., Suite]:
    """``declared(operator, launch, text, *limits)`` is a suite of one variant with that source."""

    def make(operator: Operator, launch: Launch, text: str = "", *limits: Limit) -> Suite:
        (tmp_path / "kernel.cu").write_text(text)
        return Suite((Variant("v1", operator, "kernel.cu", launch, limits=limits),)).at(tmp_path / "suite.py")

    return make
