"""Twelve kernels, each a project of its own: what its declaration says is checked, and its planted fault is found."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline import Suite, load
from pytest_roofline.bench.modelled import Modelled
from pytest_roofline.declare.values import independent
from pytest_roofline.errors import RefusedError, WrongAnswerError
from pytest_roofline.hardware.gpus import Gpu, gpu_named
from pytest_roofline.model.count import SPARSE_ABOVE
from pytest_roofline.model.models import Models
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import check
from pytest_roofline.run.static import ARCHITECTURES
from pytest_roofline.sanitize.report import CLEAN, FINDINGS, Report
from pytest_roofline.sanitize.simulated import Simulator
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.testing import cases, statics
from pytest_roofline.testing.mutants import Mutant

HERE = Path(__file__).parent
GPU = gpu_named("h200")
PROJECTS = sorted(path.name for path in HERE.glob("[0-9]*"))
CHECKS = ("racecheck", "memcheck", "initcheck", "synccheck")
of_each_project = pytest.mark.parametrize("project", PROJECTS)
Found = Callable[[Suite, Mutant], None]


@cache
def suite_of(project: str) -> Suite:
    return load(HERE / project / "suite.py")


def build(case: Case) -> Build:
    return Build.of(Plan(case, GPU))


def simulated(which: str, built: Build) -> Report:
    return Simulator(SimDevice).check(which, built)


@of_each_project
def test_every_generic_case_is_right(project: str) -> None:
    """At each boundary shape, and past 2^32 elements where outputs are independent, every variant's answer is right."""
    suite = suite_of(project)
    answers, huge = cases.answer_cases(suite), cases.huge_cases(suite)
    assert len(answers) >= 15
    assert bool(huge) == any(independent(operator) for operator in suite.operators.values())
    device, sparse = SimDevice(GPU), SimDevice(GPU, sparse_above=SPARSE_ABOVE)
    for case in (*answers.values(), *huge.values()):
        found = check(sparse if case in huge.values() else device, build(case))
        assert found.of_tolerance <= 1
        assert found.values > 0
        assert not found.not_checked, case


@of_each_project
def test_every_generic_case_is_right_on_a_gpu(cuda_device: Any, project: str) -> None:
    """The same cases, but those past 2^32 elements, on hardware."""
    for case in cases.answer_cases(suite_of(project)).values():
        assert check(cuda_device, Build.of(Plan(case, cuda_device.gpu))).of_tolerance <= 1


@of_each_project
def test_sanitizer_checks_are_clean(project: str) -> None:
    """No race, no access outside an array, no read of what nobody wrote, no divergent barrier: not even a warning."""
    for case in cases.sanitize_cases(suite_of(project)).values():
        for which in CHECKS:
            report = simulated(which, build(case))
            assert report.verdict == CLEAN, report
            assert report.displayed == 0, report


@of_each_project
def test_static_checks_hold(project: str) -> None:
    """Nothing spills, parameters and the width of accesses are as declared on every architecture in use."""
    suite = suite_of(project)
    for variant in suite:
        assert any(launch.vector for launch in variant.launches) or project.startswith(("03", "04"))
        for arch in ARCHITECTURES:
            statics.test_no_spill_and_no_stack(suite, variant, arch)
            statics.test_parameters_have_the_declared_types(suite, variant, arch)
            statics.test_global_accesses(suite, variant, arch)
        statics.test_the_reference_gives_every_output(suite, variant)


@of_each_project
def test_shapes_past_a_limit_are_refused(project: str) -> None:
    """For each limit a shape is found that breaks it, and it is refused by that limit's reason."""
    suite = suite_of(project)
    refused = cases.PARAMETERS["refused_case"](suite).values()
    assert len(refused) == sum(len(variant.limits) for variant in suite)
    for variant, shape in refused:
        with pytest.raises(RefusedError, match="nothing was launched: ") as caught:
            Case(variant, shape, suite)
        assert variant.broken_limit(shape) in str(caught.value)


@of_each_project
def test_its_workload_is_modelled(project: str) -> None:
    """A speed of light, counters of every array and a checked answer, without a GPU."""
    suite = suite_of(project)
    perf = cases.PARAMETERS["perf_case"](suite).values()
    assert perf
    for case in perf:
        record = Modelled(Models(GPU)).record(case, "cold")
        assert record.sol_us > 0
        assert record.not_checked is None
        assert 0 <= record.max_error_of_tolerance <= 1
        for planned, launch in zip(build(case).launches, record.launches, strict=True):
            arrays = [name for name in planned.planned.args if name in case.variant.arrays]
            assert all(launch.counters[f"{name}.requests"] > 0 for name in arrays)


# The planted faults: one edit of the source, or another declaration, and the check that must find it.


def wrong(array: str, huge: bool = False) -> Found:
    """The answer is wrong in ``array`` at some generic case, past 2^32 elements if ``huge``."""

    def find(suite: Suite, mutant: Mutant) -> None:
        told = [str(error) for error in wrong_answers(suite, mutant, huge)]
        assert told
        assert f"values of {array} are wrong" in told[0] or f"writes {array} at element" in told[0], told[0]

    return find


def wrong_answers(suite: Suite, mutant: Mutant, huge: bool) -> Iterator[WrongAnswerError]:
    for case in (cases.huge_cases if huge else cases.answer_cases)(suite).values():
        try:
            check(SimDevice(GPU), mutant.build(suite, GPU, case.shape))
        except WrongAnswerError as error:
            yield error
            return


