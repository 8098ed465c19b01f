"""What a report of compute-sanitizer is worth; the samples are recorded ones or follow its manual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.run.device import NOT_CHECKED
from pytest_roofline.run.gpu.child import ChildResult, Proof
from pytest_roofline.sanitize.report import CLEAN, FINDINGS, Report, judge, parse

REPORTS = Path(__file__).with_name("sanitizer_reports")
BANNER = "========= COMPUTE-SANITIZER\n"
CLEAN_RACE = (REPORTS / "clean_racecheck.txt").read_text()
CLEAN_ERRORS = (REPORTS / "clean.txt").read_text()
RACE = (REPORTS / "race.txt").read_text()
SAME_VALUE = (REPORTS / "same.txt").read_text()
OUT_OF_BOUNDS = (REPORTS / "oob.txt").read_text()
UNINITIALISED = (REPORTS / "uninit.txt").read_text()
BARRIER = (REPORTS / "barrier.txt").read_text()
API_ERROR = (REPORTS / "api_error.txt").read_text()
NO_ATTACH = (REPORTS / "no_attach.txt").read_text()
ONE_HAZARD = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
PROOF = Proof(("rms_n3",), True, None)


def result(returncode: int = 0, proof: Proof | None = PROOF, **changes: Any) -> ChildResult:
    return ChildResult(returncode, "", "", proof, "" if proof else "no proof", changes.get("timed_out", False))


def verdict(text: str, which: str = "racecheck", child: ChildResult | None = None) -> Report:
    return judge(which, "n3 8x1000", ("rms_n3",), text, child or result())


@pytest.mark.parametrize(
    ("which", "text"),
    [("racecheck", CLEAN_RACE)] + [(w, CLEAN_ERRORS) for w in ("memcheck", "initcheck", "synccheck")],
)
def test_clean(which: str, text: str) -> None:
    """One right summary of zero, exit code 0 and the child's proof together are clean."""
    report = verdict(text, which)
    assert (report.verdict, report.reason, report.displayed, report.errors) == (CLEAN, "", 0, 0)


def test_race() -> None:
    """A race names both sides with kernel, offset and source line, and how many hazards stand behind it."""
    report = verdict(RACE, child=result(86))
    (finding,) = report.findings
    write, read = finding.places
    assert report.verdict == FINDINGS
    assert (finding.kind, finding.severity, finding.kernel, finding.hazards) == ("race", "error", "rms_n3", 224)
    assert (write.access, write.kernel, write.offset, write.file, write.line) == (
        "Write", "rms_n3", "0xb70", "n3_registers.cu", 29,
    )  # fmt: skip
    assert (read.access, read.offset, read.line) == ("Read", "0xb90", 31)
    assert finding.sources() == {("n3_registers.cu", 29), ("n3_registers.cu", 31)}
    assert (report.displayed, report.errors, report.warnings) == (1, 1, 0)
    assert "Write rms_n3+0xb70 in n3_registers.cu:29" in str(report)
    assert "RACECHECK SUMMARY" in str(report)


def test_c60_singular_hazard_with_exit_code_0() -> None:
    """C60: "1 hazard displayed" fails although the exit code is 0, with and without a line that says which."""
    assert verdict(RACE, child=result(0)).verdict == FINDINGS
    assert verdict(BANNER + ONE_HAZARD, child=result(0)).verdict == FINDINGS


def test_warning_counts() -> None:
    """A hazard of severity warning is a finding: zero hazards of every severity is what is asked."""
    text = RACE.replace("Error: Race", "Warning: Race").replace("(1 error, 0 warnings)", "(0 errors, 1 warning)")
    report = verdict(text)
    assert report.verdict == FINDINGS
    assert report.findings[0].severity == "warning"
    assert (report.errors, report.warnings) == (0, 1)


def test_c66_the_same_value_written_twice() -> None:
    """C66: writes of identical data, which the tool calls info, are a race although the result is right."""
    report = verdict(SAME_VALUE)
    (finding,) = report.findings
    assert report.verdict == FINDINGS
    assert (finding.kind, finding.severity, finding.kernel) == ("race", "info", "canary_same")
    assert [place.thread for place in finding.places] == ["0,0,0", "32,0,0"]
    assert {place.block for place in finding.places} == {"0,0,0"}


