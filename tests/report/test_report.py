"""The plugin's own table shows what was recorded, with the marks explained, and counts what was not checked."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_roofline.model.facts import MARKS, OVER_PEAK, REUSE
from pytest_roofline.report.tables import not_checked, sections, table


def info(variant: str, **changed):
    return {
        "variant": variant,
        "rows": 8192,
        "columns": 3584,
        "median_us": 55.04,
        "gbs": 4267.0,
        "mbu_percent": 88.6,
        "copy_gbs": 4350.0,
        "floor_us": 45.19,
        "floor_ratio": 1.22,
        "floor_bound": "DRAM",
        "baseline": "n1",
        "speedup": 1.63,
        "ideal_speedup": 1.5,
        "registers": 54,
        "occupancy_percent": 50.0,
        "grid_fill": 15.52,
        "marks": "",
        "peak_gbs": 4814.3,
        "peak_source": "device attributes",
        "state": "cold",
        "evidence": "measured",
        **changed,
    }


def test_a_line_holds_the_figures():
    """Time, GB/s, MBU, share of the copy, floor, times the floor, ceiling, speed-up, ideal and the rest, in order."""
    head, line, *legend = table([("id", info("n4"))], {})
    assert head.split()[:4] == ["variant", "shape", "L2", "median"]
    assert line.split() == [
        "n4",
        "8192x3584",
        "cold",
        "55.04",
        "4267",
        "88.6",
        "98",
        "45.19",
        "1.22",
        "DRAM",
        "1.63",
        "1.50",
        "54",
        "50",
        "15.52",
    ]
    assert "4814 GB/s (device attributes)" in legend[0]
    assert "measured" in legend[0]


def test_marks_stand_in_the_line_and_are_explained_once():
    """Each mark in use is explained below the table, others are not."""
    lines = table([("a", info("n2", marks=f"{REUSE}, {OVER_PEAK}")), ("b", info("n4"))], {})
    assert lines[1].endswith(f"{REUSE}, {OVER_PEAK}")
    explained = [line for line in lines if line.startswith(tuple(f"{mark}:" for mark in MARKS))]
    assert len(explained) == 2


def test_a_speedup_against_a_helped_baseline_has_a_star():
    """Where the baseline's second read came from L2, the speed-ups against it are starred; its own 1.00 is not."""
    first = ("a", info("n1", speedup=1.0, speedup_valid=False))
    lines = table([first, ("b", info("n4", speedup_valid=False))], {})
    assert "1.63*" in lines[2]
    assert "1.00*" not in lines[1]
    assert any(line.startswith("*:") for line in lines)
    assert "*" not in "".join(table([first, ("b", info("n4", speedup_valid=True))], {}))


def test_a_compared_row_shows_the_baselines_own_values():
    """Below a row stands what the saved run had recorded, by test id."""
    lines = table([("id", info("n4"))], {"id": info("n4", median_us=60.5, gbs=3882.0), "other": info("n1")})
    assert lines[2].split()[:4] == ["then", "8192x3584", "cold", "60.50"]
    assert len([line for line in lines if line.split()[:1] == ["then"]]) == 1


def test_missing_figures_show_as_dashes():
    """A speed-up that is not known is a dash, not a number."""
    line = table([("id", info("n4", speedup=None, copy_gbs=None))], {})[1]
    assert line.split()[6] == "-"
    assert line.split()[10] == "-"


def test_tests_that_were_not_checked_are_counted_in_one_line():
    """One line for each reason, with the number of tests by folder; other skips do not count."""

    def skip(nodeid: str, reason: str) -> SimpleNamespace:
        return SimpleNamespace(nodeid=nodeid, longrepr=("file.py", 1, f"Skipped: {reason}"))

    stats = {
        "skipped": [
            skip("tests/perf/test_a.py::one", "not checked: no CUDA device"),
            skip("tests/correctness/test_b.py::two", "not checked: no CUDA device"),
            skip("tests/correctness/test_b.py::three", "not checked: no CUDA device"),
            skip("tests/unit/test_c.py::four", "something else"),
        ]
    }
    assert not_checked(stats) == ["3 tests (2 in tests/correctness, 1 in tests/perf): no CUDA device"]
    assert [title for title, _ in sections([], {}, [], stats)] == ["roofline: not checked"]
    assert sections([], {}, [], {}) == []
