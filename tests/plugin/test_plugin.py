"""The plugin from outside: options, header, skips, parametrisation, and the ways in which a run must not end green."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FLOATS = "reinterpret_cast<const float*>(x) + 4 * (offset + i)"
SCALAR_LOADS = f"make_float4(({FLOATS})[0], ({FLOATS})[1], ({FLOATS})[2], ({FLOATS})[3])"
AXPBY = Path(__file__).parents[1] / "axpby"


def test_without_a_gpu_the_time_is_the_speed_of_light(project):
    """Header, table and pytest-benchmark's groups say that a GPU's speed of light was modelled, nothing measured."""
    project.in_a_process()
    result = project.run("-k", "s3-8192x2048 or s3-32x152064", "--roofline-gpu=h200")
    result.assert_outcomes(passed=3, deselected=project.cases - 3)  # one runs in 16 bits: refused
    sol = "speed of light on NVIDIA H200, modelled, not measured"
    result.stdout.fnmatch_lines(
        [
            f"roofline: simulated (PTX of sm_90)*no usable NVIDIA driver or device*not checked*{sol}",
            f"*benchmark 'softmax 8192x2048: {sol}'*",
            "s3 *8192x2048 *DRAM *",
            f"SOL: {sol}*",
        ]
    )
    assert result.ret == 0


@pytest.mark.parametrize("option", ["--roofline-require-gpu", "--roofline-device=cuda"])
def test_a_required_gpu_that_is_missing_is_an_error(project, option):
    """With the GPU required the run stops with the reason, instead of skipping."""
    project.in_a_process()
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *no usable NVIDIA driver or device*"])


def test_the_simulator_can_be_asked_for(project):
    """--roofline-device sim simulates whether there is a GPU or not, with the limits of --roofline-gpu."""
    project.use_tests(shapes="correctness/test_shapes.py")
    result = project.run("--roofline-device=sim", "--roofline-gpu=h200", "test_shapes.py", "-k", "n3-8x33 or n3-8x1001")
    result.stdout.fnmatch_lines(
        ["roofline: simulated (PTX of sm_90) with the limits of NVIDIA H200*asks for the simul*"]
    )
    assert result.parseoutcomes().keys() == {"passed", "deselected"}


def test_a_required_gpu_is_not_the_simulator(project):
    """--roofline-require-gpu with --roofline-device sim is refused."""
    result = project.run("--roofline-device=sim", "--roofline-require-gpu")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --roofline-require-gpu: --roofline-device sim asks for the simulator"])


def test_unknown_values_of_options_name_the_valid_ones(project):
    """A device, a state and a percentage that do not exist are refused with what is allowed."""
    for option, message in {
        "--roofline-device=gpu": "*invalid choice*auto*cuda*sim*",
        "--roofline-state=tepid": "*invalid choice*cold*warm*",
        "--roofline-gate=slow": "*a percentage*",
        "--roofline-precision=200%": "*a percentage*",
    }.items():
        result = project.run(option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])


@pytest.mark.parametrize("only", [(), ("--benchmark-only",)])
def test_c46_perf_tests_stop_under_xdist(project, only):
    """-n 2, with and without --benchmark-only, ends red with one clear sentence."""
    project.in_a_process()
    result = project.run("-n", "2", *only)
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    assert "times can't be measured under pytest-xdist" in text
    assert "pytest tests/perf" in text
    assert "INTERNALERROR" not in text


def test_c46_the_rest_runs_under_xdist(project):
    """-n 2 with the perf tests left out, as the sentence says, runs what is left."""
    project.in_a_process()
    result = project.run("-n", "2", "-m", "not perf")
    result.assert_outcomes(passed=len(project.refused))
    assert result.ret == 0


def test_what_workers_simulated_is_counted(empty_project):
    """The number of tests on the simulator is the same with and without pytest-xdist."""
    empty_project.declare(AXPBY)
    empty_project.import_tests(answer="test_answer, test_refusal")
    for where, workers in ((empty_project.hide_gpu, ()), (empty_project.in_a_process, ("-n", "2"))):
        where()
        result = empty_project.run("--roofline-device=sim", "-k", "axpby-8x", *workers)
        done = result.parseoutcomes()["passed"]
        assert done > 3
        result.stdout.fnmatch_lines([f"{done - 1} tests used the simulator (PTX of sm_89), none of them a GPU"])


def test_a_gate_without_a_baseline_option_is_refused(project):
    """--roofline-gate alone has nothing to compare with, so it stops instead of passing."""
    result = project.run("--roofline-gate")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --roofline-gate needs a baseline: add --benchmark-compare*"])


ONE = ("-k", "n3-2048x3584 or n4-2048x3584")


@pytest.fixture
def modelled(project):
    """A project with a saved modelled run of n3 and n4."""
    return project.with_saved({}, *ONE)


def saved_run(path):
    """Name, median in seconds and extra_info of each benchmark."""
    run = json.loads(path.read_text())
    return [(bench["fullname"], bench["stats"]["median"], bench["extra_info"]) for bench in run["benchmarks"]]


def test_a_modelled_run_is_saved_apart_and_repeats_to_the_bit(modelled):
    """It lies in a folder of its own, says that it is simulated, and a second run gives the same numbers throughout."""
    assert modelled.baseline.parts[-3] == "modelled-NVIDIA-GeForce-RTX-4090"
    machine = json.loads(modelled.baseline.read_text())["machine_info"]["roofline"]
    assert (machine["evidence"], machine["gpu"]) == ("simulated", "NVIDIA GeForce RTX 4090")
    assert modelled.run(*ONE, "--benchmark-save=again").ret == 0
    (again,) = modelled.path.glob(".benchmarks/*/*/0002_again.json")
    assert saved_run(again) == saved_run(modelled.baseline)
    assert all(info["evidence"] == "simulated" and info["median_us"] == info["sol_us"] for *_, info in saved_run(again))


def test_comparing_names_the_counter_that_grew(modelled):
    """n3 that reads x twice, and n4 that loads scalars: --benchmark-compare shows which counter grew, by how much."""
    same = modelled.run(*ONE, "--benchmark-compare", "--roofline-gate")
    assert same.ret == 0
    assert "counters that differ" not in same.stdout.str()
    for name, old, new in (
        (
            "n3_registers.cu",
            "y[offset + i] = xs[k]",
            "y[offset + i] = static_cast<const volatile float*>(x)[offset + i]",
        ),
        ("n4_float4.cu", "x[offset + i]", SCALAR_LOADS),
    ):
        source = modelled.path / "kernels" / "rmsnorm" / name
        text = source.read_text()
        assert text.count(old) == 1
        source.write_text(text.replace(old, new))
    result = modelled.run("-k", "n3-2048x3584", "--benchmark-compare")
    result.stdout.fnmatch_lines(
        ["counters that differ from the baseline: n3 2048x3584: *rms_n3.x.requests 229376 -> 458752*"]
    )
    text = modelled.run("-k", "n4-2048x3584", "--benchmark-compare").stdout.str()
    assert "rms_n4.x.requests 57344 -> 229376 (+300 %)" in text


def test_a_modelled_run_is_never_compared_with_a_measured_one(modelled):
    """A baseline that was measured is refused, whatever folder it lies in."""
    data = json.loads(modelled.baseline.read_text())
    data["machine_info"]["roofline"]["evidence"] = "measured"
    modelled.baseline.write_text(json.dumps(data))
    result = modelled.run(*ONE, "--benchmark-compare")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *a modelled bound and a measurement are not compared*"])


def test_the_label_survives_any_grouping(project):
    """--benchmark-group-by makes groups of its own, and they too say that nothing was measured."""
    text = project.run(*ONE, "--benchmark-group-by=func").stdout.str()
    assert "benchmark 'test_time: speed of light on NVIDIA GeForce RTX 4090, modelled, not measured'" in text


def test_speeds_of_light_of_two_gpus_are_not_compared(modelled):
    """A baseline modelled for another GPU is refused, by MBU too: there is none."""
    options = (f"--benchmark-compare={modelled.baseline}", "--roofline-gpu=h200", "--roofline-other-gpu")
    result = modelled.run(*ONE, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *times of different GPUs are not compared*"])


def test_predictions_get_verdicts_with_reasons(project):
    """On an RTX 4090 fusing two kernels gains what L2 serves, and the report says so; n3 and n4 hold."""
    result = project.run("-k", "8192x3584 and (n1 or n2 or n3 or n4)")
    result.stdout.fnmatch_lines(
        [
            "*roofline: predictions (speed of light on NVIDIA GeForce RTX 4090, modelled, not measured)*",
            "fails * n2 8192x3584: speed-up over n1 1.60, predicted 0.95 to 1.05: *",
            "*n2: L2 (72 MiB) serves the repeated read of x within rms_n2 at a reuse distance of 11.0 MB; DRAM moves *",
            "not checked * n2 8192x3584: MBU *",
            "holds * n3 8192x3584: speed-up over n1 1.6*",
            "holds * n4 8192x3584: speed-up over n3 1.00*",
        ]
    )
    assert result.ret == 0, "a verdict is a report"


def test_counters_without_a_gpu_are_not_checked(project):
    """--roofline-counters without a GPU says why there are none, and fails nothing."""
    result = project.run(*ONE, "--roofline-counters")
    result.stdout.fnmatch_lines(["*roofline: counters*", "not checked: no usable NVIDIA driver or device*"])
    assert result.ret == 0


def test_a_wrong_declaration_is_an_error_without_a_traceback(project):
    """A contradiction in the declaration stops collection with its message."""
    declaration = project.path / "kernels" / "variants" / "rmsnorm.py"
    declaration.write_text(declaration.read_text().replace('"rmsnorm/n2_fused.cu"', '"rmsnorm/n2.cu"'))
    result = project.run()
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    assert "declared, but not there" in text
    assert "rmsnorm/n2.cu" in text


def test_a_missing_declaration_is_an_error(project):
    """An ini key that names no file says so, with the path and the key."""
    (project.path / "kernels" / "suite.py").unlink()
    result = project.run()
    assert result.ret != 0
    assert "there is no suite at" in result.stdout.str() + result.stderr.str()


def test_projects_without_a_suite_are_left_alone(empty_project):
    """In a project that declares nothing the plugin adds no header, needs no CuPy and changes no outcome."""
    empty_project.pytester.makepyfile(
        """
        import pytest

        def test_one(): pass

        def test_two(): pytest.skip("not checked: by them")
        """
    )
    result = empty_project.run()
    result.assert_outcomes(passed=1, skipped=1)
    assert "roofline:" not in result.stdout.str()


def test_markers_are_registered(project):
    """The markers gpu, perf and sanitizer are known under --strict-markers, and perf tests carry theirs."""
    result = project.run("--markers")
    for marker in ("gpu", "perf", "sanitizer"):
        result.stdout.fnmatch_lines([f"@pytest.mark.{marker}: *"])
    result = project.run("-m", "perf", "--collect-only", "-q")
    counts = f"{len(project.timed)}/{project.cases} tests collected ({len(project.refused)} deselected)"
    result.stdout.fnmatch_lines([f"*{counts}*"])


def test_ids_read_and_groups_go_by_shape(project):
    """A perf case is named by variant and shape."""
    result = project.run("--collect-only", "-q")
    result.stdout.fnmatch_lines(["*test_refused_workload[[]s4-32x152064[]]", "*::test_time[[]n3-8192x3584[]]"])


def test_a_benchmark_mark_keeps_its_other_options(project):
    """A module's and a function's benchmark marks are merged, and the timer is always the plugin's own."""
    project.pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.benchmark(min_rounds=7, group="module's")

        @pytest.mark.benchmark(group="mine")
        def test_mine(request, perf_case):
            mark = request.node.get_closest_marker("benchmark")
            assert mark.kwargs["group"] == "mine: speed of light on NVIDIA GeForce RTX 4090, modelled, not measured"
            assert mark.kwargs["min_rounds"] == 7
            assert mark.kwargs["timer"].__name__ == "modelled_speed_of_light"

        @pytest.fixture
        def roofline():
            return None

        test_mine = pytest.mark.usefixtures("roofline")(test_mine)
        """
    )
    result = project.run("test_a_benchmark_mark_keeps_its_other_options.py", "-k", "n3-1x3584")
    result.assert_outcomes(passed=1, deselected=len(project.timed) - 1)


def test_a_projects_own_fixtures_and_parameters_win(project):
    """With a suite, a parametrize mark and a fixture named like the plugin's arguments are the project's."""
    project.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def case():
            return "mine"

        @pytest.mark.parametrize("variant, other", [("a", 1), ("b", 2)])
        def test_marked(variant, other):
            assert variant in "ab"

        def test_own_fixture(case):
            assert case == "mine"

        @pytest.mark.parametrize(argnames="perf_case", argvalues=[1])
        def test_by_keyword(perf_case):
            assert perf_case == 1
        """
    )
    project.run("test_own.py").assert_outcomes(passed=4)


