"""Stamps for pytest-benchmark's timer, and how many rounds a stated precision takes. No GPU code here.

pytest-benchmark computes ``end - start`` of whatever its timer returns. So the timer returns a stamp that records
an event when it is made, and waits for the device when it is subtracted.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import TimerError

# Standard error of a median over that of a mean, for normal samples: sqrt(pi / 2).
MEDIAN_FACTOR = math.sqrt(math.pi / 2)
# Interquartile range of a normal distribution in standard deviations.
IQR_OF_SIGMA = 1.349


class DeviceClock(Protocol):
    """A device's clock: records events in the order of the queued work."""

    def record(self) -> Any: ...

    def seconds(self, start: Any, end: Any) -> float:
        """Wait until ``end`` is reached; seconds between the two events."""

    def reached(self, mark: Any) -> bool: ...


class Timer:
    """Makes stamps. ``overhead`` in seconds is taken off each difference.

    ``late`` counts differences whose start mark had been reached before the host had queued the end mark: the
    device had to wait for the host, and the duration holds that gap too.
    """

    def __init__(self, clock: DeviceClock) -> None:
        self.clock = clock
        self.overhead = 0.0
        self.late = 0

    def __call__(self) -> Stamp:
        host = time.perf_counter()  # before the mark: a host that pauses in between must not seem to have seen less
        return Stamp(self, self.clock.record(), host)


@dataclass(frozen=True)
class Stamp:
    """A mark in the device's queue, and the host's time in seconds before it was queued."""

    timer: Timer
    mark: Any
    host: float

    def __sub__(self, start: Stamp) -> float:
        """Seconds of device time since ``start``, less the timer's overhead; waits for the device.

        Errors: :class:`TimerError` for a duration that can't be true.
        """
        clock = self.timer.clock
        self.timer.late += clock.reached(start.mark)
        elapsed = clock.seconds(start.mark, self.mark)
        return validated(elapsed, time.perf_counter() - start.host, self.timer.overhead)


def validated(elapsed: float, host: float, overhead: float) -> float:
    """``elapsed - overhead`` in seconds as a Python float, if it can be true.

    ``host`` is the time the host saw pass from queueing the start until the end was known to be reached: no
    device interval between the two can be longer, which also finds a timer that counts milliseconds.
    """
    if not math.isfinite(elapsed):
        raise TimerError(f"the timer returned {elapsed!r}; a duration is a finite number of seconds")
    if elapsed <= 0:
        raise TimerError(f"the timer returned {elapsed!r} s for work that took time: it stands still or runs backwards")
    if elapsed > host:
        raise TimerError(
            f"the timer returned {elapsed:.6g} s, but only {host:.6g} s passed on the host meanwhile: "
            "it does not count seconds, or does not wait for the device"
        )
    duration = float(elapsed - overhead)
    if duration <= 0:
        raise TimerError(
            f"the timer returned {elapsed:.3g} s, no more than its own overhead of {overhead:.3g} s: "
            "nothing was launched, or too little to be resolved"
        )
    return duration


@dataclass(frozen=True)
class Pilot:
    """What an untimed pilot saw: median and robust standard deviation of a sample, wall-clock seconds a sample."""

    median: float
    sigma: float
    wall: float


def robust_sigma(samples: Sequence[float]) -> float:
    """Standard deviation of at least 4 ``samples`` from their interquartile range: outliers do not move it."""
    first, _, third = statistics.quantiles(samples, n=4)
    return (third - first) / IQR_OF_SIGMA


def standard_error(samples: Sequence[float]) -> float | None:
    """Standard error of the median of ``samples``, in their unit; None for fewer than 4."""
    if len(samples) < 4:
        return None
    return MEDIAN_FACTOR * robust_sigma(samples) / math.sqrt(len(samples))


def pilot_of(samples: Sequence[float], wall: float) -> Pilot:
    """Summarise ``samples`` (at least 4) that took ``wall`` seconds on the host in all."""
    return Pilot(statistics.median(samples), robust_sigma(samples), wall / len(samples))


def rounds_for(pilot: Pilot, precision: float, budget: float, at_least: int) -> int:
    """Rounds that bring the standard error of the median to ``precision`` (a fraction of it).

    Never fewer than ``at_least``, and beyond that never more than fit into ``budget`` seconds of wall-clock time.
    """
    wanted = (MEDIAN_FACTOR * pilot.sigma / (precision * pilot.median)) ** 2
    affordable = budget / pilot.wall
    return max(at_least, math.ceil(min(wanted, affordable)))
