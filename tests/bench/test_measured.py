"""What is recorded of a measurement, the notes that qualify it, and that whatever goes wrong leaves no number.

No GPU: a stopwatch that gives the samples it is told, and runs whose answers are given.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from pytest_roofline import Shape
from pytest_roofline.bench import measured as module
from pytest_roofline.bench.clock import STATES
from pytest_roofline.bench.measured import Measured, Precision, warm_up_launches
from pytest_roofline.bench.telemetry import Telemetry
from pytest_roofline.errors import NotCheckedError, TimerError, WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.facts import FITS_L2, HOST_LATE, OVER_PEAK, SHORT, THROTTLED
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.compare import Accuracy
from pytest_roofline.run.plan import Plan

H200 = gpu_named("h200")
LARGE = Shape(M=8192, N=3584)
SAMPLES = (0.98, 1.0, 1.0, 1.0, 1.02)  # of the median


class Stopwatch:
    """Samples of ``median`` seconds with a spread of 2 %; notes what it was asked."""

    def __init__(self, median: float, overhead: float = 1.28e-6, late: int = 0) -> None:
        self.timer = SimpleNamespace(overhead=overhead, late=late)
        self.median, self.late, self.calls, self.now, self.fail = median, late, [], 0.0, None

    def __call__(self) -> float:
        return self.now

    def fit_blocking(self, series) -> None:
        self.calls.append("fit_blocking")

    def rounds(self, series, state, precision, budget, at_least) -> int:
        self.calls.append(("rounds", state, precision, budget, at_least))
        self.timer.late = 99  # of the pilot
        return len(SAMPLES)

    def prepare(self, series, state):
        share = SAMPLES[sum(call == "prepare" for call in self.calls) % len(SAMPLES)]
        self.timer.late += self.late if "prepare" not in self.calls else 0
        self.calls.append("prepare")

        def work() -> None:
            if self.fail:
                raise self.fail
            self.now += share * self.median

        return work


class FakeRun:
    """A run whose answers are right, or wrong before or after the timed rounds."""

    def __init__(self, build, wrong: str = "") -> None:
        self.build, self.plan, self.wrong, self.log = build, build.plan, wrong, []

    def run(self) -> None:
        self.log.append("run")

    def verify(self, outputs=None) -> Accuracy:
        self.log.append("verify" if outputs is None else "verify again")
        if self.wrong == ("before" if outputs is None else "after"):
            raise WrongAnswerError("y[0, 0]: got 7")
        return Accuracy(absolute=1e-7, of_tolerance=0.01, values=1)


@pytest.fixture
def clock(shipped, monkeypatch):
    """``clock(median, ...)``: a clock of an H200 that is not there; ``run`` is the run that it times."""

    def make(median=55e-6, overhead=1.28e-6, throttle=(), late=0, wrong="", sol=None) -> Measured:
        found = Measured.__new__(Measured)
        versions = {"driver_cuda": "13.0", "cupy": "14.2.0"}
        found.device = SimpleNamespace(evidence="measured", gpu=H200, versions=versions)
        found.precision, found.copies, found.times = Precision(), {}, {}
        found.stopwatch = Stopwatch(median, overhead, late)
        found.timer = found.stopwatch

        def model(case, state):
            if sol is None:
                raise NotCheckedError("too large to count\nwith more lines")
            return sol, None

        found.models = SimpleNamespace(sol=model)
        monkeypatch.setattr(found, "copy_gbs", lambda nbytes, state: found.copies.setdefault((nbytes, state), 4350.0))
        monkeypatch.setattr(module, "Placements", lambda device, run: SimpleNamespace(outputs=lambda: {"y": None}))
        read = Telemetry("580.159.04", 1980, 3201, 700.0, throttle)
        monkeypatch.setattr(module.telemetry, "read", lambda device: read)
        monkeypatch.setattr(
            module, "Run", lambda device, build: found.__dict__.setdefault("run", FakeRun(build, wrong))
        )
        return found

    return make


@pytest.fixture
def recorded(clock, shipped):
    """``recorded("n4", LARGE, 55e-6)`` is the record of a measurement that nobody made; ``of`` times it on a clock."""

    def make(name, shape, median, state="cold", of=None, **how):
        found = of or clock(median, **how)
        found.stopwatch.median = median
        build = Build.of(Plan(Case(shipped.variant(name), shape, shipped), H200))
        samples = [share * median for share in SAMPLES]
        return found.measure(FakeRun(build), Accuracy(1e-7, 0.01, 1), state, lambda series: samples)

    return make


def test_figures_follow_from_the_bytes_moved(clock, recorded):
    """n4 at 8192 x 3584 in 55.04 us is 4267 GB/s, 88.6 % of 4814 GB/s; time at the peak and speed-up go with it."""
    same = clock()
    recorded("n1", LARGE, 89.47e-6, of=same)
    record = recorded("n4", LARGE, 55.04e-6, of=same)
    assert record.bytes_moved == 8 * 8192 * 3584
    assert record.bytes_per_element == 8.0
    assert record.median_us == pytest.approx(55.04)
    assert record.gbs == pytest.approx(4267, abs=1)
    assert record.mbu_percent == pytest.approx(88.6, abs=0.1)
    assert record.at_peak_us == pytest.approx(48.79, abs=0.01)
    assert record.speedup == pytest.approx(89.47 / 55.04)
    assert record.ideal_speedup == 1.5
    assert record.copy_percent_of_peak == pytest.approx(100 * 4350 / 4814.3, abs=0.1)
    assert record.spill_bytes == record.stack_bytes == 0
    assert record.notes == ()
    assert record.metric_valid is True
    assert (record.evidence, record.label) == ("measured", "")
    assert (record.driver, record.cupy, record.sm_clock_mhz) == ("580.159.04", "14.2.0", 1980)


def test_a_baselines_own_speedup_is_one_and_an_unknown_one_is_null(recorded):
    """The operator's first variant has speed-up 1; a variant whose baseline was not timed has none."""
    assert recorded("n1", LARGE, 90e-6).speedup == 1.0
    assert recorded("n4", LARGE, 55e-6).speedup is None


