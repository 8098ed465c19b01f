"""The comparison with peers, as far as it needs no GPU: its cases, its statistics, its tables, and that it skips."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[1] / "perf" / "peers"
sys.path.append(str(PEERS))
from peer_shapes import CASES, Case  # noqa: E402 - beside the tests that they are for, in no package
from peer_table import Result, Row, as_json, cell, columns, lines, markdown  # noqa: E402

LARGE = Case("rmsnorm", "float32", 8192, 3584)


def row(case=LARGE, **seconds):
    """A row in which each contender took its ``seconds`` in all runs; a string is the state of one without a time."""
    results = [
        Result(name, state=took, reason="why") if isinstance(took, str) else Result(name, (took,) * 5)
        for name, took in seconds.items()
    ]
    return Row(case, "n4", "the row fits", tuple(results), own=frozenset({"a1"}))


def test_cases_are_distinct_and_of_the_operators():
    """No case stands twice, and each names a known operator and dtype."""
    assert len({str(case) for case in CASES}) == len(CASES)
    assert {case.operator for case in CASES} == {"rmsnorm", "softmax", "add_rmsnorm"}
    assert {case.dtype for case in CASES} == {"float32", "float16", "bfloat16"}


@pytest.mark.parametrize(
    ("case", "least"),
    [
        (LARGE, 0.98),
        (Case("rmsnorm", "float32", 2048, 3584), None),
        (Case("softmax", "float32", 32, 152064), 0.95),
        (Case("add_rmsnorm", "bfloat16", 2048, 3584), None),
        (Case("add_rmsnorm", "float32", 2048, 3584), 0.98),
    ],
    ids=str,
)
def test_the_copy_is_promised_where_it_moves_much(case, least):
    """A copy of over 100 MB, read and written, is a promise; few long rows have their own."""
    assert case.least_of_copy() == least


def test_a_result_is_the_median_over_the_runs():
    """One bad run does not move it."""
    assert Result("triton", (2e-6, 1e-6, 9e-6, 2e-6, 3e-6)).seconds == 2e-6
    assert Result("liger", state="absent").seconds is None


def test_nothing_is_said_where_all_is_kept():
    """As fast as the fastest peer within a hundredth, and as the copy within two."""
    assert row(copy=98.5e-6, ours=100e-6, triton=99.1e-6).complaints() == []


def test_a_faster_peer_is_a_complaint():
    """It names the shape, the peer, both times and what is promised."""
    (said,) = row(copy=100e-6, ours=100e-6, triton=95e-6, quack=98e-6).complaints()
    assert all(part in said for part in (str(LARGE), "triton 95.00 us", "takes 100.00 us", "0.950", "promised is 0.99"))


def test_a_faster_copy_is_a_complaint_where_it_is_promised():
    """At a small shape the copy only stands in the table."""
    assert "the copy" in row(copy=90e-6, ours=100e-6).complaints()[0]
    assert row(Case("rmsnorm", "float32", 1, 3584), copy=1e-6, ours=3e-6).complaints() == []


@pytest.mark.parametrize(("compiled", "least"), [(1.001, 0.98), (1.0, 0.98), (0.999, 1.01), ("absent", 0.98)])
def test_more_is_promised_where_a_compiler_passes_a_large_copy(compiled, least):
    """It is no limit there. torch.compile passes it when it is the faster one, not when it takes as long."""
    for ours, kept in ((1 / least - 1e-3, True), (1 / least + 1e-3, False)):
        said = row(copy=1.0, ours=ours, **{"torch.compile": compiled}).complaints()
        assert any("the speed of the copy" in one for one in said) is not kept
    assert Case("softmax", "float32", 32, 152064).least_of_copy(passed=True) == 0.95
    assert Case("rmsnorm", "float32", 32, 3584).least_of_copy(passed=True) is None


def test_other_variants_and_the_copy_are_no_peers():
    """The fastest peer is somebody else's kernel."""
    assert row(copy=1e-6, ours=2e-6, a1=1e-6, liger=3e-6).fastest_peer().name == "liger"
    assert row(copy=1e-6, ours=2e-6, liger="absent").fastest_peer() is None


def test_ours_without_a_time_is_a_complaint():
    """A wrong answer of ours can't pass for want of a number; a peer's stops nobody."""
    assert "wrong, why" in row(copy=1e-6, ours="wrong", liger=1e-6).complaints()[0]
    assert row(copy=99e-6, ours=100e-6, liger="wrong").complaints() == []
    assert "a1 has no time" in row(copy=99e-6, ours=100e-6, a1="wrong").complaints()[0]


def test_a_contender_without_a_time_has_a_word_in_its_cell():
    """Absent, wrong and late are told apart, and never a number."""
    one = row(copy=1e-6, ours=2e-6, liger="absent", quack="wrong", triton=4e-6)
    assert [cell(one, name) for name in columns([one])] == ["1.00 2.000", "2.00", "absent", "wrong", "4.00 0.500"]


def test_a_note_stands_beside_the_time_and_is_explained():
    """The time of an answer that is a little off is shown with a star; why, once, with its shapes."""
    noted = Result("liger", (2e-6,), note="up to 1.5 units in the last place off")
    one = Row(LARGE, "n4", "", (Result("ours", (1e-6,)), Result("copy", (1e-6,)), noted))
    assert cell(one, "liger") == "2.00 0.500*"
    assert sum("1.5 units" in line for line in lines([one, one])) == 1


def test_markdown_and_json_hold_the_same_figures():
    """Both name every contender, and the JSON has no number that is not finite."""
    rows = [row(copy=99e-6, ours=100e-6, triton=101e-6, liger="absent")]
    text = markdown(rows, {"gpu": "NVIDIA H200"})
    found = json.loads(json.dumps(as_json(rows, {"gpu": "NVIDIA H200"}), allow_nan=False))
    assert [one["name"] for one in found["rows"][0]["contenders"]] == ["copy", "ours", "triton", "liger"]
    assert all(part in text for part in ("- gpu: NVIDIA H200", "| 101.00 0.990 |", "absent: why"))
    assert found["rows"][0]["contenders"][2]["speed_over_ours"] == pytest.approx(100 / 101)


def test_without_a_gpu_every_shape_is_skipped_with_the_reason(project):
    """Nothing that was not checked is shown as passed, and the option is known where the folder is named."""
    shutil.copytree(PEERS, project.path / "peers", ignore=shutil.ignore_patterns("__pycache__"))
    result = project.run("peers", "-rs", "--peers-markdown", "peers.md")
    assert result.parseoutcomes() == {"skipped": len(CASES)}
    result.stdout.fnmatch_lines(["SKIPPED*not checked: no CUDA device (*"])
