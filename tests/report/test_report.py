"""The plugin's own table shows what was recorded, with the notes explained, and counts what was not checked."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_roofline.bench.record import LaunchRecord, Record
from pytest_roofline.model.facts import NOTES, OVER_PEAK, REUSE
from pytest_roofline.report.tables import not_checked, sections, table, waves


def record(variant: str, **changed) -> Record:
    one = Record(
        variant=variant,
        shape="8192x3584",
        median_us=55.04,
        gbs=4267.0,
        mbu_percent=88.6,
        copy_gbs=4350.0,
        sol_us=45.19,
        sol_percent=82.1,
        sol_bound="DRAM",
        baseline="n1",
        speedup=1.63,
        ideal_speedup=1.5,
        registers=54,
        occupancy_percent=50.0,
        waves=15.52,
        peak_gbs=4814.3,
        peak_source="device attributes",
        state="cold",
        evidence="measured",
    )
    return one.replace(**changed)


def test_a_line_holds_the_figures():
    """Time, GB/s, MBU, share of the copy, SOL, its share, ceiling, speed-up, ideal and the rest, in order."""
    head, line, *legend = table([("id", record("n4"))], {})
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
        "82.1",
        "DRAM",
        "1.63",
        "1.50",
        "54",
        "50",
        "15.52",
    ]
    assert "4814 GB/s (device attributes)" in legend[0]
    assert "measured" in legend[0]


def test_notes_stand_in_the_line_and_are_explained_once():
    """Each note in use is explained below the table, others are not."""
    lines = table([("a", record("n2", notes=(REUSE, OVER_PEAK))), ("b", record("n4"))], {})
    assert lines[1].endswith(f"{REUSE}, {OVER_PEAK}")
    explained = [line for line in lines if line.startswith(tuple(f"{note}:" for note in NOTES))]
    assert len(explained) == 2


def test_a_speedup_against_a_helped_baseline_has_a_star():
    """Where the baseline's second read came from L2, the speed-ups against it are starred; its own 1.00 is not."""
    first = ("a", record("n1", speedup=1.0, speedup_valid=False))
    lines = table([first, ("b", record("n4", speedup_valid=False))], {})
    assert "1.63*" in lines[2]
    assert "1.00*" not in lines[1]
    assert any(line.startswith("*:") for line in lines)
    assert "*" not in "".join(table([first, ("b", record("n4", speedup_valid=True))], {}))


def test_a_compared_row_shows_the_baselines_own_values():
    """Below a row stands what the saved run had recorded, by test id."""
    lines = table([("id", record("n4"))], {"id": record("n4", median_us=60.5, gbs=3882.0), "other": record("n1")})
    assert lines[2].split()[:4] == ["then", "8192x3584", "cold", "60.50"]
    assert len([line for line in lines if line.split()[:1] == ["then"]]) == 1


def test_missing_figures_show_as_dashes():
    """A speed-up that is not known is a dash, not a number."""
    line = table([("id", record("n4", speedup=None, copy_gbs=None))], {})[1]
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


def modelled(variant: str, **changed) -> Record:
    launch = LaunchRecord("k", counters={"x.requests": 100, "shared.requests": 7, "issued.fp32": 3})
    one = record(variant, evidence="simulated", label="speed of light on some GPU", bytes_per_element=8.0)
    return one.replace(launches=(launch,), **changed)


def test_a_modelled_table_says_that_nothing_was_measured():
    """Speeds of light with their label, requests to global memory, and which answers were not checked."""
    lines = table([("a", modelled("n3")), ("b", modelled("n4", not_checked="it can't be sampled"))], {})
    head, line, *_ = lines
    assert "median" not in head
    assert line.split() == ["n3", "8192x3584", "cold", "45.19", "DRAM", "8.0", "-", "1.63", "1.50", "100"]
    assert any(line.startswith("SOL: speed of light on some GPU; ") for line in lines)
    assert "answer not checked: n4 8192x3584: it can't be sampled" in lines
    assert not any("differ" in line for line in lines)


def test_counters_that_differ_from_the_baselines_are_shown():
    """The largest change first, with its percentage, and what the baseline had not as new."""
    then = modelled("n3").replace(launches=(LaunchRecord("k", counters={"x.requests": 50, "issued.fp32": 3}),))
    lines = table([("a", modelled("n3"))], {"a": then, "b": modelled("n9")})
    told = "k.shared.requests 0 -> 7 (new), k.x.requests 50 -> 100 (+100 %)"
    assert lines[-1] == f"counters that differ from the baseline: n3 8192x3584: {told}"


def test_few_waves_do_not_read_as_zero():
    """Two digits, or as many as a small grid needs; a dash where it is not known."""
    assert [waves(value) for value in (15.523, 0.5, 0.0004, None)] == ["15.52", "0.50", "0.0004", "-"]
