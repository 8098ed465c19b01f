"""The simulator as a sanitizer: what it reports for each tool, and what becomes of two verdicts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_roofline import Shape, load
from pytest_roofline.hardware.gpus import Gpu, gpu_named
from pytest_roofline.plugin.benchmarks import Benchmarks
from pytest_roofline.plugin.parts import Parts, Settings
from pytest_roofline.plugin.told import footer
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.device import NOT_CHECKED
from pytest_roofline.run.plan import Plan
from pytest_roofline.sanitize.compute_sanitizer import FLAGS
from pytest_roofline.sanitize.report import CLEAN, FINDINGS, Finding, Place, Report
from pytest_roofline.sanitize.simulated import KINDS, DisagreementError, Simulator, agreed
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.observe import findings
from pytest_roofline.testing.cases import PARAMETERS

AXPBY = Path(__file__).parents[1] / "axpby"
SHAPE = Shape(M=2, N=300)
BEGIN = "    long long offset"
VIDEO = 'int n = N; asm volatile("vadd.s32.s32.s32 %0, %0, %0;" : "+r"(n));'


class Checked:
    """The foreign kernel with ``statements`` before its own, and the simulator that checks it."""

    def __init__(self, folder: Path, statements: str = "") -> None:
        shutil.copytree(AXPBY, folder, ignore=shutil.ignore_patterns("__pycache__"))
        source = folder / "axpby.cu"
        text = source.read_text()
        assert text.count(BEGIN) == 1
        source.write_text(text.replace(BEGIN, f"    {statements}\n{BEGIN}") if statements else text)
        self.suite = load(folder / "suite.py")
        self.made: list[SimDevice] = []
        self.simulator = Simulator(self.device)
        self.variant = self.suite.variant("axpby")
        self.gpu = gpu_named("rtx4090")

    def device(self, gpu: Gpu) -> SimDevice:
        self.made.append(SimDevice(gpu))
        self.made[-1].steps_limit = 2000
        return self.made[-1]

    def launches(self) -> int:
        """Launches since the last call."""
        return sum(len(device.take_launches()) for device in self.made)

    def report(self, which: str, shape: Shape = SHAPE, gpu: Gpu | None = None) -> Report:
        plan = Plan(Case(self.variant, shape, self.suite), gpu or self.gpu)
        return self.simulator.check(which, Build.of(plan))

    def reports(self) -> dict[str, Report]:
        return {which: self.report(which) for which in FLAGS}


@pytest.fixture
def checked(tmp_path):
    """``checked("statements")`` is a :class:`Checked`."""
    return lambda statements="": Checked(tmp_path / "kernels", statements)


def test_each_kind_of_finding_belongs_to_one_tool():
    """No kind is left out, so that no defect can pass for clean, and none counts twice."""
    constants = {value for name, value in vars(findings).items() if name.isupper() and isinstance(value, str)}
    kinds = constants - {findings.ERROR, findings.WARNING}
    assert len(kinds) >= 7
    assert sorted(kind for named in KINDS.values() for kind in named) == sorted(kinds)
    assert KINDS.keys() == FLAGS.keys()


DEFECTS = {
    "race": "__shared__ float s[128]; s[threadIdx.x] = a; if (s[threadIdx.x ^ 64] != a) return;",
    "memory": "if (threadIdx.x == 7) z[1 << 20] = a;",
    "trap": "if (threadIdx.x == 7) __trap();",
    "uninitialised": "__shared__ float s[128]; if (s[threadIdx.x] == a) return;",
    "barrier": 'if (threadIdx.x < 32) asm volatile("bar.sync 1, 96;" ::: "memory");',
    "convergence": "if (__shfl_sync(0xffffu, a, 0) != a) return;",
    "steps": "while (*(const volatile float*)x == *(const volatile float*)x) {}",
}


@pytest.mark.parametrize("kind", DEFECTS)
def test_a_defect_is_a_finding_of_its_tool_alone(checked, kind):
    """The tool that looks for this kind reports it with line, thread and count; the others are clean."""
    reports = checked(DEFECTS[kind]).reports()
    for which, report in reports.items():
        assert report.verdict == (FINDINGS if kind in KINDS[which] else CLEAN), report
        assert report.subject == f"axpby {SHAPE}, simulated (PTX of sm_89)"
    (report,) = [report for which, report in reports.items() if kind in KINDS[which]]
    (finding,) = report.findings
    assert (finding.kind, finding.severity, finding.kernel) == (kind, "error", "axpby")
    assert (report.displayed, report.errors, report.warnings) == (1, 1, 0)
    assert finding.sources() == {("axpby.cu", 4)}
    assert finding.hazards > 0
    threads = {"memory": "7,0,0", "trap": "7,0,0", "convergence": "16,0,0"}
    assert {place.thread for place in finding.places} == {threads.get(kind, "0,0,0")}
    assert {place.block for place in finding.places} == {"0,0,0"}
    assert f"{report.which} of axpby" in str(report)
    assert finding.message in str(report)


def test_a_thread_is_told_beside_its_own_line(checked):
    """Of a race the line of the access that found it has its thread; who came before stands in the message alone."""
    write_then_read = "__shared__ float s[128];\ns[threadIdx.x] = a;\nif (threadIdx.x == 70) z[0] = s[3];"
    found = checked(write_then_read).report("racecheck").findings
    (finding,) = [one for one in found if one.kind == "race"]  # z[0] is another one, between blocks
    assert {place.line: place.thread for place in finding.places} == {5: "", 6: "70,0,0"}
    assert {place.block for place in finding.places} == {"0,0,0"}
    assert finding.message.startswith("read of shared memory at offset 0xc and write by thread 3,")


def test_warnings_are_findings_of_racecheck_alone(checked):
    """A warning of a race is a finding, as racecheck counts it; one of a barrier is told, and the verdict is clean."""
    subject = checked(
        "__shared__ float s[128]; s[threadIdx.x] = a; if (s[threadIdx.x ^ 1] != a) return; "
        "if (threadIdx.x >= 100) return; __syncthreads();"
    )
    race, barrier = subject.report("racecheck"), subject.report("synccheck")
    assert (race.verdict, race.displayed, race.errors, race.warnings) == (FINDINGS, 1, 0, 1)
    assert (barrier.verdict, barrier.displayed, barrier.errors, barrier.warnings) == (CLEAN, 1, 0, 1)
    assert subject.report("memcheck").displayed == 0


def test_one_run_answers_four_checks(checked):
    """The kernel is launched once for a shape and an image, and again for another of either."""
    subject = checked()
    assert {report.verdict for report in subject.reports().values()} == {CLEAN}
    assert subject.launches() == 1
    subject.reports()
    assert subject.launches() == 0
    subject.report("memcheck", Shape(M=3, N=300))
    assert subject.launches() == 1
    subject.report("memcheck", gpu=gpu_named("a100"))
    assert subject.launches() == 1


def test_each_run_has_a_device_of_its_own(checked):
    """What an earlier run left in memory and in the module's variables, or found, is not there for the next."""
    subject = checked(DEFECTS["memory"])
    subject.report("memcheck", Shape(M=5, N=300))
    (finding,) = subject.report("memcheck").findings
    assert finding.hazards == SHAPE.M  # a thread of each block
    assert len({id(device) for device in subject.made}) == 2


