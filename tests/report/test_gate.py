"""The gate: what passes, what fails, and that nothing which could not be compared passes."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_roofline.bench.record import Record
from pytest_roofline.errors import BaselineError, UnknownNameError
from pytest_roofline.plugin.comparison import storage_slug
from pytest_roofline.report import gate, saved

H200 = {"roofline": {"gpu": "NVIDIA H200", "driver": "580.159", "cuda": "13.0", "evidence": "measured"}}
RTX = {"roofline": {**H200["roofline"], "gpu": "NVIDIA GeForce RTX 4090"}}
SIMULATED = {"roofline": {**H200["roofline"], "evidence": "simulated"}}


WHOLE = Record(evidence="measured", operator="rmsnorm", variant="n4", shape="8x1000", extents={"M": 8, "N": 1000})


def record(name: str, median: Any = 1e-3, **extra: Any) -> dict[str, Any]:
    return {"fullname": name, "stats": {"median": median}, "extra_info": {**WHOLE.extra_info(), **extra}}


def verdicts(now: Any, then: Any, *more: Any, **options: Any) -> list[gate.Verdict]:
    """Of two lists as they lie in pytest-benchmark's JSON."""
    return gate.verdicts(
        saved.benchmarks_of(now, "this run"), saved.benchmarks_of(then, "the baseline"), *more, **options
    )


def one(now: Any, then: Any, **options: Any) -> gate.Verdict:
    (verdict,) = verdicts([record("n4", now)], [record("n4", then)], **options)
    return verdict


def test_planted_slowdown_fails() -> None:
    """A median 10 % slower fails at the default tolerance, and the text carries both medians and the change."""
    verdict = one(1.1e-3, 1e-3)
    assert (verdict.status, verdict.now, verdict.then) == ("slower", 1.1e-3, 1e-3)
    assert verdict.change == pytest.approx(0.1)
    assert verdict.text == "1.1 ms, was 1 ms: 10.0% slower"
    assert gate.failed([verdict]) == [verdict]


@pytest.mark.parametrize(
    ("now", "status"), [(1.04e-3, "ok"), (0.97e-3, "ok"), (1.051e-3, "slower"), (0.9e-3, "faster")]
)
def test_tolerance_bounds_both_sides(now: float, status: str) -> None:
    """4 % slower is within the tolerance of 5 %, 5.1 % is not, and what is faster by more says so and passes."""
    verdict = one(now, 1e-3)
    assert verdict.status == status
    assert bool(gate.failed([verdict])) == (status == "slower")


@pytest.mark.parametrize(("now", "status"), [(7.9e-6, "ok"), (8.0e-6, "slower"), (7.0e-6, "ok"), (6.9e-6, "faster")])
def test_less_than_the_resolution_is_no_difference(now: float, status: str) -> None:
    """Of a kernel of 7.45 us, 0.45 us more or less is the driver's queue and not the kernel; 0.55 us counts."""
    assert one(now, 7.45e-6).status == status


def test_a_metric_that_is_not_valid_is_no_verdict_on_another_gpu() -> None:
    """By MBU, a benchmark whose MBU is marked on either side is shown as such, and does not fail."""
    sides = [record("n2", mbu_percent=130.0, metric_valid=False)], [record("n2", mbu_percent=80.0, metric_valid=True)]
    for now, then in (sides, sides[::-1]):
        (verdict,) = verdicts(now, then, by_mbu=True)
        assert verdict.status == "not valid"
        assert gate.failed([verdict]) == []


def test_tolerance_is_the_callers() -> None:
    """The same 4 % fails at a tolerance of 3 %."""
    assert one(1.04e-3, 1e-3, tolerance=0.03).status == "slower"


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0, 0.0, -1e-3, None, "UNSERIALIZABLE", True, [], 10**400])
@pytest.mark.parametrize("side", ["now", "then"])
def test_bad_median_is_never_a_pass(bad: Any, side: str) -> None:
    """A median that is no finite positive number, on either side, is not comparable, fails, and is shown."""
    verdict = one(bad, 1e-3) if side == "now" else one(1e-3, bad)
    assert verdict.status == "not comparable"
    assert verdict.change is None
    assert ("this run" if side == "now" else "the baseline") in verdict.text
    assert gate.failed([verdict], partial=True) == [verdict]


