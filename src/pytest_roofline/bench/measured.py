"""The clock of a machine with a GPU: right answer first, then the time by CUDA events."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..declare.suite import Suite
from ..errors import CompileError, DeviceError, NotCheckedError, RefusedError, RooflineError
from ..model.facts import FITS_L2, HOST_LATE, OVER_PEAK, REUSE, SHORT, THROTTLED, Facts, gbs
from ..model.models import Models
from ..run.build import Build
from ..run.case import Case
from ..run.compare import Accuracy
from ..run.device import MEASURED
from ..run.gpu.device import CudaDevice
from ..run.plan import Plan, planned
from ..run.run import Run
from . import telemetry
from .clock import discard
from .describe import described, with_baseline, with_sol
from .events import Series, Stopwatch, Work
from .modelled import baseline_of
from .placement import Placements
from .record import Record
from .telemetry import Telemetry
from .timer import Stamp, standard_error

COPY_SAMPLES = 15
SHORT_OVERHEAD = 0.1  # share of the time from which the events' overhead is noted
LATE_SHARE = 0.05  # share of samples in which the device waited for the host, from which it is noted
NOT_VALID = (FITS_L2, OVER_PEAK, REUSE)  # notes under which bandwidth means nothing


@dataclass(frozen=True)
class Precision:
    """How many rounds: ``error`` is the standard error of the median that is aimed at, ``budget`` in seconds."""

    error: float = 0.001
    budget: float = 1.0
    min_rounds: int = 31


@dataclass
class Copy:
    """A device-to-device copy as a series of samples."""

    work: Work

    def __call__(self) -> Work:
        return self.work

    def restore(self) -> None: ...


class Measured:
    """A :class:`~pytest_roofline.bench.clock.Clock` on ``device``; calibrated when it is made.

    All kernels of the suite are loaded first, in its order, so that code lies the same whatever is then selected; those
    that are compiled for their shape at the default one only.
    """

    evidence, label = MEASURED, ""

    def __init__(self, suite: Suite, device: CudaDevice, models: Models, precision: Precision | None = None) -> None:
        self.device, self.models, self.precision = device, models, precision or Precision()
        for variant in suite:
            with contextlib.suppress(CompileError, DeviceError, NotCheckedError, RefusedError):
                # A broken variant's own benchmark says what is wrong with it.
                build = Build.of(Plan(Case(variant, suite.default(variant.operator), suite), device.gpu))
                for launch in build.launches:
                    device.load(launch.image, launch.planned.kernel)
        self.stopwatch = Stopwatch(device)
        self.copies: dict[tuple[int, str], float] = {}
        self.times: dict[tuple[Case, str], float] = {}

        def cuda_events() -> Stamp:
            return self.stopwatch()

        self.timer = cuda_events

    def take(self, fixture: Any, case: Case, state: str) -> Record | None:
        run, accuracy = self.checked(case)
        if fixture.disabled:
            fixture.pedantic(run.run)
            return None
        try:
            return self.measure(run, accuracy, state, partial(self._rounds, fixture, state))
        except BaseException:
            discard(fixture)
            raise

    def checked(self, case: Case) -> tuple[Run, Accuracy]:
        """A run whose answer is right."""
        run = Run(self.device, Build.of(Plan(case, self.device.gpu)))
        run.run()
        return run, run.verify()

    def _rounds(self, fixture: Any, state: str, series: Series) -> list[float]:
        """Let pytest-benchmark take as many rounds as the precision asks for; the durations in seconds."""
        watch, wanted = self.stopwatch, self.precision
        rounds = watch.rounds(series, state, wanted.error, wanted.budget, wanted.min_rounds)
        watch.timer.late = 0
        fixture.pedantic(lambda work: work(), setup=lambda: ((watch.prepare(series, state),), {}), rounds=rounds)
        return list(fixture.stats.stats.data)

    def measure(self, run: Run, accuracy: Accuracy, state: str, take: Callable[[Series], Sequence[float]]) -> Record:
        """Time ``run``, which was found right with ``accuracy``: ``take`` draws the samples, in seconds.

        Errors: :class:`~pytest_roofline.errors.WrongAnswerError` if the output of the last sample is wrong.
        """
        copy_gbs = self.copy_gbs(run.plan.footprint // 2, state)
        series = Placements(self.device, run)
        self.stopwatch.fit_blocking(series)
        samples = tuple(take(series))
        late = self.stopwatch.timer.late / len(samples)
        seen = telemetry.read(self.device)
        run.verify(outputs=series.outputs())
        case = run.plan.case
        self.times[case, state] = statistics.median(samples)
        record = described(run.build, state, accuracy).replace(evidence=self.evidence)
        record = self._timed(record, run.plan, samples, late, copy_gbs)
        record = self._noted(record, run.build, late, seen)
        record = self._against_baseline(record, run.plan, state)
        return self._with_sol(record, run.plan, state)

    def _timed(self, record: Record, plan: Plan, samples: Sequence[float], late: float, copy_gbs: float) -> Record:
        median, error, peak = statistics.median(samples), standard_error(samples), plan.gpu.peak_gbs
        reached = gbs(plan.bytes_moved, median)
        return record.replace(
            median_us=median * 1e6,
            median_error_percent=None if error is None else 100 * error / median,
            event_overhead_us=self.stopwatch.timer.overhead * 1e6,
            host_late_percent=100 * late,
            gbs=reached,
            mbu_percent=100 * reached / peak,
            copy_gbs=copy_gbs,
            copy_percent_of_peak=100 * copy_gbs / peak,
        )

    def _noted(self, record: Record, build: Build, late: float, seen: Telemetry) -> Record:
        """The record with notes and the machine's state."""
        notes = list(record.notes)
        more = {
            OVER_PEAK: (record.mbu_percent or 0) > 100,
            THROTTLED: bool(seen.throttle),
            SHORT: self.stopwatch.timer.overhead * 1e6 > SHORT_OVERHEAD * (record.median_us or 0),
            HOST_LATE: late > LATE_SHARE,
        }
        notes += [note for note, applies in more.items() if applies]
        return record.replace(
            notes=tuple(notes),
            metric_valid=not {*NOT_VALID} & {*notes},
            driver=seen.driver,
            driver_cuda=self.device.versions["driver_cuda"],
            cupy=self.device.versions["cupy"],
            sm_clock_mhz=seen.sm_clock_mhz,
            memory_clock_mhz=seen.memory_clock_mhz,
            power_limit_w=seen.power_limit_w,
            throttle=None if seen.throttle is None else ", ".join(seen.throttle) or "none",
        )

    def _against_baseline(self, record: Record, plan: Plan, state: str) -> Record:
        base = baseline_of(plan.case)
        record = with_baseline(
            record, plan.case.suite, plan, planned(base.variant, base.shape, plan.gpu) if base else None
        )
        if base is None:
            return record
        if base == plan.case:
            return record.replace(speedup=1.0, speedup_valid=True)
        time = self.times.get((base, state))
        if time is None:
            return record.replace(speedup_valid=True)
        helped = Facts(Build.of(Plan(base, plan.gpu))).reuse_fits_l2
        return record.replace(speedup=time * 1e6 / (record.median_us or 1), speedup_valid=not helped)

    def _with_sol(self, record: Record, plan: Plan, state: str) -> Record:
        """The speed of light beside a measured time; without it where it can't be modelled, with the reason."""
        try:
            sol, _ = self.models.sol(plan.case, state)
        except RooflineError as error:
            return record.replace(sol_bound=f"not modelled: {str(error).splitlines()[0]}")
        record = with_sol(record, plan, sol)
        return record.replace(sol_percent=100 * sol.seconds * 1e6 / (record.median_us or 1))

    def copy_gbs(self, nbytes: int, state: str) -> float:
        """GB/s of a device-to-device copy of ``nbytes``, read and written counted: what the GPU gives in practice."""
        if (nbytes, state) not in self.copies:
            source, target = self.device.empty((nbytes,), "uint8"), self.device.empty((nbytes,), "uint8")
            series = Copy(partial(target.data.copy_from_device_async, source.data, nbytes))
            times = sorted(self.stopwatch.sample(series, state) for _ in range(COPY_SAMPLES))
            self.copies[nbytes, state] = gbs(2 * nbytes, times[COPY_SAMPLES // 2])
        return self.copies[nbytes, state]

    def time(self, case: Case, state: str, samples: int) -> tuple[Record, Accuracy]:
        """Check a case and time it by ``samples`` samples, without pytest-benchmark."""
        run, accuracy = self.checked(case)
        record = self.measure(run, accuracy, state, lambda series: self.samples(series, state, samples))
        return record, accuracy

    def samples(self, series: Series, state: str, count: int) -> list[float]:
        """``count`` durations in seconds after the warm-up that belongs to that number."""
        for _ in range(warm_up_launches(count)):
            series()()
        self.stopwatch.timer.late = 0
        return [self.stopwatch.sample(series, state) for _ in range(count)]


def warm_up_launches(samples: int) -> int:
    """None for one sample, one for two, else three."""
    return {1: 0, 2: 1}.get(samples, 3)
