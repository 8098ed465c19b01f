"""What becomes of measurements (records, gate, comparison), on a GPU that is none; the real one: test_plugin_gpu.py."""

from __future__ import annotations

import json

import pytest

ONE = ("-k", "n3-1x3584 or s3-1x2048")


@pytest.fixture(scope="module")
def saved():
    """Where a saved run lies, and its text; empty until a test has made it."""
    return {}


@pytest.fixture
def faked(empty_project, saved):
    """A project with five shipped variants on the fake GPU, with one saved run of two benchmarks."""
    empty_project.declare(only="n1 n3 n4 s1 s3")
    empty_project.use_tests(perf="perf/test_perf.py")
    empty_project.fake_gpu()
    return empty_project.with_saved(saved, *ONE)


def gate(project, *args):
    return project.run(*(args or ONE), "--benchmark-compare", "--roofline-gate")


def test_the_gate_passes_fails_and_names(faked):
    """The same times pass, 4 % slower passes, 10 % slower is red and named, and without the gate nothing fails."""
    assert gate(faked).ret == 0
    faked.fake_gpu(slower=1.04)
    assert gate(faked).ret == 0
    faked.fake_gpu(slower=1.1)
    result = gate(faked)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["slower *n3-1x3584*", "gate FAILED: *"])
    assert faked.run(*ONE, "--benchmark-compare").ret == 0


def test_c49_only_what_was_left_out_on_purpose_is_forgiven(faked):
    """A new benchmark, and one that was selected and gave no time, fail; a deselected one and one by id do not."""
    assert gate(faked, "-k", "n3-1x3584").ret == 0
    assert gate(faked, "test_perf.py::test_time[n3-1x3584]").ret == 0
    result = gate(faked, "-k", "n3-1x3584 or s3-1x2048 or n3-32x3584")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["no baseline *n3-32x3584*"])
    faked.fake_gpu(full=13_000)  # n3 does not fit, s3 does
    result = gate(faked, "-m", "perf", *ONE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["not run *", "*tests (*): allocating *"])


def test_c48_another_gpu(faked):
    """A baseline of another GPU is refused; asked for, it is compared by MBU, and its times are not shown."""
    data = json.loads(faked.baseline.read_text())
    data["machine_info"]["roofline"]["gpu"] = "NVIDIA A100"
    faked.baseline.write_text(json.dumps(data))
    result = gate(faked)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *NVIDIA A100*--roofline-other-gpu*"])
    for bench in data["benchmarks"]:
        bench["extra_info"]["metric_valid"] = True
    faked.baseline.write_text(json.dumps(data))
    result = faked.run(*ONE, "--benchmark-compare", "--roofline-other-gpu")
    assert result.ret == 0
    assert "MBU" in result.stdout.str()
    assert "(0001_base)" not in result.stdout.str()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_wrong_answer_leaves_no_number(faked, when):
    """An answer that is wrong before the time is taken, or turns wrong while it is, leaves no time anywhere."""
    faked.fake_gpu(wrong=when)
    result = faked.run("-k", "n3-1x3584", "--benchmark-json=run.json")
    assert result.parseoutcomes()["failed"] == 1
    assert "median us" not in result.stdout.str()
    assert "benchmark 'rmsnorm 1x3584'" not in result.stdout.str()  # pytest-benchmark's own table
    left = faked.path / "run.json"
    assert not left.exists() or '"median"' not in left.read_text()


def damage(key, value):
    def change(data):
        data["benchmarks"][0][key] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        damage("extra_info", {"foo": 1}),
        damage("extra_info", [1]),
        damage("fullname", None),
        lambda data: data.pop("machine_info"),
        lambda data: data["machine_info"].pop("roofline"),
        lambda data: data["benchmarks"].clear(),
    ],
)
def test_a_damaged_baseline_never_passes(faked, change):
    """A baseline that lacks what the gate needs is red, with a message and without a traceback."""
    data = json.loads(faked.baseline.read_text())
    change(data)
    faked.baseline.write_text(json.dumps(data))
    result = gate(faked)
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.USAGE_ERROR)
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_several_baselines_are_refused(faked):
    """A pattern that matches two saved runs stops, for the gate compares with one."""
    faked.run(*ONE, "--benchmark-save=second")
    result = faked.run(*ONE, "--benchmark-compare=000*", "--roofline-gate")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *matches several saved runs*"])


def test_plain_benchmarks_beside_are_none_of_the_gates_business(faked):
    """A plain pytest-benchmark test is neither counted as missing nor in the plugin's table."""
    faked.pytester.makepyfile(test_plain="def test_plain(benchmark): benchmark(int)")
    chosen = ("-k", "n3-1x3584 or s3-1x2048 or plain", "--benchmark-max-time=0.01")
    faked.run("--benchmark-save=both", *chosen)
    result = gate(faked, *chosen)
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["2 compared: *"])


def test_collecting_only_judges_nothing(faked):
    """--collect-only with the gate is no verdict."""
    result = gate(faked, "--collect-only", "-q")
    assert result.ret == 0
    assert "gate" not in result.stdout.str()


def test_a_file_that_vanished_fails_the_gate(faked):
    """A test file that was removed, or skips as a whole, fails; one that was not asked for, or ignored, does not."""
    second = faked.path / "test_second.py"
    second.write_text((faked.path / "test_perf.py").read_text())
    faked.run(*ONE, "--benchmark-save=two")
    compare = ("--benchmark-compare", "--roofline-gate")
    assert faked.run(*ONE, *compare).ret == 0
    assert faked.run("test_perf.py", *ONE, *compare).ret == 0
    assert faked.run("--ignore=test_second.py", *ONE, *compare).ret == 0
    second.write_text("import pytest\npytest.skip('not today', allow_module_level=True)\n")
    assert faked.run(*ONE, *compare).ret == pytest.ExitCode.TESTS_FAILED
    second.unlink()
    result = faked.run(*ONE, *compare)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["not run *test_second.py*"])


def test_a_comparison_in_which_nothing_could_be_compared_fails(faked):
    """On another GPU by MBU, where all MBUs are marked as not valid, however slow this run is."""
    data = json.loads(faked.baseline.read_text())
    data["machine_info"]["roofline"]["gpu"] = "NVIDIA A100"
    for bench in data["benchmarks"]:
        bench["extra_info"]["metric_valid"] = False
    faked.baseline.write_text(json.dumps(data))
    faked.fake_gpu(slower=50)
    result = faked.run(*ONE, "--benchmark-compare", "--roofline-other-gpu", "--roofline-gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate FAILED: no benchmark could be compared"])


def test_a_broken_variant_does_not_stop_the_others(faked):
    """A .cu file that does not compile fails its own benchmarks only."""
    source = faked.path / "kernels" / "rmsnorm" / "n4_float4.cu"
    source.write_text(source.read_text() + "\nthis is no CUDA\n")
    counts = faked.run("-k", "n3-1x3584 or n4-1x3584").parseoutcomes()
    assert (counts["passed"], counts["failed"]) == (1, 1)


@pytest.mark.parametrize(("options", "outcome"), [((), "skipped"), (("--roofline-require-gpu",), "failed")])
def test_not_checked_is_a_skip_unless_the_gpu_is_required(faked, options, outcome):
    """What could not be checked skips with its reason; with the GPU required it is an error, and never a pass."""
    faked.pytester.makepyfile(
        test_unchecked="""
        from pytest_roofline.errors import NotCheckedError

        def test_unchecked():
            raise NotCheckedError("too large")
        """
    )
    result = faked.run("test_unchecked.py", *options)
    result.assert_outcomes(**{outcome: 1})
