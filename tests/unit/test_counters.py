"""--roofline-counters in a run on a GPU."""

from __future__ import annotations

import json

import pytest


def test_counters_of_a_run_stand_beside_bytes_moved_and_model(cuda_device, empty_project):
    """--roofline-counters adds DRAM bytes, L2 sectors and ncu's time to the saved run and shows them."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    result = empty_project.run("-k", "n4-2048x3584", "--roofline-counters", "--benchmark-json=run.json")
    assert result.ret == 0, result.stdout.str()
    if "ncu was not found" in result.stdout.str() or "performance counters" in result.stdout.str():
        pytest.skip("not checked: no ncu, or no permission")
    (bench,) = json.loads((empty_project.path / "run.json").read_text())["benchmarks"]
    info = bench["extra_info"]
    assert info["dram_read_bytes"] == pytest.approx(4 * 2048 * 3584, rel=0.05)
    assert 0.5 < info["ncu_us"] / info["median_us"] < 1.5
    result.stdout.fnmatch_lines(["*roofline: counters*", "n4 *2048x3584 *cold *8.0 *"])