def test_what_is_not_simulated_is_not_checked(checked):
    """All four checks say so, with the instruction and its line, and nothing was launched."""
    subject = checked(VIDEO)
    for report in subject.reports().values():
        assert report.verdict == NOT_CHECKED
        assert "axpby.cu:4: vadd.s32.s32.s32 is not simulated" in report.reason
        assert report.reason in str(report)
        assert report.findings == ()
    assert subject.launches() == 0


def report_of(verdict: str, who: str) -> Report:
    found = (Finding("race", "error", f"what {who} found", (Place("", "k", file="k.cu", line=7),), 3),)
    return Report("racecheck", f"k, {who}", verdict, f"why of {who}", found if verdict == FINDINGS else ())


@pytest.mark.parametrize(("real", "simulated"), [(CLEAN, FINDINGS), (FINDINGS, CLEAN)])
def test_clean_against_findings_is_a_disagreement(real, simulated):
    """Whichever of the two found something, both reports are in the message."""
    reports = report_of(real, "hardware"), report_of(simulated, "software")
    with pytest.raises(DisagreementError) as caught:
        agreed(*reports)
    assert all(str(report) in str(caught.value) for report in reports)
    assert "disagree" in str(caught.value)
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize(
    ("real", "simulated", "taken"),
    [
        (CLEAN, CLEAN, "real"),
        (FINDINGS, FINDINGS, "real"),
        (CLEAN, NOT_CHECKED, "real"),
        (FINDINGS, NOT_CHECKED, "real"),
        (NOT_CHECKED, NOT_CHECKED, "real"),
        (NOT_CHECKED, CLEAN, "real"),
        (NOT_CHECKED, FINDINGS, "simulated"),
    ],
)
def test_one_report_stands_for_both(real, simulated, taken):
    """The hardware's, but for findings of the simulator where the hardware could not check."""
    reports = {"real": report_of(real, "hardware"), "simulated": report_of(simulated, "software")}
    assert agreed(reports["real"], reports["simulated"]) is reports[taken]