def test_a_speedup_is_of_one_state(clock, recorded):
    """A warm time is not compared with a cold baseline."""
    same = clock()
    recorded("n1", LARGE, 90e-6, of=same)
    assert recorded("n4", LARGE, 55e-6, state="warm", of=same).speedup is None


@pytest.mark.parametrize(("rows", "valid"), [(8192, True), (2048, False)])
def test_a_speedup_against_a_helped_baseline_is_not_valid(clock, recorded, rows, valid):
    """Where the baseline's second read fits L2, the speed-up against it says so in the record."""
    shape, same = Shape(M=rows, N=3584), clock()
    recorded("n1", shape, 90e-6, of=same)
    assert recorded("n4", shape, 55e-6, of=same).speedup_valid is valid


def test_the_error_of_the_median_is_recorded(recorded):
    """The standard error that was reached stands beside the median, in percent of it."""
    assert 0 < recorded("n4", LARGE, 55e-6).median_error_percent < 2


def test_c41_over_the_peak_is_noted(recorded):
    """n2 in 61.4 us is 119 % of the peak: noted, and the metric is not valid."""
    record = recorded("n2", LARGE, 61.41e-6)
    assert record.mbu_percent > 100
    assert OVER_PEAK in record.notes
    assert record.metric_valid is False


def test_what_fits_l2_is_no_valid_metric(recorded):
    """n4 at 2048 x 3584 reads and writes 56 MiB, which an L2 of 60 MiB holds: its bandwidth is not DRAM's."""
    record = recorded("n4", Shape(M=2048, N=3584), 15e-6)
    assert record.notes == (FITS_L2,)
    assert record.metric_valid is False


def test_c43_a_kernel_below_what_the_timer_resolves_is_noted(recorded):
    """A time of which the events' overhead would be over a tenth is noted as short, a longer one is not."""
    assert SHORT in recorded("n4", Shape(M=1, N=3584), 3.0e-6).notes
    assert SHORT not in recorded("n4", Shape(M=1, N=3584), 13.0e-6).notes


def test_throttling_and_a_late_host_are_noted(recorded):
    """A throttle reason and samples in which the device waited each have their note and their figure."""
    record = recorded("n4", LARGE, 55e-6, throttle=("software power cap",), late=1)
    assert {THROTTLED, HOST_LATE} <= {*record.notes}
    assert record.throttle == "software power cap"
    assert record.host_late_percent == pytest.approx(20)
    assert recorded("n4", LARGE, 55e-6).throttle == "none"
    assert recorded("n4", LARGE, 55e-6, throttle=None).throttle is None, "not read is not: none"


