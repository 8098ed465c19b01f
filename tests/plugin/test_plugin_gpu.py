"""Saving, comparing and gating real measurements. Needs a GPU."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pytest_roofline import Shape
from pytest_roofline.bench.placement import Placements
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run

QUICK = "--benchmark-max-time=0.2"
ONE = ("-k", "n4-2048x3584 or n1-2048x3584", QUICK)
SAVED = ("-k", "n4-2048x3584 or n1-2048x3584 or n4-32x3584", QUICK)


@pytest.fixture
def run_of(cuda_device, suite):
    """``run_of("n4", M=1, N=3584)`` is that case on the GPU."""

    def make(name, **shape):
        return Run(cuda_device, Build.of(Plan(Case(suite.variant(name), Shape(**shape), suite), cuda_device.gpu)))

    return make


@pytest.fixture
def watch(cuda_device, roofline_parts):
    """The session's own stopwatch."""
    return roofline_parts.clock.stopwatch


@pytest.fixture(scope="module")
def saved():
    """Where a saved run of three benchmarks lies, and its text; empty until a test has made it."""
    return {}


@pytest.fixture
def measured(cuda_device, empty_project, saved):
    """A project with the shipped suite and one saved run; ``baseline`` is its file."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    empty_project.in_this_process()
    return empty_project.with_saved(saved, *SAVED)


def edit(project, change) -> None:
    data = json.loads(project.baseline.read_text())
    change(data)
    project.baseline.write_text(json.dumps(data))


def scale(factor):
    def change(data):
        for bench in data["benchmarks"]:
            bench["stats"]["median"] *= factor

    return change


def test_a_run_is_saved_under_its_gpu_and_found_again(measured, cuda_device):
    """A saved run lies in its GPU's folder, holds finite Python values only, and is compared with by default."""
    assert measured.baseline.parts[-3] == cuda_device.name.replace(" ", "-")
    data = json.loads(measured.baseline.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))
    assert data["machine_info"]["roofline"]["gpu"] == cuda_device.name
    for bench in data["benchmarks"]:
        for key, value in bench["extra_info"].items():
            assert value is None or isinstance(value, int | float | str | bool), (key, value)
            assert value != "UNSERIALIZABLE"
            assert not isinstance(value, float) or math.isfinite(value)
        assert bench["options"]["timer"] == "cuda_events"
    result = measured.run(*ONE, "--benchmark-compare")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*  then  *2048x3584*"])
    assert "machine_info is different" not in result.stdout.str() + result.stderr.str()


def test_the_gate_passes_on_the_same_build(measured):
    """The same build a second time is within 5 %, so the gate passes; what was deselected does not count."""
    result = measured.run(*ONE, "--benchmark-compare", "--roofline-gate")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["gate passed (tolerance 5.0%)"])


def test_a_planted_slowdown_fails_the_gate(measured):
    """Against a baseline 10 % faster the run is red and names the benchmark."""
    edit(measured, scale(1 / 1.1))
    result = measured.run(*ONE, "--benchmark-compare", "--roofline-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["slower *n4-2048x3584*", "gate FAILED: *"])


def test_c49_a_renamed_test_fails_the_gate(measured):
    """A benchmark that the baseline does not have fails the gate, where pytest-benchmark passes it silently."""

    def rename(data):
        for bench in data["benchmarks"]:
            bench["fullname"] = bench["fullname"].replace("test_time", "test_old")

    edit(measured, rename)
    assert measured.run(*ONE, "--benchmark-compare").ret == 0
    result = measured.run(*ONE, "--benchmark-compare", "--roofline-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no baseline*n4-2048x3584*"])


def test_c48_a_baseline_of_another_gpu_is_refused(measured):
    """Another GPU's baseline stops the run; asked for, it is compared by MBU and its times are never shown."""

    def other(data):
        data["machine_info"]["roofline"]["gpu"] = "NVIDIA GeForce RTX 4090"

    edit(measured, other)
    result = measured.run(*ONE, "--benchmark-compare")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *NVIDIA GeForce RTX 4090*--roofline-other-gpu*"])
    result = measured.run(*ONE, "--benchmark-compare", "--roofline-other-gpu")
    assert result.ret == 0, result.stdout.str()
    text = result.stdout.str()
    assert "MBU" in text
    assert "0001_base" not in text.split("benchmark '")[-1]


