"""A kernel that is not of the suite, with its own operator, reference and bytes moved, goes through every check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

AXPBY = Path(__file__).parents[1] / "axpby"
SUITE = {
    "static": "static/test_static.py",
    "shapes": "correctness/test_shapes.py",
    "perf": "perf/test_perf.py",
    "sanitizer": "sanitizer/test_sanitize.py",
}


@pytest.fixture
def foreign(empty_project):
    empty_project.declare(AXPBY)
    empty_project.use_tests(**SUITE)
    return empty_project


def test_without_a_gpu_it_is_checked_in_the_simulator(foreign):
    """One entry and one .cu are enough for the thin files of the suite: without a GPU the time is the speed of light."""
    foreign.hide_gpu()
    result = foreign.run()
    counts = result.parseoutcomes()
    assert set(counts) == {"passed"}
    assert counts["passed"] > 4 * 6 + 2 + 20  # static checks over six architectures, two refusals, shapes and findings
    result.stdout.fnmatch_lines(
        ["roofline: simulated (PTX of sm_89)*", "axpby *DRAM *", "SOL: speed of light on *, modelled, not measured; *"]
    )


def test_a_broken_foreign_kernel_fails_its_static_check(foreign):
    """A parameter of another type than declared is found without a GPU, for each architecture, and told once."""
    foreign.hide_gpu()
    source = foreign.path / "kernels" / "axpby.cu"
    source.write_text(source.read_text().replace("(float a,", "(double a,"))
    result = foreign.run("test_static.py")
    assert result.parseoutcomes() == {"failed": 3 * 6, "passed": 1}, "the reference alone needs no compiler"
    result.stdout.fnmatch_lines(["*parameter 0: a is declared as float*compiled with f64*"])


def test_on_a_gpu_it_is_checked_timed_and_race_checked(cuda_device, foreign):
    """On a GPU every check of the suite runs on it; the record has its own bytes moved: three crossings."""
    result = foreign.run("--roofline-require-gpu", "--benchmark-json=run.json", "--benchmark-max-time=0.2")
    counts = result.parseoutcomes()
    assert set(counts) == {"passed"}, result.stdout.str()
    run = json.loads((foreign.path / "run.json").read_text())
    (info,) = [b["extra_info"] for b in run["benchmarks"] if b["name"] == "test_time[axpby-4096x4096]"]
    assert info["bytes_moved"] == 12 * 4096 * 4096
    assert info["moved"] == "axpby reads x, reads y, writes z"
    assert info["gbs"] == pytest.approx(info["bytes_moved"] / info["median_us"] / 1e3)
    assert 20 < info["mbu_percent"] < 130
    assert info["axpby.waves"] > 1


def test_on_a_gpu_a_broken_foreign_kernel_leaves_no_number(cuda_device, foreign):
    """A wrong answer fails the perf test too, and neither JSON nor table has a time of it."""
    source = foreign.path / "kernels" / "axpby.cu"
    source.write_text(source.read_text().replace("a * x[offset + i] +", "a * x[offset + i] + 1e-3f +"))
    result = foreign.run("test_perf.py", "--benchmark-json=run.json")
    assert result.parseoutcomes()["failed"] == 2
    result.stdout.fnmatch_lines(["*WrongAnswerError: axpby 4096x4096: *values of z are wrong*"])
    assert "median us" not in result.stdout.str()
    left = foreign.path / "run.json"  # some versions of pytest-benchmark open it before anything runs
    assert not left.exists() or "median" not in left.read_text()
