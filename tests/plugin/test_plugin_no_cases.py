"""A generic test that has no case in a project is skipped with the reason, and nothing else fails for it."""

from __future__ import annotations

from pathlib import Path

AXPBY = Path(__file__).parents[1] / "axpby"
SUM = Path(__file__).parents[1] / "projects" / "03_sum"
OFFSETS = (
    "offsets past 2^31 elements: no extent can be made so large alone, for outputs along it depend on each other or a "
    "limit forbids it"
)
REASONS = (
    f"SKIPPED [1] *: not checked: {OFFSETS}",
    "SKIPPED [1] *: no shape is refused: no variant has a limit",
    "SKIPPED [1] *: no shape is timed: the suite has no workloads",
    "SKIPPED [1] *: every variant runs every shape of the workloads",
)


def test_a_test_without_cases_says_why(empty_project):
    """A sum to one value without limits and workloads: four tests have no case, all others run."""
    empty_project.declare(SUM)
    suite = empty_project.path / "kernels" / "suite.py"
    text = suite.read_text()
    workloads = text[text.rindex(", {") : text.rindex("})") + 1]
    suite.write_text(text.replace(workloads, ""))
    empty_project.hide_gpu()
    result = empty_project.run("-rs", "-k", "not answer and not spill")
    result.stdout.fnmatch_lines_random([reason.replace("[1]", "[[]1]") for reason in REASONS])
    result.stdout.fnmatch_lines(["*roofline: not checked*", f"1 tests (1 in *): {OFFSETS}"])
    outcomes = result.parseoutcomes()
    assert outcomes["skipped"] == len(REASONS)
    assert not {"failed", "errors"} & {*outcomes}


def test_a_variant_alone_without_a_huge_case_is_told(empty_project):
    """Of two variants one has 1000 rows at most: its offsets are not looked at, and the summary says so."""
    empty_project.declare(AXPBY)
    empty_project.import_tests(huge="test_past_2_32_elements")
    suite = empty_project.path / "kernels" / "suite.py"
    text = suite.read_text()
    few = 'Variant("few", AXPBY, "axpby.cu", LAUNCH, limits=(SHORT, Limit(lambda s: s.M <= 1000, "M <= 1000"))),'
    assert text.count("SUITE = Suite(\n    (") == 1
    suite.write_text(text.replace("SUITE = Suite(\n    (", f"SUITE = Suite(\n    ({few} "))
    empty_project.hide_gpu()
    result = empty_project.run("-v")
    assert result.parseoutcomes() == {"passed": 1, "skipped": 1}
    result.stdout.fnmatch_lines(["*test_past_2_32_elements[[]few[]] SKIPPED*", f"1 tests (1 in *): {OFFSETS}"])