def test_each_launch_has_its_own_figures(recorded):
    """s1's three launches each have registers, occupancy and waves; the plain names hold the worst."""
    record = recorded("s1", Shape(M=2048, N=2048), 20e-6)
    assert [launch.kernel for launch in record.launches] == ["sm_s1_max", "sm_s1_sum", "sm_s1_div"]
    for launch in record.launches:
        assert launch.registers <= record.registers
        assert launch.waves >= record.waves
        assert launch.occupancy_limit == "threads"
    assert record.registers == max(launch.registers for launch in record.launches)


def test_sol_percent_is_the_speed_of_light_over_the_time(clock, recorded, shipped):
    """A time at which the model says 45 us and 50 were measured is at 90 %; where it can't be modelled, why not."""
    launch = SimpleNamespace(
        seconds=45e-6, bound="DRAM", work=SimpleNamespace(kernel="rms_n4", buffers={}, issued={}, special=0)
    )
    sol = SimpleNamespace(seconds=45e-6, bound="DRAM", dram=None, launches=(launch,))
    record = recorded("n4", LARGE, 50e-6, sol=sol)
    assert (record.sol_us, record.sol_bound) == (pytest.approx(45), "DRAM")
    assert record.sol_percent == pytest.approx(90)
    without = recorded("n4", LARGE, 50e-6)
    assert (without.sol_us, without.sol_percent) == (None, None)
    assert without.sol_bound == "not modelled: too large to count"


def test_the_copy_moves_what_the_variant_touches(clock, recorded):
    """A copy that reads as much as it writes moves the footprint if it copies half of it, in the same state."""
    same = clock()
    recorded("n4", LARGE, 55e-6, of=same)
    plan_footprint = 2 * 4 * 8192 * 3584
    assert {*same.copies} == {(plan_footprint // 2, "cold")}


@pytest.fixture
def n4(shipped):
    return Case(shipped.variant("n4"), Shape(M=64, N=1024), shipped)


def test_answers_are_checked_before_and_after_the_timed_rounds(clock, n4, fake_fixture):
    """Run, verify, time, verify what the last sample left; pilot's late samples are not counted."""
    made = clock(12e-6)
    fixture = fake_fixture(made.timer)
    record = made.take(fixture, n4, "cold")
    assert made.run.log == ["run", "verify", "verify again"]
    assert made.stopwatch.calls == ["fit_blocking", ("rounds", "cold", 0.001, 1.0, 31)] + ["prepare"] * len(SAMPLES)
    assert record.median_us == pytest.approx(12)
    assert record.host_late_percent == 0
    assert not fixture.has_error


@pytest.mark.parametrize("wrong", ["before", "after"])
def test_a_wrong_answer_leaves_no_number(clock, n4, fake_fixture, wrong):
    """Before the rounds none is taken; after them those that were taken are thrown away."""
    made = clock(12e-6, wrong=wrong)
    fixture = fake_fixture(made.timer)
    with pytest.raises(WrongAnswerError):
        made.take(fixture, n4, "cold")
    assert fixture.samples == []
    assert fixture.has_error is (wrong == "after")
    assert made.times == {}, "nor is it anybody's baseline"


@pytest.mark.parametrize("error", [TimerError("runs backwards"), KeyboardInterrupt()])
def test_whatever_goes_wrong_while_timing_leaves_no_number(clock, n4, fake_fixture, error):
    """A timer that can't be true, or a user who stops it."""
    made = clock(12e-6)
    made.stopwatch.fail = error
    fixture = fake_fixture(made.timer)
    with pytest.raises(type(error)):
        made.take(fixture, n4, "cold")
    assert fixture.samples == []
    assert fixture.has_error


def test_where_benchmarks_are_disabled_nothing_is_timed(clock, n4, fake_fixture):
    """--benchmark-disable checks the answer and calls the variant once."""
    made = clock(12e-6)
    fixture = fake_fixture(made.timer, disabled=True)
    assert made.take(fixture, n4, "cold") is None
    assert made.run.log == ["run", "verify", "run"]
    assert made.stopwatch.calls == []


def test_the_warm_up_belongs_to_the_number_of_samples():
    """None for one sample, one for two, else three."""
    assert [warm_up_launches(n) for n in (1, 2, 3, 11)] == [0, 1, 3, 3]
    assert STATES == ("cold", "warm")
    assert math.isclose(Precision().error, 0.001)
