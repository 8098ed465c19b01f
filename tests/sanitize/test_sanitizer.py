"""Running compute-sanitizer: its child, its time limit, its planted defects. No GPU: a fake tool."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from processes import alive

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError, NotCheckedError
from pytest_roofline.run.device import NOT_CHECKED
from pytest_roofline.run.gpu.child import ChildJob
from pytest_roofline.sanitize import compute_sanitizer as sanitizer
from pytest_roofline.sanitize.compute_sanitizer import Sanitizer, Tool, check, conclude, does_not_compile
from pytest_roofline.sanitize.report import CLEAN, FINDINGS, Report

REPORTS = Path(__file__).with_name("sanitizer_reports")
CLEAN_RACE = (REPORTS / "clean_racecheck.txt").read_text()
CLEAN_ERRORS = (REPORTS / "clean.txt").read_text()
RACE = (REPORTS / "race.txt").read_text()
NO_ATTACH = (REPORTS / "no_attach.txt").read_text()
VERDICTS = (CLEAN, FINDINGS, NOT_CHECKED)
JOB = ChildJob("n3 8x1000", ("rms_n3",), {"variant": "n3", "device": 0})


FAKE = """\
#!{python}
import json, pathlib, subprocess, sys, time
config = json.loads(pathlib.Path({config!r}).read_text())
args = sys.argv[1:]
if args == ["--version"]:
    print("NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.1.0 (build 1) (public-release)")
    sys.exit(0)
job = json.loads(pathlib.Path(args[-1]).read_text())
with open({config!r} + ".seen", "a") as seen:
    print(json.dumps({{"args": args, "job": job}}), file=seen)
canary = job.get("canary")
report = config["canary"] if canary else config["report"]
if config["hang"]:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    pathlib.Path({config!r} + ".pid").write_text(str(sleeper.pid))
    time.sleep(300)
if config["proof"]:
    launched = ["canary_" + canary] if canary else ["rms_n3"]
    proof = {{"nonce": job["nonce"], "launched": launched, "verified": None if canary else True, "error": None}}
    print("roofline-child: " + json.dumps({{**proof, **config["proof"]}}))