def test_finding_without_summary() -> None:
    """A race that was printed before the tool died is a finding, whatever the rest looks like."""
    assert verdict(RACE.replace(ONE_HAZARD, ""), child=result(-9, None, timed_out=True)).verdict == FINDINGS


def test_out_of_bounds() -> None:
    """C62: memcheck's overrun carries place, thread, block and distance; the failed calls after it don't hide it."""
    report = verdict(OUT_OF_BOUNDS, "memcheck", result(3, Proof((), None, "cudaErrorLaunchFailure")))
    (finding,) = report.findings
    (place,) = finding.places
    assert report.verdict == FINDINGS
    assert (finding.kind, finding.kernel, place.access) == ("memory", "canary_oob", "Write")
    assert (place.file, place.line, place.thread, place.block) == ("canary.cu", 22, "63,0,0", "0,0,0")
    assert "and is 1 bytes after the nearest allocation" in finding.message
    assert "Host Frame" not in finding.message


def test_uninitialised_read() -> None:
    """initcheck's read of never-written memory is read with a demangled kernel name."""
    (finding,) = verdict(UNINITIALISED, "initcheck").findings
    assert (finding.kind, finding.places[0].line, finding.places[0].access) == ("uninitialised", 25, "Read")
    assert finding.kernel == "canary_uninit(float const *, float *)"


def test_divergent_barrier() -> None:
    """synccheck's finding in an outlined function is told under the kernel of its device frame."""
    report = verdict(BARRIER, "synccheck")
    assert report.verdict == FINDINGS
    assert (report.findings[0].kind, report.findings[0].kernel) == ("barrier", "canary_barrier")
    assert report.errors == 16


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("at 0x150 in void f<int>(int*)", ("void f<int>(int*)", "0x150", "", None)),
        ("at 0x8f0 in /home/x/s.cu:20:f(int*)", ("f(int*)", "0x8f0", "/home/x/s.cu", 20)),
        ("at f(int *, int *)+0x90 in /a b/s.cu:41", ("f(int *, int *)", "0x90", "/a b/s.cu", 41)),
        ("at f():0x160 in s.cu:6", ("f()", "0x160", "s.cu", 6)),
        ("at f+0x120", ("f", "0x120", "", None)),
        ("at nowhere known", ("nowhere known", "", "", None)),
    ],
)
def test_places_of_other_versions(line: str, expected: tuple[object, ...]) -> None:
    """Places are read in the forms of older and newer versions, and kept whole in a form that is not known."""
    text = f"========= Invalid __global__ read of size 4 bytes\n=========     {line}\n"
    place = parse("memcheck", text).findings[0].places[0]
    assert (place.kernel, place.offset, place.file, place.line) == expected


def test_c61_no_summary() -> None:
    """C61: no summary line is no verdict, exit code 0 or not, first line or not."""
    for text in (BANNER, "", "program's own words\n"):
        report = verdict(text)
        assert report.verdict == NOT_CHECKED
        assert "no summary" in report.reason