def test_projects_without_a_suite_keep_their_own_names(empty_project):
    """Without a suite fixtures named device, variant and roofline are the project's; nothing is marked or imported."""
    empty_project.pytester.makepyfile(
        """
        import sys
        import pytest

        @pytest.fixture
        def device():
            return "mine"

        @pytest.fixture
        def variant():
            return "mine"

        @pytest.fixture
        def roofline():
            return "mine"

        def test_own(device, variant, roofline, request):
            assert (device, variant, roofline) == ("mine", "mine", "mine")
            assert request.node.get_closest_marker("gpu") is None

        def test_nothing_was_imported(device):
            assert "cupy" not in sys.modules
        """
    )
    empty_project.pytester.makeconftest(
        """
        def pytest_generate_tests(metafunc):
            if "perf_case" in metafunc.fixturenames:
                metafunc.parametrize("perf_case", ["theirs"])
        """
    )
    empty_project.pytester.makepyfile(test_hook="def test_hook(perf_case): assert perf_case == 'theirs'")
    empty_project.run().assert_outcomes(passed=3)
    empty_project.without_benchmark()
    empty_project.run().assert_outcomes(passed=3)


def test_without_pytest_benchmark_the_error_says_so(project):
    """With a suite and pytest-benchmark switched off the run stops with what to do."""
    project.without_benchmark()
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: pytest-benchmark is not active*"])


