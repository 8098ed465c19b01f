"""One variant at one shape: right answer first, then time. What is kept of it is in :mod:`pytest_roofline.bench.record`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

from ..declare.suite import Shape, Suite, Variant
from ..errors import CompileError, DeviceError
from ..model.facts import facts_of, gbs
from ..run.check import Accuracy, Job, images_of
from ..run.gpu.device import CudaDevice
from . import telemetry
from .events import Series, Stopwatch
from .placement import Placements
from .record import Measurement

COPY_SAMPLES = 15


def copy_bytes(variant: Variant, shape: Shape) -> int:
    """Bytes a copy that reads as much as it writes must take to move the variant's footprint."""
    return variant.footprint_bytes(shape) // 2


class Bench:
    """A device with a calibrated stopwatch, on which the variants of one suite are timed.

    All kernels of the suite are loaded first, in its order, so that code lies the same whatever is then selected;
    those that are compiled for their shape at the default one only.
    """

    def __init__(self, suite: Suite, device: CudaDevice) -> None:
        self.suite, self.device = suite, device
        for variant in suite.variants:
            with contextlib.suppress(
                CompileError, DeviceError
            ):  # a broken variant's own job says what is wrong with it
                fixed = variant.at(variant.operator.default_shape, device.gpu)
                images = images_of(suite, fixed, device.arch)
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
        variant, shape, timer = job.variant, job.shape, self.stopwatch.timer
        copy_gbs = self.copy_gbs(copy_bytes(variant, shape), state)
        series = Placements(self.device, job)
        self.stopwatch.fit_spin(series)
        samples = take(series)
        late = timer.late
        seen = telemetry.read(self.device)
        job.verify(outputs=series.outputs())
        base = self.suite.baseline(variant)
        measurement = Measurement(
            facts=facts_of(variant, shape, self.device.gpu, job.program.images),
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
        self.times[variant.name, shape, state] = measurement
        return measurement

    def copy_gbs(self, nbytes: int, state: str) -> float:
        """GB/s of a device-to-device copy of ``nbytes``, read and written counted: what the gpu gives in practice."""
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