def test_warm_is_declared_and_recorded(measured):
    """Cold is the default, warm is recorded where asked for, and is faster where few rows fit L2."""
    measured.run("-k", "n4-32x3584", "--roofline-state=warm", "--benchmark-json=warm.json")
    (warm,) = json.loads((measured.path / "warm.json").read_text())["benchmarks"]
    runs = json.loads(measured.baseline.read_text())["benchmarks"]
    (cold,) = [bench for bench in runs if bench["name"] == "test_time[n4-32x3584]"]
    assert (cold["extra_info"]["state"], warm["extra_info"]["state"]) == ("cold", "warm")
    assert warm["stats"]["median"] < cold["stats"]["median"]


def test_disabled_benchmarks_still_check_the_answer(cuda_device, empty_project):
    """--benchmark-disable runs each kernel once, checks it, and reports no time."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    result = empty_project.run(*ONE, "--benchmark-disable")
    assert result.parseoutcomes()["passed"] == 2
    assert "median us" not in result.stdout.str()


def test_c44_a_broken_clock_leaves_no_number(cuda_device, empty_project):
    """A clock that counts milliseconds fails the benchmark, and no table and no JSON has a time of it."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    empty_project.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(autouse=True)
        def milliseconds(roofline_parts):
            clock = roofline_parts.clock.stopwatch.timer.clock
            true = clock.seconds
            clock.seconds = lambda start, end: true(start, end) * 1e3
            yield
            clock.seconds = true
        """
    )
    result = empty_project.run("-k", "n4-2048x3584", "--benchmark-json=run.json")
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(["*TimerError: *does not count seconds*"])
    assert "median us" not in result.stdout.str()
    left = empty_project.path / "run.json"  # some versions of pytest-benchmark open it before anything runs
    assert not left.exists() or "median" not in left.read_text()


class Again:
    """The same work for each sample, which changes no input."""

    def __init__(self, work):
        self.work = work

    def __call__(self):
        return self.work

    def restore(self): ...


def test_c40_a_slow_kernel_is_timed_whole(cuda_device, watch):
    """A sample of a kernel that runs 2 ms is 2 ms, although its launch returns at once."""

    def work():
        cuda_device.launch(watch._blocking, (1, 1, 1), (1, 1, 1), (np.int64(2_000_000),), 0)

    assert watch.sample(Again(work), "cold") == pytest.approx(2e-3, rel=0.02)


def test_c42_the_flush_is_outside_the_timed_region(watch, run_of):
    """A cold sample of one row is far shorter than the flush that precedes it."""
    row, flush = Again(run_of("n4", M=1, N=3584).run), Again(watch._flush)
    rows = [watch.sample(row, "cold") for _ in range(11)]
    flushes = [watch.sample(flush, "warm") for _ in range(11)]
    assert max(rows) < min(flushes) / 3


def test_placements_differ_and_keep_the_answer_right(cuda_device, run_of):
    """Each sample runs at another place on the same inputs, and its output there is right."""
    run = run_of("s1", M=16, N=1000)
    series = Placements(cuda_device, run)
    places = set()
    for _ in range(8):
        series()()
        assert run.verify(outputs=series.outputs()).of_tolerance <= 1
        places.add(cuda_device.view(series.outputs()["y"]).pointer)
    assert len(places) == 8


def test_a_kernel_is_loaded_once(run_of):
    """Two runs of a variant share one copy of its code."""
    first, second = (run_of("n3", M=1, N=64) for _ in range(2))
    assert first.program.steps[0].kernel is second.program.steps[0].kernel


def test_a_gate_with_no_saved_run_fails(cuda_device, empty_project):
    """--benchmark-compare with nothing saved is a warning of pytest-benchmark; with the gate on the run is red."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    result = empty_project.run("--roofline-gate", "--benchmark-compare", "-k", "test_refused_workload")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate FAILED: *"])


def test_c50_forty_large_cases_in_a_row(cuda_device, empty_project):
    """Forty parametrised tests that each take 40 % of the GPU all fit: memory is freed between them."""
    empty_project.declare()
    empty_project.pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("case", range(40))
        def test_large(cuda_device, case):
            _, total = cuda_device.cupy.cuda.runtime.memGetInfo()
            cuda_device.empty((int(0.4 * total) // 4,), "float32")
        """
    )
    empty_project.run().assert_outcomes(passed=40)
