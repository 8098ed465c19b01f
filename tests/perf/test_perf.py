"""Every rung at every shape of every stage. Generic: works with any declaration."""

from __future__ import annotations

import pytest

from pytest_roofline.errors import RefusedError


def test_rung(roofline, perf_case):
    """The answer is right; the time is recorded with GB/s, MBU, floor and the marks that qualify them.

    No kernel is faster than its floor: one that seems to be is timed wrongly, or its floor is.
    """
    info = roofline(*perf_case)
    assert (info.get("floor_ratio") or 1.0) >= 1.0, info


def test_refused(ladder, refused_perf_case):
    """A rung that can't run a stage's shape refuses it and names those that can; it never falls back."""
    rung, shape = refused_perf_case
    with pytest.raises(RefusedError, match=f"{rung.name} can't run {shape}"):
        ladder.require(rung, shape)
