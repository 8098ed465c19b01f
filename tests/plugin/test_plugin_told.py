"""What a run says of itself: errors once, what was simulated, what is not declared, short names in what is saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

AXPBY = Path(__file__).parents[1] / "axpby"


@pytest.fixture
def axpby(empty_project):
    """A project of one kernel on a machine without a GPU; ``change`` edits its source."""
    empty_project.declare(AXPBY)
    empty_project.hide_gpu()
    source = empty_project.path / "kernels" / "axpby.cu"

    def change(old: str, new: str) -> None:
        text = source.read_text()
        assert text.count(old) == 1
        source.write_text(text.replace(old, new))

    empty_project.change = change
    return empty_project


@pytest.mark.parametrize("ci", ["", "true"])
def test_c99_a_compile_error_is_told_once(axpby, monkeypatch, ci):
    """One undefined name fails every test that compiles the file, and stands in the report once, with its place.

    Under CI too, where pytest puts the whole text of a failure into its short summary.
    """
    monkeypatch.setenv("CI", ci)
    axpby.change("+ y[", "+ why[")
    axpby.import_tests(all="*")
    result = axpby.run("test_all.py")
    outcomes = result.parseoutcomes()
    failed = outcomes["failed"]
    assert failed > 16
    assert "skipped" not in outcomes  # nor is the volatile build said not to compile, as if that were the reason
    text = result.stdout.str()
    assert text.count("1 error detected in the compilation") == 1
    assert text.count("z[offset + i] = a * x[offset + i]") == 1
    assert "Traceback" not in text
    assert "nvrtc.py" not in text
    assert len(text.splitlines()) < 3 * failed + 60
    result.stdout.fnmatch_lines(
        ["the same compile error as in test_all.py::test_answer*: axpby.cu(5): error: identifier *why* is undefined"]
    )


def test_another_compile_error_is_told_too(axpby):
    """Only the same error is not told again: the next one stands in full."""
    axpby.pytester.makepyfile(
        test_two="""
        import pytest
        from pytest_roofline.errors import CompileError

        @pytest.mark.parametrize("text", ["k.cu(1): error: one", "k.cu(1): error: two", "no log at all"])
        @pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
        def test_one(text, arch):
            raise CompileError(f"refused k.cu for {arch}:\\n{text}\\nthe place")
        """
    )
    text = axpby.run("test_two.py").stdout.str()
    assert text.count("the place") == 2 + 2  # without a compiler's line the whole text tells errors apart
    assert text.count("the same compile error as in test_two.py::test_one[sm_80-k.cu(1): error: one]") >= 1


def test_c102_what_was_launched_is_counted(axpby):
    """Tests that were skipped, refused, failed before a launch, or only asked for a device, used no simulator."""
    axpby.pytester.makepyfile(
        test_few="""
        import pytest
        from pytest_roofline import Shape
        from pytest_roofline.errors import CompileError

        @pytest.mark.skip
        def test_skipped(check): ...

        def test_skips(check):
            pytest.skip("not today")

        def test_refused(check):
            check("axpby", Shape(M=1, N=4097))

        def test_compile_error(check):
            raise CompileError("no such thing")

        def test_asks(device):
            assert device.evidence == "simulated"

        def test_launches(check, suite):
            check("axpby", Shape(M=1, N=8))
            check(suite.variant("axpby"), Shape(M=2, N=8))
        """
    )
    result = axpby.run("test_few.py")
    result.assert_outcomes(skipped=2, failed=2, passed=2)
    result.stdout.fnmatch_lines(["1 tests used the simulator (PTX of sm_89), none of them a GPU"])


def test_nothing_simulated_is_not_told(axpby):
    """Where no test launched anything nothing is said of a simulator, whatever earlier runs of the process did."""
    axpby.import_tests(refusal="test_refusal", answer="test_answer")
    axpby.run("test_answer.py", "-k", "axpby-8x33").stdout.fnmatch_lines(["1 tests used the simulator*"])
    result = axpby.run("test_refusal.py")
    result.assert_outcomes(passed=1)
    assert "used the simulator" not in result.stdout.str()


def test_undeclared_sources_are_a_note(axpby):
    """A .cu that no variant names stands in the header and fails nothing; one that the suite excludes does not."""
    for name in ("loose.cu", "more/loose.cu"):
        (axpby.path / "kernels" / name).parent.mkdir(exist_ok=True)
        (axpby.path / "kernels" / name).write_text("")
    axpby.import_tests(refusal="test_refusal")
    result = axpby.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["roofline: not declared, so never checked *: loose.cu, more/loose.cu"])
    suite = axpby.path / "kernels" / "suite.py"
    suite.write_text(suite.read_text().replace("SUITE = Suite(\n", 'SUITE = Suite(exclude=("more/*",), variants=\n'))
    suite.write_text(suite.read_text().replace('    {"only"', '    workloads={"only"'))
    text = axpby.run().stdout.str()
    assert text.count("not declared") == 1
    assert "more/" not in text


def test_parameters_are_saved_by_their_short_names(axpby):
    """A saved run holds variant and shape of a case, the same in every run, beside the project's own parameters."""
    axpby.pytester.makepyfile(
        test_perf="""
        import pytest
        from pytest_roofline import Shape

        @pytest.mark.parametrize("state", ["cold", "warm"])
        def test_case(roofline, perf_case, state):
            roofline(perf_case, state=state)

        @pytest.mark.parametrize("shape", [Shape(M=3, N=5)])
        def test_variant(roofline, variant, shape):
            roofline(variant, shape)

        @pytest.mark.parametrize("number", [4])
        def test_plain(benchmark, variant, number):
            benchmark(int)
        """
    )
    result = axpby.run("test_perf.py", "--benchmark-json=run.json", "-k", "not 4096", "--benchmark-max-time=0.01")
    assert result.ret == 0, result.stdout.str()
    runs = json.loads((axpby.path / "run.json").read_text())["benchmarks"]
    assert {bench["name"]: bench["params"] for bench in runs} == {
        "test_case[axpby-1x512-cold]": {"perf_case": "axpby-1x512", "state": "cold"},
        "test_case[axpby-1x512-warm]": {"perf_case": "axpby-1x512", "state": "warm"},
        "test_variant[axpby-shape0]": {"variant": "axpby", "shape": "3x5"},
        "test_plain[axpby-4]": {"variant": "axpby", "number": 4},
    }