@pytest.mark.parametrize(
    "broken", [{**record("n4"), "stats": None}, {**record("n4"), "stats": {}}, {**record("n4"), "stats": []}]
)
def test_missing_median_is_not_comparable(broken: dict[str, Any]) -> None:
    """A record without statistics is not comparable, and the verdict says what is missing."""
    (verdict,) = verdicts([broken], [record("n4")])
    assert (verdict.status, verdict.text) == ("not comparable", "this run has no stats['median']")


def test_c49_renamed_and_slower_fails() -> None:
    """C49: a benchmark renamed since the baseline and ten times slower fails, for it has no baseline."""
    found = verdicts([record("n4_new", 1e-2)], [record("n4", 1e-3)])
    assert [(v.fullname, v.status) for v in found] == [("n4_new", "no baseline"), ("n4", "not run")]
    assert [v.fullname for v in gate.failed(found, partial=True)] == ["n4_new"]


def test_not_run_fails_unless_only_a_part_was_selected() -> None:
    """A benchmark of the baseline that was not run fails, and with ``partial`` it is reported but does not."""
    found = verdicts([record("n3")], [record("n3"), record("n4")])
    assert [v.fullname for v in gate.failed(found)] == ["n4"]
    assert gate.failed(found, partial=True) == []
    assert any(line.startswith("not run") and "n4" in line for line in gate.table(found))


@pytest.mark.parametrize(("now", "then"), [([], [record("n4")]), ([record("n4")], []), ([], [])])
def test_nothing_to_compare_is_an_error(now: list[Any], then: list[Any]) -> None:
    """A comparison with an empty side is an error and not a pass."""
    with pytest.raises(BaselineError, match="holds no benchmark"):
        verdicts(now, then)


def test_doubled_name_is_not_comparable() -> None:
    """Two benchmarks of one name can't be told apart, so the name is not comparable."""
    (verdict,) = verdicts([record("n4"), record("n4", 9e-3)], [record("n4")])
    assert (verdict.status, verdict.text) == ("not comparable", "this run has 2 benchmarks of this name")


@pytest.mark.parametrize("key", ["evidence", "state", "operator", "variant", "shape", "dtype"])
def test_other_conditions_are_not_comparable(key: str) -> None:
    """A warm run is not compared with a cold baseline, nor any other pair that differs in a declared condition."""
    (verdict,) = verdicts([record("n4", 5e-4, **{key: "a"})], [record("n4", **{key: "b"})])
    assert verdict.status == "not comparable"
    assert f"{key} = 'a'" in verdict.text


def test_c88_another_size_is_not_comparable() -> None:
    """An extent that changed under the same name is no speed-up, whatever the shape's short text says."""
    (verdict,) = verdicts([record("n4", 5e-6, **{"extent.N": 64})], [record("n4")])
    assert verdict.status == "not comparable"
    assert "'N': 64" in verdict.text


@pytest.mark.parametrize("key", ["evidence", "state", "variant", "shape", "dtype"])
def test_c88_a_condition_that_both_sides_lack_is_not_comparable(key: str) -> None:
    """What neither side says is not equal: the record can't be read, and the verdict names the key."""
    sides = [record("n4"), record("n4")]
    for side in sides:
        del side["extra_info"][key]
    (verdict,) = verdicts(sides[:1], sides[1:])
    assert verdict.status == "not comparable"
    assert verdict.text.count(f"extra_info has no '{key}'") == 2


@pytest.mark.parametrize("info", [[1], "n4", None, {"variant": "n4"}])
def test_c88_extra_info_that_is_no_record_is_not_comparable(info: Any) -> None:
    """A damaged benchmark of this plugin fails on either side; one of plain pytest-benchmark is none of the gate's."""
    damaged = {**record("n4"), "extra_info": info}
    for now, then in ((damaged, record("n4")), (record("n4"), damaged), (damaged, damaged)):
        (verdict,) = verdicts([now], [then])
        assert verdict.status == "not comparable"
    plain = {"fullname": "plain", "stats": {"median": 1.0}, "extra_info": {"mine": 1}}
    assert [v.fullname for v in verdicts([plain, record("n4")], [record("n4")])] == ["n4"]


