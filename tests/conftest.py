"""A device without hardware (NumPy arrays, kernels that are Python functions), and projects to run pytest in."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_roofline
from pytest_roofline import Launch, Operator, Suite, Variant, load
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.testing.cases import PARAMETERS

ROOT = Path(__file__).parents[1]
FAKES = Path(__file__).parent / "fakes"
sys.path.append(str(FAKES))
from fake_device import FakeDevice, rmsnorm_rows, softmax_rows  # noqa: E402 - beside this file, in no package

SUITE = ROOT / "kernels" / "suite.py"
AXPBY = ROOT / "tests" / "axpby"
# Named, not found by entry point: other plugins of the environment stay out, and the source tree is enough.
PLUGINS = (
    "-p",
    "pytest_benchmark.plugin",
    "-p",
    "in_a_test",
    "-p",
    "xdist.plugin",
    "-p",
    "pytest_roofline.plugin",
)

# What changes pytest's own output: a project's run is the same under CI and in any terminal.
OUTSIDE = {"CI", "BUILD_NUMBER", "PYTEST_ADDOPTS", "COLUMNS", "FORCE_COLOR", "NO_COLOR", "PY_COLORS"}

PART = """
from dataclasses import replace

_chosen = tuple(variant for variant in SUITE if variant.name in {only!r}.split())
_operators = {{variant.operator.name for variant in _chosen}}
SUITE = replace(
    SUITE,
    variants=_chosen,
    rules={{}},
    workloads={{n: {{o: s for o, s in w.items() if o in _operators}} for n, w in SUITE.workloads.items()}},
)
"""


@pytest.fixture
def fake_device():
    """``fake_device(sm_s3=function, ...)``; right answers for rms_n3 and sm_s3 by default."""

    def make(**bodies: Callable[..., None]) -> FakeDevice:
        return FakeDevice({"sm_s3": softmax_rows, "rms_n3": rmsnorm_rows, **bodies})

    return make


@pytest.fixture(scope="session")
def shipped():
    """The suite that is shipped."""
    return load(SUITE)


class Project:
    """A project of its own in a temporary folder; :meth:`run` runs pytest in it.

    In a new process, for what a process holds (device, environment) must not leak into it; or in this one, which takes
    a third of the time, where that does not matter: on the fake GPU, without one, and to save and compare runs.
    """

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.monkeypatch, self.path = pytester, monkeypatch, pytester.path
        self.plugins, self.start = PLUGINS, pytester.runpytest_subprocess
        for name in os.environ.keys() & OUTSIDE | {name for name in os.environ if name.startswith("PYTEST_XDIST")}:
            monkeypatch.delenv(name)
        package = Path(pytest_roofline.__file__).parents[1]  # found from another folder too, if it is not installed
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        found = [str(package), str(FAKES), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(found))

    def declare(self, suite: Path | None = None, only: str = "") -> None:
        """Use the shipped suite, or the one in the folder ``suite``; of its variants ``only`` those, as "n1 n3"."""
        source = ROOT / "kernels" if suite is None else suite
        shutil.copytree(source, self.path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
        if only:
            with (self.path / "kernels" / "suite.py").open("a") as file:
                file.write(PART.format(only=only))
        self.pytester.makeini("[pytest]\nroofline_suite = kernels/suite.py\naddopts = --strict-markers\n")

    def use_tests(self, **files: str) -> None:
        """Copy thin test files of the suite: name=path below tests/."""
        for name, path in files.items():
            shutil.copy(ROOT / "tests" / path, self.path / f"test_{name}.py")

    def import_tests(self, **files: str) -> None:
        """Test files as a project writes them: name="test_answer, test_refusal" imports those generic tests."""
        for name, tests in files.items():
            (self.path / f"test_{name}.py").write_text(f"from pytest_roofline.testing import {tests}  # noqa: F401\n")

    def fake_gpu(self, **how: object) -> None:
        """Run on the fake GPU of fakes/fake_gpu.py; ``how`` are its variables, slower=1.1 for FAKE_SLOWER."""
        self.in_this_process("-p", "fake_gpu")
        for name, value in how.items():
            self.monkeypatch.setenv(f"FAKE_{name.upper()}", str(value))

    def with_saved(self, saved: dict[str, Any], *selection: str) -> Project:
        """This project with a saved run of ``selection``, made once for all that share ``saved``; see ``baseline``."""
        if not saved:
            result = self.run(*selection, "--benchmark-save=base")
            assert result.ret == 0, result.stdout.str()
            (path,) = self.path.glob(".benchmarks/*/*/0001_base.json")
            saved["place"], saved["text"] = path.relative_to(self.path), path.read_text()
        self.baseline = self.path / saved["place"]
        self.baseline.parent.mkdir(parents=True, exist_ok=True)
        self.baseline.write_text(saved["text"])
        return self

    def without_benchmark(self) -> None:
        """Run without pytest-benchmark, as -p no:benchmark has it where plugins are found by entry point."""
        self.plugins = ("-p", "pytest_roofline.plugin")

    def hide_gpu(self) -> None:
        """Run without a GPU, whether there is one or not."""
        self.in_this_process("-p", "no_gpu")

    def in_a_process(self) -> None:
        """Run without a GPU in a new process, where no driver answers: as it truly is."""
        self.plugins, self.start = PLUGINS, self.pytester.runpytest_subprocess
        self.monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")

    def in_this_process(self, *plugins: str) -> None:
        self.plugins, self.start = (*PLUGINS, *plugins), self.pytester.runpytest_inprocess

    def run(self, *args: str) -> pytest.RunResult:
        return self.start(*self.plugins, "-p", "no:cacheprovider", *args)


@pytest.fixture
def empty_project(pytester, monkeypatch):
    """A :class:`Project` with nothing in it."""
    return Project(pytester, monkeypatch)


@pytest.fixture
def project(empty_project):
    """A :class:`Project` with the shipped suite and the thin perf tests, on a machine without a GPU."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    empty_project.hide_gpu()
    suite = load(SUITE)
    empty_project.timed, empty_project.refused = (set(PARAMETERS[n](suite)) for n in ("perf_case", "refused_perf_case"))
    empty_project.cases = len(empty_project.timed) + len(empty_project.refused)
    return empty_project


@pytest.fixture
def declared(tmp_path: Path) -> Callable[..., Suite]:
    """``declared(text, operator, *launches, limits=...)`` is a suite of one variant, v1, of kernels in ``text``."""

    def make(text: str, operator: Operator, *launches: Launch, **more: object) -> Suite:
        (tmp_path / "kernel.cu").write_text(text)
        variant = Variant("v1", operator, "kernel.cu", launches, **more)  # type: ignore[arg-type]
        return Suite((variant,)).at(tmp_path / "suite.py")

    return make


@pytest.fixture
def built() -> Callable[..., Build]:
    """``built(suite, shape)`` is its one variant compiled for an H200."""

    def make(suite: Suite, shape: object, gpu: str = "h200") -> Build:
        (variant,) = suite
        return Build.of(Plan(Case(variant, shape, suite), gpu_named(gpu)))  # type: ignore[arg-type]

    return make
