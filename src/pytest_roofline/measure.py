"""One rung at one shape: right answer first, then time. What is kept of it is in :mod:`pytest_roofline.record`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from .check import Accuracy, Job, images_of
from .errors import CompileError, DeviceError
from .gpu import telemetry
from .gpu.device import CudaDevice
from .gpu.placement import Placements
from .gpu.timer import Series, Stopwatch
from .ladder import Ladder, Rung, Shape
from .record import Measurement
from .roofline import facts_of, gbs

COPY_SAMPLES = 15


def copy_bytes(rung: Rung, shape: Shape) -> int:
    """Bytes a copy that reads as much as it writes must take to move the rung's footprint."""
    return rung.footprint_bytes(shape) // 2


class Bench:
    """A device with a calibrated stopwatch, on which the rungs of one ladder are timed.

    All kernels of the ladder are loaded first, in its order, so that code lies the same whatever is then selected;
    those that are compiled for their shape at the default one only.
    """

    def __init__(self, ladder: Ladder, device: CudaDevice) -> None:
        self.ladder, self.device = ladder, device
        for rung in ladder.rungs:
            with contextlib.suppress(CompileError, DeviceError):  # a broken rung's own job says what is wrong with it
                fixed = rung.at(rung.operator.default_shape, device.card)
                images = images_of(ladder, fixed, device.arch)
                for launch in fixed.launches:
                    device.load(images[fixed.source_of(launch)], launch.kernel)
        self.stopwatch = Stopwatch(device)
        self.copies: dict[tuple[int, str], float] = {}
        self.times: dict[tuple[str, Shape, str], Measurement] = {}

    def measure(
        self, job: Job, accuracy: Accuracy, state: str, take: Callable[[Series], Sequence[float]]
    ) -> Measurement:
        """Time ``job``, which was run and found right with ``accuracy``: ``take`` draws the samples, in seconds.

        Errors: :class:`~pytest_roofline.errors.WrongAnswerError` if the output of the last sample is wrong.
        """
        rung, shape, timer = job.rung, job.shape, self.stopwatch.timer
        copy_gbs = self.copy_gbs(copy_bytes(rung, shape), state)
        series = Placements(self.device, job)
        self.stopwatch.fit_spin(series)
        samples = take(series)
        late = timer.late
        seen = telemetry.read(self.device)
        job.verify(outputs=series.outputs())
        base = self.ladder.baseline(rung)
        measurement = Measurement(
            facts=facts_of(rung, shape, self.device.card, job.program.images),
            baseline=base,
            accuracy=accuracy,
            samples=tuple(samples),
            state=state,
            overhead=timer.overhead,
            late=late,
            copy_gbs=copy_gbs,
            telemetry=seen,
            device=self.device,
            baseline_time=self.times.get((base.name, shape, state)),
        )
        self.times[rung.name, shape, state] = measurement
        return measurement

    def copy_gbs(self, nbytes: int, state: str) -> float:
        """GB/s of a device-to-device copy of ``nbytes``, read and written counted: what the card gives in practice."""
        if (nbytes, state) not in self.copies:
            source, target = self.device.empty((nbytes,), "uint8"), self.device.empty((nbytes,), "uint8")
            copy = partial(target.data.copy_from_device_async, source.data, nbytes)
            times = sorted(self.stopwatch.sample(lambda: copy, state) for _ in range(COPY_SAMPLES))
            self.copies[nbytes, state] = gbs(2 * nbytes, times[COPY_SAMPLES // 2])
        return self.copies[nbytes, state]

    def take(self, series: Series, state: str, samples: int) -> list[float]:
        """``samples`` durations in seconds after the warm-up that belongs to that number."""
        for _ in range(warm_up_launches(samples)):
            series()()
        self.stopwatch.timer.late = 0
        return [self.stopwatch.sample(series, state) for _ in range(samples)]


def warm_up_launches(samples: int) -> int:
    """None for one sample, one for two, else three."""
    return {1: 0, 2: 1}.get(samples, 3)
