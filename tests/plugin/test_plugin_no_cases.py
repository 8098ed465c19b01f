"""A generic test that has no case in a project is skipped with the reason, and nothing else fails for it."""

from __future__ import annotations

from pathlib import Path

SUM = Path(__file__).parents[1] / "projects" / "03_sum"
REASONS = (
    "no variant has a case past 2^32 elements: any output depends on all extents, or limits forbid them",
    "no shape is refused: no variant has a limit",
    "no shape is timed: the suite has no workloads",
    "every variant runs every shape of the workloads",
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
    told = result.stdout.str()
    for reason in REASONS:
        assert told.count(reason) == 1, told
    outcomes = result.parseoutcomes()
    assert outcomes["skipped"] == len(REASONS)
    assert not {"failed", "errors"} & {*outcomes}
