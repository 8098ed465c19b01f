"""The plugin from outside: options, header, skips, parametrisation, and the ways in which a run must not end green."""

from __future__ import annotations

from pathlib import Path

import pytest

FOREIGN = Path(__file__).parent / "foreign"


def test_without_a_gpu_one_line_says_what_was_not_checked(project):
    """Times are skipped, the run is green, and the header and one line at the end say why."""
    project.in_a_process()
    result = project.run("-k", "s3")
    result.assert_outcomes(skipped=5, passed=1, deselected=project.cases - 6)
    result.stdout.fnmatch_lines(
        ["roofline: simulated (PTX of sm_89)*no usable NVIDIA driver or device*times are not checked"]
    )
    result.stdout.fnmatch_lines(["5 tests (5 in *): no CUDA device (*"])
    assert result.ret == 0


@pytest.mark.parametrize("option", ["--roofline-require-gpu", "--roofline-device=cuda"])
def test_a_required_gpu_that_is_missing_is_an_error(project, option):
    """With the GPU required the run stops with the reason, instead of skipping."""
    project.in_a_process()
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *no usable NVIDIA driver or device*"])


def test_the_simulator_can_be_asked_for(project):
    """--roofline-device sim simulates whether there is a GPU or not, with the limits of --roofline-card."""
    project.use_tests(shapes="correctness/test_shapes.py")
    result = project.run(
        "--roofline-device=sim", "--roofline-card=h200", "test_shapes.py", "-k", "n3-8x33 or n3-262153"
    )
    result.stdout.fnmatch_lines(
        ["roofline: simulated (PTX of sm_90) with the limits of NVIDIA H200*asks for the simul*"]
    )
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])


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
    result.assert_outcomes(passed=2)
    assert result.ret == 0


def test_a_gate_without_a_baseline_option_is_refused(project):
    """--roofline-gate alone has nothing to compare with, so it stops instead of passing."""
    result = project.run("--roofline-gate")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --roofline-gate needs a baseline: add --benchmark-compare*"])


def test_a_gate_without_a_device_is_refused(project):
    """Without a device there is nothing to judge, so the gate stops the run instead of passing."""
    result = project.run("--roofline-gate", "--benchmark-compare")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --roofline-gate judges measured times*no usable NVIDIA driver or device*"])


def test_comparing_without_a_device_is_not_a_complaint_about_baselines(project):
    """--benchmark-compare without a device skips like everything else, and does not say that baselines are missing."""
    result = project.run("--benchmark-compare", "-k", "n3")
    assert result.ret == 0
    assert "Can't compare" not in result.stdout.str() + result.stderr.str()


def test_a_wrong_declaration_is_an_error_without_a_traceback(project):
    """A contradiction in the declaration stops collection with its message."""
    declaration = project.path / "kernels" / "ladder.py"
    declaration.write_text(declaration.read_text().replace('"rmsnorm/n2_fused.cu"', '"rmsnorm/n2.cu"'))
    result = project.run()
    assert result.ret != 0
    text = result.stdout.str() + result.stderr.str()
    assert "declared, but not there" in text
    assert "rmsnorm/n2.cu" in text


def test_a_missing_declaration_is_an_error(project):
    """An ini key that names no file says so, with the path and the key."""
    (project.path / "kernels" / "ladder.py").unlink()
    result = project.run()
    assert result.ret != 0
    assert "there is no ladder declaration at" in result.stdout.str() + result.stderr.str()


def test_projects_without_a_ladder_are_left_alone(empty_project):
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
    result.stdout.fnmatch_lines([f"*{project.cases - 2}/{project.cases} tests collected (2 deselected)*"])


def test_ids_read_and_groups_go_by_shape(project):
    """A perf case is named rung-MxN."""
    result = project.run("--collect-only", "-q")
    result.stdout.fnmatch_lines(["test_perf.py::test_rung[[]n3-8192x3584[]]", "*test_refused[[]s4-32x152064[]]"])