@pytest.mark.parametrize("by", ["param:variant", "param:perf_case", "param", "group,param:perf_case"])
def test_c103_names_of_groups_are_short(axpby, by):
    """Whatever benchmarks are grouped by, a group's name is fit for a file name."""
    axpby.pytester.makepyfile(
        test_perf="def test_both(roofline, variant, perf_case): roofline(perf_case)",
    )
    result = axpby.run("test_perf.py", f"--benchmark-group-by={by}", "-k", "not 4096")
    assert result.ret == 0, result.stdout.str()
    (title,) = [line for line in result.stdout.str().splitlines() if "benchmark '" in line]
    assert "axpby" in title
    assert "Variant(" not in title
    assert len(title.strip("- ")) < 150


def test_a_plain_benchmark_is_not_called_modelled(axpby):
    """Beside modelled speeds of light the times of pytest-benchmark's own tests are shown as what they are."""
    axpby.pytester.makepyfile(test_plain="def test_plain(benchmark): benchmark(int)")
    axpby.import_tests(perf="test_time")
    text = axpby.run("-k", "plain or 1x512", "--benchmark-max-time=0.01").stdout.str()
    titles = [line.strip("- ") for line in text.splitlines() if "benchmark '" in line or "benchmark:" in line]
    assert [title for title in titles if title.startswith("benchmark: 1 tests")]
    assert [title for title in titles if "axpby 1x512: speed of light" in title]
    assert text.count("modelled, not measured': 1 tests") == 1


def test_c103_a_histogram_without_pygal(axpby, monkeypatch):
    """--benchmark-histogram without what draws it stops before anything runs and says what to install."""
    from pytest_roofline.plugin import environment

    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    axpby.import_tests(perf="test_time")
    result = axpby.run("--benchmark-histogram")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *pygal*pip install 'pytest-benchmark[[]histogram[]]'"])
    monkeypatch.setattr(environment, "find_spec", lambda name: object())
    environment.check_histogram(True)
    environment.check_histogram(None)
