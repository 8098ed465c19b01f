"""The floors of this suite hold something: measured times are near them where the bytes decide. After test_perf.py."""

from __future__ import annotations

import pytest

MOST = 1.5  # times the floor, from 8192 rows on
NEAR = ("n1", "n2", "n3", "n4", "s1", "s2")  # s3 and s4 wait for something else


def test_measured_times_are_near_their_floors(cuda_device, roofline_session):
    """From 8192 rows on n1 to n4, s1 and s2 take at most one and a half times their floor."""
    infos = [
        info for _, info in roofline_session.benchmarks.records if info["rows"] >= 8192 and info["variant"] in NEAR
    ]
    if not infos:
        pytest.skip("no benchmark of 8192 rows was measured in this run")
    ratios = {f"{info['variant']}-{info['rows']}x{info['columns']}": info["floor_ratio"] for info in infos}
    assert all(1 <= ratio <= MOST for ratio in ratios.values()), ratios


def test_no_measured_time_is_below_its_floor(cuda_device, roofline_session):
    """Of no variant, at no shape: a floor is what no kernel can be faster than."""
    records = roofline_session.benchmarks.records
    if not records:
        pytest.skip("nothing was measured in this run")
    below = {name: info["floor_ratio"] for name, info in records if (info["floor_ratio"] or 1) < 1}
    assert below == {}