place = pathlib.Path(args[args.index("--log-file") + 1])
print(report, end="") if config["on_stdout"] else place.write_text(report)
sys.exit(config["canary_code"] if canary else config["code"])
"""


class FakeTool:
    """A script that stands for compute-sanitizer and, in place of a child, prints the proof."""

    def __init__(self, folder: Path, **config: Any) -> None:
        defaults = {"report": CLEAN_RACE, "code": 0, "canary": "", "canary_code": 86, "proof": {"error": None}}
        self.config = folder / "config.json"
        self.config.write_text(json.dumps({**defaults, "hang": False, "on_stdout": False, **config}))
        path = folder / "compute-sanitizer"
        path.write_text(FAKE.format(python=sys.executable, config=str(self.config)))
        path.chmod(0o755)
        self.tool = Tool(path, "2025.3.1.0", "test")

    def seen(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(f"{self.config}.seen").read_text().splitlines()]


class TestRun:
    def test_clean(self, tmp_path: Path) -> None:
        """A run goes through with the flags of its tool, a report of its own file and the child's proof."""
        fake = FakeTool(tmp_path)
        report = check(fake.tool, "racecheck", JOB, 20)
        (seen,) = fake.seen()
        assert report.verdict == CLEAN, report
        flags = " ".join(seen["args"])
        for wanted in (
            "--tool racecheck",
            "--error-exitcode 86",
            "--racecheck-detect-level info",
            "--print-level info",
        ):
            assert wanted in flags
        assert "--track-unused-memory" not in flags
        assert "-m pytest_roofline.run.gpu.child" in flags

    def test_initcheck_sees_unwritten_memory(self, tmp_path: Path) -> None:
        """Under initcheck outputs are not poisoned first, under the others they are; memcheck keeps arrays apart."""
        fake = FakeTool(tmp_path, report=CLEAN_ERRORS)
        for which in ("initcheck", "memcheck"):
            assert check(fake.tool, which, JOB, 20).verdict == CLEAN
        init, memory = fake.seen()
        assert init["job"]["poison"] is False
        assert "poison" not in memory["job"]
        assert "--padding" in memory["args"]

    def test_report_on_stdout(self, tmp_path: Path) -> None:
        """What the tool says on stdout counts where it left no log file."""
        fake = FakeTool(tmp_path, report=NO_ATTACH, code=255, on_stdout=True, proof=None)
        report = check(fake.tool, "racecheck", JOB, 20)
        assert report.verdict == NOT_CHECKED
        assert "terminated before first instrumented API call" in report.reason

    def test_wrong_nonce(self, tmp_path: Path) -> None:
        """A proof of another run is no proof."""
        report = check(FakeTool(tmp_path, proof={"nonce": "old"}).tool, "racecheck", JOB, 20)
        assert report.verdict == NOT_CHECKED
        assert "'old'" in report.reason

    def test_child_did_not_run(self, tmp_path: Path) -> None:
        """A clean summary of a tool that never ran the program is not checked."""
        report = check(FakeTool(tmp_path, proof=None).tool, "racecheck", JOB, 20)
        assert report.verdict == NOT_CHECKED
        assert "0 lines of proof" in report.reason

    def test_c60_exit_code_0(self, tmp_path: Path) -> None:
        """C60: a hazard is a finding whether the tool's exit code is 86 or 0."""
        for code in (0, 86):
            assert check(FakeTool(tmp_path, report=RACE, code=code).tool, "racecheck", JOB, 20).verdict == FINDINGS

    def test_c63_a_tool_that_hangs(self, tmp_path: Path) -> None:
        """C63: a tool that hangs is killed with its children at its own time limit, and that is not a pass."""
        fake = FakeTool(tmp_path, hang=True)
        started = time.monotonic()
        report = check(fake.tool, "racecheck", JOB, 3)
        assert time.monotonic() - started < 20
        assert report.verdict == NOT_CHECKED
        assert "time limit" in report.reason
        child = int(Path(f"{fake.config}.pid").read_text())
        for _ in range(100):
            if not alive(child):
                break
            time.sleep(0.05)
        assert not alive(child)

    def test_tool_that_cannot_be_started(self, tmp_path: Path) -> None:
        """A tool that does not start is not checked, with the system's reason."""
        report = check(Tool(tmp_path / "none", "1", "test"), "racecheck", JOB, 5)
        assert report.verdict == NOT_CHECKED
        assert "can't be started" in report.reason


