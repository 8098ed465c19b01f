"""Every variant at every shape of every workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Variant
from ..errors import RefusedError
from ..run.case import Case


def test_time(roofline: Callable[..., Any], perf_case: Case) -> None:
    """The answer is right, and no kernel is faster than the speed of light: else it is timed wrongly, or that is."""
    record = roofline(perf_case)
    assert record is None or (record.sol_percent or 0.0) <= 100, record


def test_refused_workload(suite: Suite, refused_perf_case: tuple[Variant, Shape]) -> None:
    """A variant that can't run a workload's shape refuses it and names those that can; it never falls back."""
    variant, shape = refused_perf_case
    with pytest.raises(RefusedError, match=f"{variant.name} can't run {shape}"):
        Case(variant, shape, suite)