@pytest.mark.parametrize("bad", [{}, {"fullname": ""}, {"fullname": 3}, None, "n4"])
def test_record_without_name_is_an_error(bad: Any) -> None:
    """A record that has no name is an error: it could neither be matched nor missed."""
    with pytest.raises(BaselineError, match="benchmark 1 of this run has no 'fullname'"):
        verdicts([record("n4"), bad], [record("n4")])


@pytest.mark.parametrize("tolerance", [-0.01, 1.0, 5, math.nan, math.inf])
def test_tolerance_that_passes_everything_is_refused(tolerance: float) -> None:
    """A tolerance outside [0, 1) is refused, 5 for 5 % and NaN among them."""
    with pytest.raises(UnknownNameError, match="tolerance"):
        one(1e-3, 1e-3, tolerance=tolerance)


def test_c48_other_gpu_is_refused() -> None:
    """C48: a baseline from another GPU is refused with both GPUs and the option that compares by MBU."""
    with pytest.raises(BaselineError, match=r"NVIDIA H200.*RTX 4090.*--roofline-other-gpu"):
        saved.check_same_gpu(H200, RTX)
    assert saved.check_same_gpu(H200, RTX, allow_other_gpu=True) is True
    assert saved.check_same_gpu(H200, H200, allow_other_gpu=True) is False


@pytest.mark.parametrize(("now", "then"), [(H200, SIMULATED), (SIMULATED, H200)])
def test_c48_simulated_is_never_compared_with_measured(now: Any, then: Any) -> None:
    """C48: a modelled bound and a measurement are not compared, whatever was allowed."""
    with pytest.raises(BaselineError, match="simulated"):
        saved.check_same_gpu(now, then, allow_other_gpu=True)


@pytest.mark.parametrize(
    "info", [None, {}, {"roofline": None}, {"roofline": {}}, {"roofline": {"gpu": " "}}, {"roofline": {"gpu": 7}}]
)
def test_c48_baseline_without_gpu_is_refused(info: Any) -> None:
    """C48: a run that names no GPU is refused on either side, whatever was allowed."""
    assert saved.machine_gpu(info) is None
    for now, then, side in ((H200, info, "the baseline"), (info, H200, "this run")):
        with pytest.raises(BaselineError, match=f"{side} does not name its GPU"):
            saved.check_same_gpu(now, then, allow_other_gpu=True)


@pytest.mark.parametrize("evidence", [None, "", "guessed"])
def test_c48_evidence_must_be_known(evidence: Any) -> None:
    """C48: a baseline that does not say whether it was measured is refused."""
    with pytest.raises(BaselineError, match="evidence"):
        saved.check_same_gpu(H200, {"roofline": {"gpu": "NVIDIA H200", "evidence": evidence}})


def test_c48_by_mbu_ignores_times() -> None:
    """C48: by MBU a GPU of half the bandwidth passes at the same share of peak, and a lower share fails."""
    then = [record("a", 1e-3, mbu_percent=80.0), record("b", 1e-3, mbu_percent=80.0)]
    now = [record("a", 2e-3, mbu_percent=80.0), record("b", 1e-3, mbu_percent=72.0)]
    b, a = verdicts(now, then, by_mbu=True)
    assert (a.fullname, a.status, a.now, a.then) == ("a", "ok", 80.0, 80.0)
    assert (b.fullname, b.status) == ("b", "slower")
    assert b.change == pytest.approx(80 / 72 - 1)


def test_c48_by_mbu_needs_mbu() -> None:
    """C48: a benchmark without MBU is not comparable by MBU, its time never stands in."""
    (verdict,) = verdicts([record("a")], [record("a", mbu_percent=80.0)], by_mbu=True)
    assert (verdict.status, verdict.text) == ("not comparable", "this run has no mbu_percent")


