"""The clock of a machine without a GPU: one round that lasts the speed of light, so labelled everywhere."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_roofline import Shape
from pytest_roofline.bench.modelled import Modelled
from pytest_roofline.errors import NotCheckedError, WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model import models as module
from pytest_roofline.model.models import Models
from pytest_roofline.run.case import Case


@pytest.fixture
def clock():
    return Modelled(Models(gpu_named("h200")))


@pytest.fixture
def case(shipped):
    """``case("n4")`` at 64 x 1024."""
    return lambda name, shape=Shape(M=64, N=1024): Case(shipped.variant(name), shape, shipped)  # noqa: B008


def test_the_one_sample_is_the_speed_of_light_to_the_bit(clock, case, fake_fixture):
    """What pytest-benchmark sees is the model's number, and the timer's name says what it is."""
    fixture = fake_fixture(clock.timer)
    record = clock.take(fixture, case("n4"), "cold")
    sol, _ = clock.models.sol(case("n4"), "cold")
    assert fixture.samples == [sol.seconds]
    assert record.median_us == record.sol_us == sol.seconds * 1e6
    assert clock.timer.__name__ == "modelled_speed_of_light"


def test_a_modelled_time_is_labelled(clock, case):
    """Evidence and label say that nothing was measured, and no field that only a measurement has is filled."""
    record = clock.record(case("n4"), "warm")
    assert record.evidence == "simulated"
    assert record.label == clock.label == "speed of light on NVIDIA H200, modelled, not measured"
    assert record.state == "warm"
    assert {record.gbs, record.mbu_percent, record.sol_percent, record.event_overhead_us, record.metric_valid} == {None}


def test_the_answer_that_was_computed_is_in_the_record(clock, case):
    """The largest error and its share of the tolerance; why not, where it was not checked."""
    record = clock.record(case("n4"), "cold")
    assert 0 < record.max_error < 1e-5
    assert 0 < record.max_error_of_tolerance < 1
    assert record.not_checked is None


def test_a_speed_up_needs_the_baseline_in_the_same_state(clock, case):
    """Against n1 if it was modelled before, cold with cold; n1's own is 1; by bytes moved 12N over 8N."""
    assert clock.record(case("n4"), "cold").speedup is None
    base = clock.record(case("n1"), "cold")
    record = clock.record(case("n4"), "cold")
    assert base.speedup == 1.0
    assert record.speedup == pytest.approx(base.median_us / record.median_us, rel=1e-12)
    assert record.ideal_speedup == 1.5
    assert record.baseline == "n1"
    assert clock.record(case("n4"), "warm").speedup is None


def test_a_baseline_that_can_not_run_the_shape_gives_no_speed_up(clock, case):
    """n1 is in float32 only: against it bfloat16 has neither a speed-up nor an ideal one."""
    record = clock.record(case("n6", Shape(M=64, N=1024, dtype="bfloat16")), "cold")
    assert (record.baseline, record.speedup, record.ideal_speedup) == ("n1", None, None)


def test_counters_are_named_by_kernel_array_and_class(clock, case):
    """n4 loads x and w once as float4: 64 rows x 8 warps of 32 lanes of 16 bytes."""
    counters = clock.record(case("n4"), "cold").counters()
    assert counters["rms_n4.x.requests"] == 64 * 8
    assert counters["rms_n4.x.bytes"] == counters["rms_n4.y.bytes"] == 64 * 1024 * 4
    assert counters["rms_n4.x.sectors"] == 64 * 1024 * 4 // 32
    assert counters["rms_n4.issued.barrier"] > 0
    assert "rms_n4.shared.wavefronts" in counters
    assert "rms_n4.shared.sectors" not in counters


@pytest.mark.parametrize("error", [WrongAnswerError("wrong"), NotCheckedError("too large")])
def test_what_goes_wrong_leaves_no_number(clock, case, fake_fixture, monkeypatch, error):
    """A wrong answer, or a case that can't be counted, is raised before pytest-benchmark takes a sample."""

    def fail(build):
        raise error

    monkeypatch.setattr(module, "count", fail)
    clock.models.store = SimpleNamespace(get=lambda key: None)
    fixture = fake_fixture(clock.timer)
    with pytest.raises(type(error)):
        clock.take(fixture, case("n4"), "cold")
    assert fixture.samples == []


def test_where_benchmarks_are_disabled_the_answer_is_checked_and_nothing_saved(clock, case, fake_fixture):
    """--benchmark-disable runs it once and has no record."""
    fixture = fake_fixture(clock.timer, disabled=True)
    assert clock.take(fixture, case("n4"), "cold") is None
    assert fixture.calls == 1
