"""Every variant at every shape of every workload. Generic: works with any declaration."""

from __future__ import annotations

import pytest

from pytest_roofline.errors import RefusedError


def test_variant(roofline, perf_case):
    """The answer is right; the time is recorded with GB/s, MBU, floor and the marks that qualify them.

    No kernel is faster than its floor: one that seems to be is timed wrongly, or its floor is.
    """
    info = roofline(*perf_case)
    assert (info.get("floor_ratio") or 1.0) >= 1.0, info


def test_refused(suite, refused_perf_case):
    """A variant that can't run a workload's shape refuses it and names those that can; it never falls back."""
    variant, shape = refused_perf_case
    with pytest.raises(RefusedError, match=f"{variant.name} can't run {shape}"):
        suite.require(variant, shape)