def test_a_benchmark_mark_keeps_its_other_options(project):
    """A module's and a function's benchmark marks are merged, and the timer is always the plugin's own."""
    project.pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.benchmark(min_rounds=7, group="module's")

        @pytest.mark.benchmark(group="mine")
        def test_mine(request, perf_case, roofline_session):
            mark = request.node.get_closest_marker("benchmark")
            assert mark.kwargs["group"] == "mine"
            assert mark.kwargs["min_rounds"] == 7
            assert mark.kwargs["timer"].__name__ == "cuda_events"

        @pytest.fixture
        def roofline():
            return None

        test_mine = pytest.mark.usefixtures("roofline")(test_mine)
        """
    )
    result = project.run("test_a_benchmark_mark_keeps_its_other_options.py", "-k", "n3-1x3584")
    result.assert_outcomes(passed=1, deselected=project.cases - 3)


def test_a_projects_own_fixtures_and_parameters_win(project):
    """With a ladder, a parametrize mark and a fixture named like the plugin's arguments are the project's."""
    project.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def rung_shape():
            return "mine"

        @pytest.mark.parametrize("rung, other", [("a", 1), ("b", 2)])
        def test_marked(rung, other):
            assert rung in "ab"

        def test_own_fixture(rung_shape):
            assert rung_shape == "mine"

        @pytest.mark.parametrize(argnames="perf_case", argvalues=[1])
        def test_by_keyword(perf_case):
            assert perf_case == 1
        """
    )
    project.run("test_own.py").assert_outcomes(passed=4)


def test_projects_without_a_ladder_keep_their_own_names(empty_project):
    """Without a ladder fixtures named device, rung and roofline are the project's; nothing is marked or imported."""
    empty_project.pytester.makepyfile(
        """
        import sys
        import pytest

        @pytest.fixture
        def device():
            return "mine"

        @pytest.fixture
        def rung():
            return "mine"

        @pytest.fixture
        def roofline():
            return "mine"

        def test_own(device, rung, roofline, request):
            assert (device, rung, roofline) == ("mine", "mine", "mine")
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
    """With a ladder and pytest-benchmark switched off the run stops with what to do."""
    project.without_benchmark()
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: pytest-benchmark is not active*"])


def test_an_unknown_card_names_the_known_ones(project):
    """--roofline-card with a card that is in no table is refused with those that are."""
    result = project.run("--roofline-card=gtx1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *gtx1*rtx4090*"])


def test_a_required_gpu_is_required_without_a_ladder_too(empty_project):
    """--roofline-require-gpu stops a run without a GPU also where no ladder is configured."""
    empty_project.pytester.makepyfile("def test_one(device): pass")
    empty_project.hide_gpu()
    assert empty_project.run("--roofline-require-gpu").ret == pytest.ExitCode.USAGE_ERROR


def test_c50_out_of_memory_is_a_skip_with_the_sizes(project):
    """A test that meets the end of the device's memory is skipped, with the sizes in the reason."""
    project.pytester.makepyfile(
        test_large="""
        from pytest_roofline.errors import DeviceMemoryError

        def test_large():
            raise DeviceMemoryError("allocating 80 GB: 10 of 24 GB are free on the card")
        """
    )
    result = project.run("test_large.py")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["1 tests (*): allocating 80 GB: 10 of 24 GB are free on the card"])


def test_warnings_of_the_simulator_are_shown(empty_project):
    """What does not fail a test, such as a barrier that some threads returned before, stands at the end of the run."""
    empty_project.declare(FOREIGN)
    source = empty_project.path / "kernels" / "axpby.cu"
    text = source.read_text()
    begin = text.index("{", text.index("axpby(")) + 1
    source.write_text(f"{text[:begin]}\n    if (threadIdx.x >= 100) return;\n    __syncthreads();\n{text[begin:]}")
    empty_project.use_tests(sanitizer="sanitizer/test_sanitize.py")
    empty_project.hide_gpu()
    result = empty_project.run("-k", "synccheck")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*warnings of the simulator*", "warning: *a barrier that threads of the block never*"])