@pytest.fixture
def project_with(empty_project):
    """``project_with("statements")`` is a project of the foreign kernel on a machine without a GPU."""

    def make(statements):
        empty_project.declare(AXPBY)
        empty_project.import_tests(
            shapes="test_answer, test_past_2_32_elements, test_refusal",
            sanitizer="test_racecheck, test_memory_and_barriers",
        )
        empty_project.hide_gpu()
        source = empty_project.path / "kernels" / "axpby.cu"
        source.write_text(source.read_text().replace(BEGIN, f"    {statements}\n{BEGIN}"))
        return empty_project

    return make


def test_in_a_run_what_is_not_simulated_is_a_skip_and_never_a_pass(project_with):
    """Every test that would run the kernel is skipped with the instruction and its line; those that refuse it pass."""
    result = project_with(VIDEO).run("-v", "-rs")
    text = result.stdout.str()
    outcomes = result.parseoutcomes()
    assert set(outcomes) == {"passed", "skipped"}
    passed = {line.split(" ")[0] for line in text.splitlines() if " PASSED" in line}
    assert passed == {"test_shapes.py::test_refusal[axpby-8x4097]"}
    why = r"axpby is not checked, it can't be simulated: axpby\.cu:4: vadd\.s32\.s32\.s32 is not simulated"
    told = re.findall(rf"^(\d+) tests \(.*\): .*{why}$", text, re.MULTILINE)
    suite = load(AXPBY / "suite.py")
    answers = sum(len(PARAMETERS[name](suite)) for name in ("case", "huge_case"))
    assert sum(map(int, told)) == outcomes["skipped"] == answers + 5  # two of racecheck, and the three other tools
    assert re.search(rf"^SKIPPED \[{answers}\] .*: not checked: axpby is not checked", text, re.MULTILINE)


def test_what_is_simulated_for_want_of_a_gpu_is_told(shipped):
    """What the simulated GPU lacks, such as clusters, is simulated as an H200, and the last lines say how often."""
    parts, benchmarks = Parts(Settings(suite=shipped.file, device="sim")), Benchmarks()
    _, device = parts.devices.plan(parts.case("n8", Shape(M=2, N=1000)))
    assert device is parts.devices.simulator
    assert not [title for title, _ in footer(parts, benchmarks) if "want" in title]
    _, device = parts.devices.plan(parts.case("n8", Shape(M=2, N=60000)))
    assert device.name == "NVIDIA H200"
    (lines,) = [lines for title, lines in footer(parts, benchmarks) if "want" in title]
    assert lines == ["1 runs were simulated as an NVIDIA H200: NVIDIA GeForce RTX 4090 lacks what they need"]