class TestSession:
    @pytest.mark.parametrize("which", sorted(sanitizer.PLANTED))
    def test_planted_defect_found(self, tmp_path: Path, which: str) -> None:
        """A clean verdict stands where the tool finds its planted defect, which runs once a session."""
        text = CLEAN_RACE if which == "racecheck" else CLEAN_ERRORS
        canary = (REPORTS / f"{sanitizer.PLANTED[which]}.txt").read_text().replace("rms_n3", "canary_race")
        fake = FakeTool(tmp_path, report=text, canary=canary)
        session = Sanitizer(fake.tool, "sm_90", timeout_s=20)
        for _ in range(2):
            report = session.check(which, JOB)
            assert report.verdict == CLEAN, report
        assert [entry["job"].get("canary") for entry in fake.seen()] == [None, sanitizer.PLANTED[which], None]

    @pytest.mark.parametrize("canary", [CLEAN_RACE, RACE, NO_ATTACH])
    def test_planted_race_not_found(self, tmp_path: Path, canary: str) -> None:
        """A tool that misses the planted race, or reports one of another kernel, has not checked anything."""
        fake = FakeTool(tmp_path, canary=canary, canary_code=0)
        report = Sanitizer(fake.tool, "sm_90", timeout_s=20).check("racecheck", JOB)
        assert report.verdict == NOT_CHECKED
        assert "planted race not found in this session" in report.reason

    def test_findings_need_no_canary(self, tmp_path: Path) -> None:
        """A finding stands by itself."""
        fake = FakeTool(tmp_path, report=RACE, code=86)
        assert Sanitizer(fake.tool, "sm_90", timeout_s=20).check("racecheck", JOB).verdict == FINDINGS
        assert len(fake.seen()) == 1

    def test_a_job_that_was_started_runs_once(self, tmp_path: Path) -> None:
        fake = FakeTool(tmp_path, report=RACE, code=3)
        tool = Sanitizer(fake.tool, "sm_89")
        other = dataclasses.replace(JOB, label="n3 9x1000")
        tool.start([("racecheck", JOB), ("racecheck", other)])
        assert tool.check("racecheck", JOB).verdict == FINDINGS
        assert tool.check("racecheck", other).subject == "n3 9x1000"
        assert len(fake.seen()) == 2
        assert tool.check("racecheck", JOB).verdict == FINDINGS, "and again when it is asked for again"
        assert len(fake.seen()) == 3
        tool.stop()

    def test_stop_ends_what_nobody_asked_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sanitizer, "AT_A_TIME", 1)
        fake = FakeTool(tmp_path, report=RACE, code=3)
        tool = Sanitizer(fake.tool, "sm_89")
        tool.start([("racecheck", dataclasses.replace(JOB, label=f"n3 {rows}x1000")) for rows in range(1, 30)])
        tool.stop()
        ran = len(fake.seen()) if (tmp_path / "config.json.seen").exists() else 0
        assert ran < 29
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPool")]

    def test_one_kernel_alone(self, tmp_path: Path) -> None:
        fake = FakeTool(tmp_path, report=RACE, code=3)
        assert check(fake.tool, "racecheck", JOB, kernel="rms_n3").verdict == FINDINGS
        (run,) = fake.seen()
        assert run["args"][run["args"].index("--kernel-name") + 1] == "kernel_name=rms_n3"

    def test_canary_that_does_not_compile(self, tmp_path: Path) -> None:
        """An architecture that the compiler doesn't know leaves the session without a planted defect: not checked."""
        report = Sanitizer(FakeTool(tmp_path).tool, "sm_13").check("racecheck", JOB)
        assert report.verdict == NOT_CHECKED
        assert "sm_13" in report.reason

    def test_canaries_survive_the_optimiser(self) -> None:
        """Each planted defect is still there in the PTX, and no barrier has come between the racy accesses."""
        path = Path(sanitizer.__file__).with_name("canary.cu")
        image = compile_source(Source.read(path), "sm_90")
        parts = image.ptx.split(".entry ")[1:]
        body = {part.split("(", 1)[0]: part for part in parts}
        assert {*body} == {*sanitizer.CANARIES.values()}
        for kernel, wanted in {
            "canary_race": ("st.volatile.shared", "ld.volatile.shared"),
            "canary_same": ("st.volatile.shared",),
            "canary_oob": ("add.s32", "st.global"),
            "canary_uninit": ("ld.global", "st.global"),
            "canary_barrier": ("bar.sync",),
        }.items():
            for instruction in wanted:
                assert instruction in body[kernel], (kernel, instruction)
        assert "bar.sync" not in body["canary_race"]


class TestHelpers:
    def test_conclude(self) -> None:
        """Clean and findings are the test's to judge; not checked is a skip, or an error where a GPU is required."""
        clean, findings, missing = (Report("racecheck", "n3 8x1000", v, "no summary") for v in VERDICTS)
        for require_gpu in (False, True):
            assert conclude(clean, require_gpu) is None
            assert conclude(findings, require_gpu) is None
        reason = conclude(missing, require_gpu=False)
        assert reason is not None
        assert "not checked: racecheck of n3 8x1000: no summary" in reason
        with pytest.raises(NotCheckedError, match="no summary"):
            conclude(missing, require_gpu=True)

    def test_does_not_compile(self) -> None:
        """A volatile build that does not compile is not checked, with the compiler's words."""
        report = does_not_compile("racecheck", "n3 8x1000 (volatile)", CompileError("no operator = matches"))
        assert report.verdict == NOT_CHECKED
        assert "the volatile build does not compile: no operator = matches" in str(report)