def test_table_is_worst_first_and_counts() -> None:
    """The table shows the largest slowdown first and closes with the count of each status."""
    now = [record("ok"), record("a", 2e-3), record("b", 3e-3), record("new"), record("nan", math.nan)]
    then = [record("ok"), record("a"), record("b"), record("gone"), record("nan")]
    lines = gate.table(verdicts(now, then))
    assert [line.split(":")[0].split()[-1] for line in lines[:-1]] == ["b", "a", "new", "nan", "gone", "ok"]
    assert lines[-1] == "6 compared: 2 slower, 1 no baseline, 1 not comparable, 1 not run, 1 ok"
    assert gate.table(reversed(verdicts(now, then))) == lines


numbers = st.floats(min_value=1e-9, max_value=1e3)
anything = st.one_of(st.none(), st.floats(), st.integers(), st.text(max_size=3), st.booleans())


@given(
    st.dictionaries(st.sampled_from("abcdef"), anything, min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), anything, min_size=1),
)
def test_every_benchmark_gets_one_verdict(now: dict[str, Any], then: dict[str, Any]) -> None:
    """Whatever the medians are, each name of either side has one verdict, and it passes only if it was compared."""
    found = verdicts([record(n, v) for n, v in now.items()], [record(n, v) for n, v in then.items()])
    assert sorted(v.fullname for v in found) == sorted({*now, *then})
    passed = [v for v in found if v not in gate.failed(found)]
    for verdict in passed:
        assert verdict.now is not None
        assert verdict.then is not None
        assert verdict.now <= max(verdict.then * 1.05, verdict.then + gate.RESOLUTION)
    assert len(gate.table(found)) == len(found) + 1


def test_modelled_times_have_no_resolution() -> None:
    """Speeds of light are exact: 1.2 us against 1.0 us is slower, and between measurements no difference."""
    for evidence, status in (("simulated", "slower"), ("measured", "ok")):
        now, then = record("a", 1.2e-6), record("a", 1.0e-6)
        for side in (now, then):
            side["extra_info"] = {**side.get("extra_info", {}), "evidence": evidence}
        (found,) = verdicts([now], [then])
        assert found.status == status


@given(numbers, numbers, st.floats(min_value=0, max_value=0.99))
def test_mbu_and_time_agree(now: float, then: float, tolerance: float) -> None:
    """On one GPU, where MBU is proportional to 1/time, both ways to compare give one change."""
    by_time = one(now, then, tolerance=tolerance)
    (by_mbu,) = verdicts(
        [record("n4", mbu_percent=1 / now)], [record("n4", mbu_percent=1 / then)], tolerance, by_mbu=True
    )
    assert by_mbu.change == pytest.approx(by_time.change, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("gpu", "slug"),
    [
        ("NVIDIA H200", "NVIDIA-H200"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA-GeForce-RTX-4090"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
        ("../../etc", "etc"),
        ("a/b\\c:d\n", "a-b-c-d"),
    ],
)
def test_storage_slug(gpu: str, slug: str) -> None:
    """A GPU's name becomes one folder name, and can't lead out of its folder."""
    assert storage_slug(gpu) == slug


@pytest.mark.parametrize("gpu", ["", "...", "/", "🂡"])
def test_storage_slug_refuses_nothing_left(gpu: str) -> None:
    """A name of which nothing is left is refused instead of naming the parent folder."""
    with pytest.raises(BaselineError, match="the GPU name"):
        storage_slug(gpu)


@given(st.text())
def test_storage_slug_is_one_safe_folder(gpu: str) -> None:
    """Whatever a GPU is called, its folder is one plain path component."""
    try:
        slug = storage_slug(gpu)
    except BaselineError:
        return
    assert Path(slug).name == slug
    assert slug.isascii()
    assert slug not in ("", ".", "..")


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0%", 0.0), (" 2.5 % ", 0.025), ("99.9%", 0.999)])
def test_parse_tolerance(text: str, value: float) -> None:
    """A percentage becomes a fraction."""
    assert gate.parse_tolerance(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["5", "0.05", "", "%", "-1%", "100%", "nan%", "1e3%", "5%%", "\u0665%"])
def test_parse_tolerance_refuses_the_rest(text: str) -> None:
    """A tolerance without a percent sign is refused, since 0.05 could mean either, and so is one that passes all."""
    with pytest.raises(UnknownNameError, match="write a percentage"):
        gate.parse_tolerance(text)
