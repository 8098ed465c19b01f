"""A kernel that is not of the suite, with its own operator and reference, goes through every generic test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

AXPBY = Path(__file__).parents[1] / "axpby"


@pytest.fixture
def foreign(empty_project):
    """A project whose whole test file is one import."""
    empty_project.declare(AXPBY)
    empty_project.import_tests(all="*")
    return empty_project


def edit(project, old: str, new: str) -> None:
    source = project.path / "kernels" / "axpby.cu"
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))


def test_without_a_gpu_it_is_checked_in_the_simulator(foreign):
    """One entry, one .cu and one import are enough: without a GPU the time is a modelled speed of light."""
    foreign.hide_gpu()
    result = foreign.run()
    counts = result.parseoutcomes()
    assert set(counts) == {"passed"}
    assert counts["passed"] > 3 * 6 + 2 + 20  # static checks over six architectures, two refusals, shapes and findings
    told = "speed of light on NVIDIA GeForce RTX 4090, modelled, not measured"
    result.stdout.fnmatch_lines(["roofline: simulated (PTX of sm_89)*", "axpby *DRAM *", f"SOL: {told}; *"])


def test_a_broken_foreign_kernel_fails_its_static_check(foreign):
    """A parameter of another type than declared is found without a GPU."""
    foreign.hide_gpu()
    edit(foreign, "(float a,", "(double a,")
    result = foreign.run("-k", "test_parameters")
    assert result.parseoutcomes()["failed"] == 6
    result.stdout.fnmatch_lines(["*parameter 0: a is declared as float*compiled with f64*"])


def test_on_a_gpu_it_is_checked_timed_and_race_checked(cuda_device, foreign):
    """On a GPU every generic test runs on it; the record has its own bytes, of three crossings."""
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
    edit(foreign, "a * x[offset + i] +", "a * x[offset + i] + 1e-3f +")
    result = foreign.run("-k", "test_time", "--benchmark-json=run.json")
    assert result.parseoutcomes()["failed"] == 2
    result.stdout.fnmatch_lines(["*WrongAnswerError: axpby 4096x4096: *values of z are wrong*"])
    assert "median us" not in result.stdout.str()
    left = foreign.path / "run.json"  # some versions of pytest-benchmark open it before anything runs
    assert not left.exists() or "median" not in left.read_text()
