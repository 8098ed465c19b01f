"""The stopwatch around a clock: calibration, states, what blocks. No GPU: launches are counted, times are given."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from pytest_roofline.bench.events import BLOCKING_NS, EMPTY_LAUNCHES, EventClock, Stopwatch
from pytest_roofline.bench.timer import Timer
from pytest_roofline.errors import TimerError, UnknownNameError


class Clock:
    """Differences of 1.28 us; every ``late``-th start has been reached too early, and then 2.4 us more."""

    def __init__(self, late: int = 0) -> None:
        self.late, self.pairs = late, 0

    def record(self) -> int:
        return 0

    def reached(self, mark: int) -> bool:
        self.pairs += 1
        return bool(self.late) and self.pairs % self.late == 0

    def seconds(self, start: int, end: int) -> float:
        was_late = bool(self.late) and self.pairs % self.late == 0
        return 3.68e-6 if was_late else 1.28e-6


@pytest.fixture
def watch():
    """A stopwatch that is not calibrated yet; ``log`` names what is queued, a blocking kernel by its ns."""
    made = Stopwatch.__new__(Stopwatch)
    made.log = []
    made.device = SimpleNamespace(launch=lambda kernel, grid, block, args, shared: made.log.append(int(args[0])))
    made.timer, made.blocking_ns, made._random = Timer(Clock()), BLOCKING_NS, random.Random(0)
    made._blocking, made._flush = "blocking", lambda: made.log.append("flush")
    return made


def test_the_overhead_is_that_of_two_events_behind_a_busy_device(watch):
    """Calibration gives the clock's difference with nothing between the events."""
    assert watch._calibrate() == pytest.approx(1.28e-6)


def test_samples_that_hold_the_hosts_gap_are_left_out(watch):
    """Where the device reached the start before the end was queued, the difference is the host's: not counted."""
    watch.timer.clock = Clock(late=3)
    assert watch._calibrate() == pytest.approx(1.28e-6)


def test_a_host_that_is_always_late_is_an_error(watch):
    """With no sample in which the device was busy there is no overhead to take off, and no number."""
    watch.timer.clock = Clock(late=1)
    with pytest.raises(TimerError, match="can't be calibrated"):
        watch._calibrate()


@pytest.mark.parametrize("wrong", [0.0, -1e-6, float("nan")])
def test_an_overhead_that_can_not_be_is_an_error(watch, wrong):
    """Two events at the same time, in the wrong order, or at no time make no clock."""
    watch.timer.clock.seconds = lambda start, end: wrong
    with pytest.raises(TimerError, match="the clock can't be used"):
        watch._calibrate()


def test_c89_events_count_milliseconds():
    """CUDA gives the time between two events in ms: 0.0125 of them are 12.5 us, and the clock's unit is the second."""
    waited = []
    end = SimpleNamespace(synchronize=lambda: waited.append(True))
    cuda = SimpleNamespace(get_elapsed_time=lambda start, stop: 0.0125 if stop is end else 0)
    clock = EventClock(SimpleNamespace(cupy=SimpleNamespace(cuda=cuda)))
    assert clock.seconds(object(), end) == pytest.approx(12.5e-6)
    assert waited == [True], "the end is waited for before it is read"


class Restored:
    """A series that notes when it is put back."""

    def __init__(self, log) -> None:
        self.log = log

    def __call__(self):
        return lambda: self.log.append("work")

    def restore(self) -> None:
        self.log.append("restore")


def test_what_the_warming_run_changed_is_put_back(watch):
    """A kernel that works in place must not be timed on its own result."""
    watch.prepare(Restored(watch.log), "warm")
    assert watch.log[:3] == ["work", "restore", BLOCKING_NS]


@pytest.mark.parametrize(("state", "first"), [("cold", "flush"), ("warm", "work")])
def test_a_state_is_made_before_the_device_is_kept_busy(watch, state, first):
    """Cold flushes, warm runs the work; then one long blocking kernel and 4 to 7 empty launches, nothing after them."""
    work = watch.prepare(Restored(watch.log), state)
    if state == "warm":
        watch.log.remove("restore")
    assert watch.log[0] == first
    assert watch.log[1] == BLOCKING_NS
    assert set(watch.log[2:]) == {0}
    assert len(watch.log[2:]) in EMPTY_LAUNCHES
    work()
    assert watch.log[-1] == "work"


def test_the_number_of_empty_launches_varies(watch):
    """Every phase of the driver's ring of launches is sampled."""
    seen = set()
    for _ in range(50):
        watch.log.clear()
        watch.prepare(lambda: lambda: None, "cold")
        seen.add(len(watch.log) - 2)
    assert seen == set(EMPTY_LAUNCHES)


def test_an_unknown_state_is_refused(watch):
    """A state that does not exist is refused with those that do."""
    with pytest.raises(UnknownNameError, match="cold, warm"):
        watch.prepare(lambda: lambda: None, "tepid")
