"""Verdicts on predictions, and the reasons of those that fail."""

from __future__ import annotations

import pytest

from pytest_roofline import Prediction, Shape
from pytest_roofline.bench.record import Record
from pytest_roofline.model.facts import OVER_PEAK, Reuse
from pytest_roofline.report.predictions import FAILS, HOLDS, NOT_VALID, judge, table
from pytest_roofline.run.device import NOT_CHECKED

SHAPE, L2 = Shape(M=8192, N=3584), 60 * 2**20
NEAR = Reuse("x", 15_100_000, "within rms_n2")


def record(variant, **changed):
    one = Record(variant=variant, shape=str(SHAPE), evidence="measured", median_us=50.0, mbu_percent=88.0)
    one = one.replace(bytes_per_element=8.0, model_dram_per_element=7.9, sol_percent=83.0, sol_bound="DRAM", waves=10.0)
    return one.replace(**changed)


@pytest.fixture
def verdict(suite):
    """``verdict(prediction, record, other=None, reuses={})``: what becomes of one prediction of n2."""

    def run(prediction, one, other=None, **reuses):
        known = {"n1": (), "n2": (), "": ()} | reuses
        return judge(suite.variant("n2"), SHAPE, prediction, one, other, known, L2)

    return run


def test_a_speedup_is_of_times_and_ends_are_in(verdict):
    """n1 at 80 us over n2 at 50 us is 1.60: it holds from 1.6 on and fails above; without n1 it is not checked."""
    for low, wanted in ((1.6, HOLDS), (1.61, FAILS)):
        found = verdict(Prediction("n1", low, 2.0, "why"), record("n2"), record("n1", median_us=80.0))
        assert (found.value, found.verdict) == (1.6, wanted)
    missing = verdict(Prediction("n1", 1.0, 2.0, "why"), record("n2"))
    assert (missing.value, missing.verdict, missing.reason) == (None, NOT_CHECKED, "no record of n1")


def test_mbu_over_the_peak_is_not_valid(verdict):
    """A share of the peak above all of it says nothing, whatever was predicted; simulated it is not known at all."""
    over = record("n2", mbu_percent=119.0, notes=(OVER_PEAK,), bytes_per_element=12.0)
    found = verdict(Prediction("", 100, 130, "why", quantity="mbu"), over, n2=(NEAR,))
    assert found.verdict == NOT_VALID
    assert "reuse distance of 15.1 MB; DRAM moves 7.9 bytes an element of the 12 requested" in found.reason
    modelled = verdict(Prediction("", 1, 99, "why", quantity="mbu"), record("n2", evidence="simulated"))
    assert modelled.verdict == NOT_CHECKED


def test_dram_is_the_counted_where_it_was_counted(verdict):
    """ncu's count goes before the model's."""
    wanted = Prediction("", 7.0, 7.5, "why", quantity="dram")
    assert verdict(wanted, record("n2")).verdict == FAILS
    assert verdict(wanted, record("n2", dram_per_element=7.2)).verdict == HOLDS


def test_what_only_a_gpu_can_tell_is_not_judged_by_the_model(verdict):
    """A speed-up by a latency needs two times, bytes by what caches are asked need ncu; the model gives neither."""
    faster = Prediction("n1", 1.0, 2.0, "fewer barriers", needs_gpu=True)
    n1 = record("n1", median_us=80.0)
    assert verdict(faster, record("n2"), n1).verdict == HOLDS
    modelled = verdict(faster, record("n2", evidence="simulated"), n1.replace(evidence="simulated"))
    assert (modelled.verdict, modelled.reason) == (NOT_CHECKED, "only a measured time can tell")
    bytes_ = Prediction("", 7.0, 8.0, "lines that stay", quantity="dram", needs_gpu=True)
    assert verdict(bytes_, record("n2", dram_per_element=7.2)).verdict == HOLDS
    model = verdict(bytes_, record("n2"))
    assert (model.value, model.verdict) == (None, NOT_CHECKED)
    assert model.reason == "only what ncu counts can tell (--roofline-counters)"


def test_reasons_are_drawn_from_what_is_known(verdict):
    """A read that L2 serves, less than a wave, a variant far from its speed of light; else that nothing does."""
    wanted, n1 = Prediction("n1", 5.0, 6.0, "why"), record("n1", median_us=80.0)
    assert verdict(wanted, record("n2"), n1).reason == "nothing in the traffic explains it"
    served = verdict(wanted, record("n2", bytes_per_element=12.0), n1, n2=(NEAR,)).reason
    assert served.startswith("n2: L2 (60 MiB) serves the repeated read of x within rms_n2")
    far = Reuse("x", 2 * L2, "within rms_n2")
    assert "serves" not in verdict(wanted, record("n2", bytes_per_element=12.0), n1, n2=(far,)).reason
    assert "the grid is 0.06 of a wave" in verdict(wanted, record("n2", waves=0.06), n1).reason
    slow = verdict(wanted, record("n2"), n1.replace(sol_percent=39.2)).reason
    assert slow == "n1 reaches 39 % of its speed of light (DRAM): latency or instructions bind it, not bytes"
    few = verdict(Prediction("", 1, 2, "why", quantity="dram"), record("n2", waves=0.06)).reason
    assert few == "nothing in the reuse explains it", "idle SMs explain times, and no bytes"


def test_the_table_gives_value_range_and_reason(verdict):
    """One line what and how much, one why it fails."""
    lines = table([verdict(Prediction("n1", 5.0, 6.0, "less to do"), record("n2"), record("n1", median_us=80.0))])
    assert lines[0] == f"{FAILS:<16} n2 8192x3584: speed-up over n1 1.60, predicted 5 to 6: less to do"
    assert lines[1].strip() == "nothing in the traffic explains it"
