"""The timer refuses what can't be true, and the rounds follow the stated precision."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_roofline.bench.timer import Pilot, Timer, pilot_of, rounds_for, validated
from pytest_roofline.errors import TimerError


class FakeClock:
    """A clock that says whatever ``difference()`` says; events are reached when the host waits for them."""

    def __init__(self, difference: Callable[[], float], reached: bool = False) -> None:
        self.difference, self.is_reached = difference, reached

    def record(self) -> int:
        return 0

    def seconds(self, start: int, end: int) -> float:
        time.sleep(0.002)  # the work
        return self.difference()

    def reached(self, mark: int) -> bool:
        return self.is_reached


def duration(difference: float, overhead: float = 0.0) -> float:
    timer = Timer(FakeClock(lambda: difference))
    timer.overhead = overhead
    start = timer()
    return timer() - start


def test_a_true_duration_passes_less_the_overhead():
    """1 ms on the clock less 0.1 ms of overhead is 0.9 ms, as a Python float."""
    found = duration(1e-3, 1e-4)
    assert found == pytest.approx(9e-4)
    assert type(found) is float
    assert type(duration(np.float32(1e-3))) is float


def test_a_host_that_pauses_after_the_mark_is_no_lying_timer():
    """The device may pass the start mark while the host still returns from queueing it: that time counts as seen."""

    class Pausing(FakeClock):
        pauses = iter((0.006, 0))

        def record(self) -> int:
            time.sleep(next(self.pauses))
            return 0

    timer = Timer(Pausing(lambda: 7e-3))
    start = timer()
    assert timer() - start == pytest.approx(7e-3)


@pytest.mark.parametrize(
    ("difference", "message"),
    [
        (0.0, "stands still or runs backwards"),
        (-1e-3, "stands still or runs backwards"),
        (math.nan, "finite number of seconds"),
        (math.inf, "finite number of seconds"),
        (1.0, "does not count seconds, or does not wait"),  # 1 ms counted in milliseconds
    ],
)
def test_c44_a_broken_timer_is_an_error(difference, message):
    """A timer that stands still, runs backwards, returns NaN or milliseconds raises, and gives no number."""
    with pytest.raises(TimerError, match=message):
        duration(difference)


def test_c44_nothing_launched_is_an_error():
    """A difference no larger than the timer's own overhead is not a time of zero."""
    with pytest.raises(TimerError, match="nothing was launched"):
        duration(1e-6, 1.28e-6)


def test_late_samples_are_counted():
    """A sample whose start had been reached before the end was queued counts as late."""
    for reached in (False, True):
        timer = Timer(FakeClock(lambda: 1e-4, reached))
        start = timer()
        assert timer() - start > 0
        assert timer.late == reached


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 10), st.floats(0, 1e-5))
def test_whatever_passes_is_possible(elapsed, host, overhead):
    """Any duration that passes is finite, positive and no longer than the host saw."""
    try:
        found = validated(elapsed, host, overhead)
    except TimerError:
        return
    assert 0 < found <= host


def test_rounds_reach_the_stated_precision():
    """Medians of the chosen number of normal samples scatter by the stated fraction, within a third."""
    rng = np.random.default_rng(1)
    sigma, precision = 0.03, 0.004
    rounds = rounds_for(Pilot(1.0, sigma, 1e-6), precision, 1.0, 1)
    medians = [statistics.median(rng.normal(1.0, sigma, rounds)) for _ in range(400)]
    assert np.std(medians) == pytest.approx(precision, rel=0.34)


def test_rounds_stay_within_the_budget_and_above_the_minimum():
    """A noisy kernel stops at the wall-clock budget, a steady one at the minimum, and the minimum wins."""
    assert rounds_for(Pilot(1.0, 0.5, 0.01), 0.001, 1.0, 11) == 100
    assert rounds_for(Pilot(1.0, 0.0, 0.01), 0.001, 1.0, 11) == 11
    assert rounds_for(Pilot(1.0, 0.5, 10.0), 0.001, 1.0, 11) == 11


def test_the_pilot_is_not_thrown_off_by_one_outlier():
    """One sample a hundred times too long leaves the pilot's median and spread where they were."""
    clean = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99, 1.0]
    with_outlier = pilot_of([*clean, 100.0], 1.0)
    assert with_outlier.median == pytest.approx(1.0, rel=0.01)
    assert with_outlier.sigma < 0.05
