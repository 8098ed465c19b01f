"""CUDA events as a :class:`~pytest_roofline.bench.timer.DeviceClock`, and the state in which a sample starts.

One sample is one run of a variant behind queued work: the device is busy when the start event is reached, so what is
timed is the kernels and not the host's gap. Cold (the default) means an L2 full of clean lines of something else;
warm means that the variant has just run.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..errors import TimerError
from ..run.gpu.device import CudaDevice, translated
from ..run.gpu.flush import Flush, timing_image
from .clock import require_state
from .timer import Stamp, Timer, pilot_of, rounds_for

CALIBRATION_SAMPLES = 101
CALIBRATION_BLOCKING_NS = 300_000
PILOT_SAMPLES = 64
BLOCKING_SAMPLES = 9
BLOCKING_NS = 50_000  # at least; grows where the host takes longer to queue a sample
# Empty launches between the blocking kernel and the start event. A launch's own data goes through memory too, and the
# first launches after a pause wait for it: without these a variant of several launches reads up to 1 us more on an
# H200, by where in the driver's ring of launches the sample begins. Their number varies: every phase is sampled.
EMPTY_LAUNCHES = (4, 5, 6, 7)

Work = Callable[[], None]


class Series(Protocol):
    """The samples of one benchmark (see Placements)."""

    def __call__(self) -> Work:
        """The work of the next sample, with its inputs in place."""

    def restore(self) -> None:
        """Put the inputs of the last sample back in place, where the work has changed them."""


class EventClock:
    """CUDA events on the current stream. Their step is 32 ns on an H200 (driver 580)."""

    def __init__(self, device: CudaDevice) -> None:
        self.cuda = device.cupy.cuda

    def record(self) -> Any:
        event = self.cuda.Event()
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        with translated("waiting for a timed launch"):
            end.synchronize()
            return float(self.cuda.get_elapsed_time(start, end)) * 1e-3

    def reached(self, mark: Any) -> bool:
        return bool(mark.done)


class Stopwatch:
    """Times work on ``device``; calling it is pytest-benchmark's timer.

    ``timer.overhead`` is calibrated once: the middle difference, in seconds, of two events with nothing between
    them behind a busy device, about 1.3 us on an H200 (event_overhead_us of the saved run). Whether that is the right
    amount, scripts/against_ncu.py says.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.timer = Timer(EventClock(device))
        self._blocking = device.load(timing_image(device), "roofline_block")
        self._flush = Flush(device)
        self.blocking_ns = BLOCKING_NS
        self._random = random.Random(0)
        self.timer.overhead = self._calibrate()

    def __call__(self) -> Stamp:
        return self.timer()

    def _calibrate(self) -> float:
        clock = self.timer.clock
        samples = []
        for _ in range(CALIBRATION_SAMPLES):
            self._block_for(CALIBRATION_BLOCKING_NS)
            self._launch_nothing()
            start, end = clock.record(), clock.record()
            if not clock.reached(start):  # or the difference holds the host's gap between the two calls
                samples.append(clock.seconds(start, end))
        if len(samples) < CALIBRATION_SAMPLES // 2:
            raise TimerError("the host is too slow to keep the device busy: the events' overhead can't be calibrated")
        # The middle half, for their step of 32 ns is coarse against 1.28 us; its mean is finer than the median.
        middle = sorted(samples)[len(samples) // 4 : -len(samples) // 4]
        overhead = statistics.fmean(middle)
        if not 0 < overhead < math.inf:
            raise TimerError(f"two events with nothing between them are {overhead!r} s apart: the clock can't be used")
        return overhead

    def _keep_busy(self) -> None:
        self._block_for(self.blocking_ns)
        self._launch_nothing()

    def _launch_nothing(self) -> None:
        for _ in range(self._random.choice(EMPTY_LAUNCHES)):
            self._block_for(0)

    def _block_for(self, ns: int) -> None:
        self.device.launch(self._blocking, (1, 1, 1), (1, 1, 1), (np.int64(ns),), 0)

    def prepare(self, series: Series, state: str) -> Work:
        """Queue what puts the GPU into ``state`` ("cold" or "warm") and keeps it busy; returns the work to time."""
        require_state(state)
        work = series()
        if state == "cold":
            self._flush()
        else:
            work()
            series.restore()
        self._keep_busy()
        return work

    def sample(self, series: Series, state: str) -> float:
        """One duration in seconds."""
        work = self.prepare(series, state)
        start = self.timer()
        work()
        return self.timer() - start

    def fit_blocking(self, series: Series) -> None:
        """Make the blocking kernel at least three times as long as the host takes to queue what follows it."""
        took = []
        for _ in range(BLOCKING_SAMPLES):
            work = series()
            begin = time.perf_counter()
            self._launch_nothing()
            self.timer.clock.record()
            work()
            self.timer.clock.record()
            took.append(time.perf_counter() - begin)
        self.device.synchronize()
        self.blocking_ns = max(BLOCKING_NS, int(3e9 * statistics.median(took)))

    def rounds(self, series: Series, state: str, precision: float, budget: float, at_least: int) -> int:
        """Rounds for the stated precision of the median, chosen by a pilot whose samples are thrown away."""
        for _ in range(3):
            self.sample(series, state)
        begin = time.perf_counter()
        samples = [self.sample(series, state) for _ in range(PILOT_SAMPLES)]
        pilot = pilot_of(samples, time.perf_counter() - begin)
        return rounds_for(pilot, precision, budget, at_least)