@pytest.mark.parametrize(
    ("which", "text", "reason"),
    [
        ("racecheck", CLEAN_RACE + CLEAN_RACE.removeprefix(BANNER), "printed 2 summaries"),
        ("racecheck", BANNER + "========= RACECHECK SUMMARY: 0 hazards displ\n", "can't be read"),
        (
            "racecheck",
            BANNER + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings) x\n",
            "can't",
        ),
        ("racecheck", CLEAN_ERRORS, "can't be read: ERROR SUMMARY"),
        ("memcheck", CLEAN_RACE, "can't be read: RACECHECK SUMMARY"),
        ("memcheck", CLEAN_ERRORS + "========= LEAK SUMMARY: 0 bytes leaked in 0 allocations\n", "can't be read"),
        ("racecheck", CLEAN_RACE.removeprefix(BANNER), "first line is missing"),
        ("racecheck", BANNER.replace("=", "-") + CLEAN_RACE.replace("=========", "========"), "no summary"),
        (
            "racecheck",
            BANNER + "========= Device not supported\n" + CLEAN_RACE.removeprefix(BANNER),
            "not supported",
        ),
        ("racecheck", BANNER + "========= Whatever\n" + CLEAN_RACE.removeprefix(BANNER), "said: Whatever"),
        (
            "memcheck",
            BANNER + "========= Internal Sanitizer Error: The Sanitizer encountered an error while launching k and "
            "didn't track the launch. Errors might go undetected.\n" + CLEAN_ERRORS.removeprefix(BANNER),
            "Internal Sanitizer Error",
        ),
        ("racecheck", CLEAN_RACE + "Error: Race reported between Write access and Read access\n", "not understood"),
        ("racecheck", CLEAN_RACE.replace(BANNER, BANNER + "=========     at k+0x10 in k.cu:3\n"), "not understood"),
        ("racecheck", NO_ATTACH, "nvidia-cuda-sanitizer-api for CUDA 13"),
    ],
)
def test_not_clean(which: str, text: str, reason: str) -> None:
    """A report that is not exactly a clean one is not checked, and the reason says what is wrong with it."""
    report = verdict(text, which)
    assert report.verdict == NOT_CHECKED
    assert reason in report.reason


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        (result(86), "exit code 86"),
        (result(255), "exit code 255"),
        (result(0, None), "no proof"),
        (result(0, Proof((), None, None)), "launched nothing, declared are rms_n3"),
        (result(0, Proof(("rms_n3", "rms_n3"), True, None)), "launched rms_n3, rms_n3"),
        (result(0, Proof(("rms_n3",), False, "wrong answer: row 0")), "wrong answer: row 0"),
        (result(0, Proof(("rms_n3",), False, None)), "answer was wrong"),
        (result(3, Proof((), None, "DeviceError: no driver")), "no driver"),
        (result(-9, None, timed_out=True), "time limit"),
    ],
)
def test_clean_report_of_a_bad_run(child: ChildResult, reason: str) -> None:
    """A summary of zero hazards proves nothing about a program that failed, launched less or answered wrong."""
    report = verdict(CLEAN_RACE, child=child)
    assert report.verdict == NOT_CHECKED
    assert reason in report.reason


def test_launched_fewer_than_declared() -> None:
    """A variant of two kernels of which one ran is not checked."""
    report = judge("racecheck", "n1", ("pass1", "pass2"), CLEAN_RACE, result(0, Proof(("pass1",), True, None)))
    assert report.verdict == NOT_CHECKED
    assert "launched pass1, declared are pass1, pass2" in report.reason


def test_c64_api_error_is_no_hazard() -> None:
    """C64: an API error in the program is reported as an API error, neither as a hazard nor as clean."""
    for text in (
        API_ERROR,
        API_ERROR.replace("========= ERROR", "========= Target application returned an error\n========= ERROR"),
    ):
        report = verdict(text, "memcheck", result(86))
        assert (report.verdict, report.findings) == (NOT_CHECKED, ())
        assert "cudaErrorInvalidValue" in report.reason
        assert "no finding" in report.reason


def test_errors_not_printed() -> None:
    """A count above zero of which no report was printed is a finding, with the line on the print limit after it."""
    text = (
        BANNER + "========= ERROR SUMMARY: 2752 errors\n========= ERROR SUMMARY: 2742 errors were not printed. "
        "Use --print-limit option to adjust the number of printed errors\n"
    )
    assert verdict(text, "memcheck", result(86)).verdict == FINDINGS
    assert verdict(text, "memcheck", result(86)).errors == 2752


def test_str_is_short() -> None:
    """A thousand hazards between the same two lines are told once, above the tail of the log."""
    hazard = "".join(SAME_VALUE.splitlines(keepends=True)[1:6])
    text = str(verdict(SAME_VALUE + hazard * 1000))
    assert text.count("info: Potential WAW hazard") == 1
    assert len(text.splitlines()) < 60