def test_an_unknown_gpu_names_the_known_ones(project):
    """--roofline-gpu with a GPU that is in no table is refused with those that are."""
    result = project.run("--roofline-gpu=gtx1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *gtx1*rtx4090*"])


def test_a_required_gpu_is_required_without_a_suite_too(empty_project):
    """--roofline-require-gpu stops a run without a GPU also where no suite is configured."""
    empty_project.pytester.makepyfile("def test_one(device): pass")
    empty_project.hide_gpu()
    assert empty_project.run("--roofline-require-gpu").ret == pytest.ExitCode.USAGE_ERROR


def test_c50_out_of_memory_is_a_skip_with_the_sizes(project):
    """A test that meets the end of the device's memory is skipped, with the sizes in the reason."""
    project.pytester.makepyfile(
        test_large="""
        from pytest_roofline.errors import DeviceMemoryError

        def test_large():
            raise DeviceMemoryError("allocating 80 GB: 10 of 24 GB are free on the GPU")
        """
    )
    result = project.run("test_large.py")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["1 tests (*): allocating 80 GB: 10 of 24 GB are free on the GPU"])


def test_warnings_of_the_simulator_are_shown(empty_project):
    """What does not fail a test, such as a barrier that some threads returned before, stands at the end of the run."""
    empty_project.declare(AXPBY)
    source = empty_project.path / "kernels" / "axpby.cu"
    text = source.read_text()
    begin = text.index("{", text.index("axpby(")) + 1
    source.write_text(f"{text[:begin]}\n    if (threadIdx.x >= 100) return;\n    __syncthreads();\n{text[begin:]}")
    empty_project.import_tests(sanitizer="test_memory_and_barriers")
    empty_project.hide_gpu()
    result = empty_project.run("-k", "synccheck")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*warnings of the simulator*", "warning: *a barrier that threads of the block never*"])