def reported(which: str, kind: str) -> Found:
    """The sanitizer's check ``which`` reports findings of that kind, at the shape of the generic tests."""

    def find(suite: Suite, mutant: Mutant) -> None:
        (case,) = cases.sanitize_cases(suite).values()
        report = simulated(which, mutant.build(suite, GPU, case.shape))
        assert report.verdict == FINDINGS
        assert {finding.kind for finding in report.findings} == {kind}

    return find


def more_wavefronts(suite: Suite, mutant: Mutant) -> None:
    """Each load from shared memory takes 32 passes instead of one, each store still one: 16.5 times as many."""
    (case,) = cases.PARAMETERS["perf_case"](suite).values()
    before = counters(Models(GPU), case)["shared.wavefronts"]
    after = counters(Edited(GPU, suite, mutant), case)["shared.wavefronts"]
    assert after == before * 33 // 2


class Edited(Models):
    """Models of a mutant in place of its variant."""

    def __init__(self, gpu: Gpu, suite: Suite, mutant: Mutant) -> None:
        super().__init__(gpu)
        self.suite, self.mutant = suite, mutant

    def build(self, case: Case) -> Build:
        return self.mutant.build(self.suite, self.gpu, case.shape)


def counters(models: Models, case: Case) -> dict[str, int]:
    (launch,) = Modelled(models).record(case, "cold").launches
    return dict(launch.counters)


@dataclass(frozen=True)
class Planted:
    """In ``project``, ``old`` becomes ``new``; ``found`` asserts that the named check finds it."""

    project: str
    name: str
    old: str
    new: str
    found: Found

    def __str__(self) -> str:
        return f"{self.project}-{self.name}"


PLANTED = (
    Planted("01_layer_norm", "mean over N - 1", "block_sum(sum) / N", "block_sum(sum) / (N - 1)", wrong("y")),
    Planted("02_transpose", "no padding", "[TILE + 1]", "[TILE]", more_wavefronts),
    Planted("02_transpose", "no barrier", "    __syncthreads();\n", "", reported("racecheck", "race")),
    Planted("03_sum", "tail dropped", "if (thread < N % 4) {", "if (false) {", wrong("s")),
    Planted(
        "04_sgemm",
        "no second barrier",
        "        __syncthreads();  // nobody needs them any more\n",
        "",
        reported("racecheck", "race"),
    ),
    Planted(
        "05_quantise", "scale halved", "scale[blockIdx.x] = step", "scale[blockIdx.x] = 0.5f * step", wrong("scale")
    ),
    Planted("06_silu_mul", "past N", "if (i < N) {", "{", reported("memcheck", "memory")),
    Planted(
        "07_rotary",
        "pairs read after they are written",
        "second * c + first * n",
        "at[half] * c + at[0] * n",
        wrong("x"),
    ),
    Planted("08_gather", "offset in 32 bits", "const long long row", "const unsigned row", wrong("y", huge=True)),
    Planted("09_cross_entropy", "label left out", "(i == label ? 1.0f : 0.0f)", "0.0f", wrong("logits")),
    Planted(
        "11_histogram",
        "bins not cleared",
        "    bins[threadIdx.x] = 0;\n",
        "",
        reported("initcheck", "uninitialised"),
    ),
    Planted(
        "12_decode_attention",
        "no barrier before reuse",
        "        __syncthreads();  // the scores may be overwritten\n",
        "",
        reported("racecheck", "race"),
    ),
)


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_its_planted_fault_is_found(planted: Planted) -> None:
    """One edit of a right kernel is found by the check that is for it."""
    suite = suite_of(planted.project)
    (variant,) = suite
    planted.found(suite, Mutant(planted.name, variant.name, (("", planted.old, planted.new, None),)))


@pytest.mark.parametrize(
    ("block", "error", "told"),
    [(128, WrongAnswerError, "values of y were never written"), (512, RefusedError, "512 threads a block")],
)
def test_another_block_than_compiled_is_found(block: int, error: type[Exception], told: str) -> None:
    """A template that counts on 256 threads: launched with fewer some values are never written, with more refused."""
    suite = suite_of("10_scale")
    (variant,) = suite
    launches = tuple(dataclasses.replace(launch, block=block) for launch in variant.launches)
    other = Suite((dataclasses.replace(variant, launches=launches),), suite.workloads).at(suite.file)
    case = Case(other.variants[0], suite.default(variant.operator))
    with pytest.raises(error, match=told):
        check(SimDevice(GPU), build(case))


def test_every_project_has_a_planted_fault() -> None:
    """None of the twelve is left out."""
    assert len(PROJECTS) == 12
    assert {planted.project for planted in PLANTED} | {"10_scale"} == {*PROJECTS}


@pytest.mark.parametrize("project", ["01_layer_norm", "03_sum"])
def test_its_one_line_test_file_runs(project: str, empty_project: Any) -> None:
    """A test file that is one import runs every generic test on the project, and a broken kernel fails there."""
    empty_project.declare(HERE / project)
    empty_project.hide_gpu()
    right = empty_project.run("-n0").parseoutcomes()
    assert right["passed"] > 40
    assert {*right} <= {"passed", "skipped"}
    planted = next(one for one in PLANTED if one.project == project)
    (source,) = (empty_project.path / "kernels").glob("*.cu")
    source.write_text(source.read_text().replace(planted.old, planted.new))
    broken = empty_project.run("-n0", "-k", "test_answer")
    assert broken.parseoutcomes()["failed"] > 5
    broken.stdout.fnmatch_lines(["*WrongAnswerError*are wrong*"])
