"""Speeds of light of the suite: measured times are near them where bytes decide. After test_perf.py."""

from __future__ import annotations

import pytest

LEAST = 100 / 1.5  # percent of the speed of light, from 8192 rows on
NEAR = ("n1", "n2", "n3", "n4", "s1", "s2")  # s3 and s4 wait for something else


@pytest.fixture
def records(request, cuda_device):
    """What was measured in this run."""
    from pytest_roofline.plugin.hooks import BENCHMARKS

    found = list(request.config.stash[BENCHMARKS].records.values())
    if not found:
        pytest.skip("nothing was measured in this run")
    return found


def test_measured_times_are_near_the_speed_of_light(records):
    """From 8192 rows on n1 to n4, s1 and s2 take at most one and a half times their speed of light."""
    wanted = [one for one in records if one.extents["M"] >= 8192 and one.variant in NEAR]
    if not wanted:
        pytest.skip("no benchmark of 8192 rows was measured in this run")
    percents = {one.case: one.sol_percent for one in wanted}
    assert all(LEAST <= percent <= 100 for percent in percents.values()), percents


def test_no_measured_time_is_below_the_speed_of_light(records):
    """Of no variant, at no shape: it is what no kernel can be faster than."""
    assert {one.case: one.sol_percent for one in records if (one.sol_percent or 0) > 100} == {}
