"""What one pytest process holds: settings, ladder, device, stopwatch, and the records of what was measured.

Everything expensive is made on first use. Knows pytest-benchmark's fixture, but no pytest hooks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from . import declaration
from .check import Accuracy, Job, check, images_of
from .compile import Image, compiler
from .device import NOT_CHECKED
from .errors import CompileError, DeviceError, RooflineError, SanitizerNotFoundError, UnknownNameError
from .gpu import device as cuda
from .gpu import sanitizer, telemetry
from .gpu.child import rung_job
from .gpu.sanitizer_report import Report
from .gpu.timer import Series, Stopwatch
from .ladder import Ladder, Rung, Shape
from .measure import Bench
from .record import Value
from .timing import Stamp

MIN_ROUNDS = 31


@dataclass(frozen=True)
class Settings:
    """Options of a run. ``precision`` is a fraction of the median, ``budget`` wall-clock seconds a benchmark."""

    ladder: Path | None = None
    device: str = "auto"
    card: str = "rtx4090"
    require_gpu: bool = False
    state: str = "cold"
    precision: float = 0.001
    budget: float = 1.0
    min_rounds: int = MIN_ROUNDS
    sanitizer: str | None = None
    worker: int = 0


@dataclass
class Session:
    """See the module. ``records`` holds (test id, extra_info) of each benchmark in the order they ran."""

    settings: Settings
    records: list[tuple[str, dict[str, Value]]] = field(default_factory=list)

    @cached_property
    def ladder(self) -> Ladder:
        """The declaration; :class:`~pytest_roofline.errors.DeclarationError` if there is none or it is wrong."""
        if self.settings.ladder is None:
            raise UnknownNameError(
                "no ladder is declared: set roofline_ladder in the pytest configuration to the path of a declaration, "
                "for example roofline_ladder = kernels/ladder.py (outside pytest, --ladder names one too)"
            )
        return declaration.load(self.settings.ladder)

    @cached_property
    def _device(self) -> cuda.CudaDevice | str:
        if self.settings.device == "sim":
            return "the simulator is not part of this version; use --roofline-device cuda on a machine with a GPU"
        try:
            return cuda.CudaDevice(self.settings.worker % cuda.count())
        except DeviceError as error:
            return str(error)

    @property
    def missing(self) -> str:
        """Why there is no device; empty if there is one."""
        return self._device if isinstance(self._device, str) else ""

    def check_device(self) -> None:
        """Raise :class:`DeviceError` where a device was asked for, by option, and there is none."""
        wanted = {"--roofline-require-gpu": self.settings.require_gpu}
        wanted[f"--roofline-device {self.settings.device}"] = self.settings.device != "auto"
        if asked := [option for option, on in wanted.items() if on and self.missing]:
            raise DeviceError(f"{' and '.join(asked)}: {self.missing}")

    def release(self) -> None:
        """Give the device's unused memory back, if a device was used."""
        if isinstance(self.__dict__.get("_device"), cuda.CudaDevice):
            self.device.release()

    @property
    def device(self) -> cuda.CudaDevice:
        if isinstance(self._device, str):
            raise DeviceError(self._device)
        return self._device

    @cached_property
    def bench(self) -> Bench:
        return Bench(self.ladder, self.device)

    @property
    def stopwatch(self) -> Stopwatch:
        return self.bench.stopwatch

    @cached_property
    def timer(self) -> Callable[[], Stamp]:
        """The timer for pytest-benchmark; its name is what a saved run shows."""

        def cuda_events() -> Stamp:
            return self.stopwatch()

        return cuda_events

    @cached_property
    def telemetry(self) -> telemetry.Telemetry:
        """Read once: the driver's version and the power limit. Clocks are read again after each benchmark."""
        return telemetry.read(self.device)

    def machine(self) -> dict[str, Value]:
        """What is written into a saved run's machine_info["roofline"]."""
        card = self.device.card
        return {
            "card": card.name,
            "evidence": self.device.evidence,
            "arch": card.arch,
            "sms": card.sms,
            "peak_gbs": card.peak_gbs,
            "l2_bytes": card.l2_bytes,
            "driver": self.telemetry.driver,
            "power_limit_w": self.telemetry.power_limit_w,
            "compiler": compiler(),
            **self.device.versions,
        }

    def header(self) -> str:
        """One line: device, card, peak and its source, versions; or what is skipped and why."""
        if self.missing:
            return (
                f"roofline: no device ({self.missing}); static checks run, everything that needs a GPU is not checked"
            )
        card, versions = self.device.card, self.device.versions
        return (
            f"roofline: {self.device.evidence} on {card.name} ({card.arch}, {card.sms} SMs), peak {card.peak_gbs:.0f} "
            f"GB/s from {card.source}, driver {self.telemetry.driver or 'unknown'} (CUDA {versions['driver_cuda']}), "
            f"CUDA {versions['runtime_cuda']}, CuPy {versions['cupy']}, L2 {self.settings.state}; {self._skipped()}"
        )

    def _skipped(self) -> str:
        try:
            return f"compute-sanitizer {self.sanitizer.tool.version}"
        except SanitizerNotFoundError:
            return (
                "no compute-sanitizer was found, so its tests are skipped (their reason says where it was looked for)"
            )

    def kernel(self, name: str) -> Any:
        """The CuPy RawKernel ``name``, compiled for the device; ``name`` as in the declaration's launches."""
        launches = [(rung, launch) for rung in self.ladder.rungs for launch in rung.launches]
        sources = {rung.source_of(launch): rung for rung, launch in launches if launch.kernel == name}
        if not sources:
            names = dict.fromkeys(launch.kernel for _, launch in launches)
            raise UnknownNameError(f"there is no kernel {name!r}; declared are {', '.join(names)}")
        if len(sources) > 1:
            raise UnknownNameError(f"kernel {name!r} is in {' and '.join(sources)}: give them different names")
        (source, rung), *_ = sources.items()
        return self.device.load(images_of(self.ladder, rung, self.device.arch)[source], name)

    def check(self, rung: Rung, shape: Shape, inputs: Mapping[str, np.ndarray] | None = None) -> Accuracy:
        """Run ``rung`` once on the device and compare with the reference."""
        return check(self.device, self.ladder, rung, shape, inputs)

    @cached_property
    def sanitizer(self) -> sanitizer.Sanitizer:
        """compute-sanitizer; :class:`~pytest_roofline.errors.SanitizerNotFoundError` where there is none."""
        tool = sanitizer.find(self.settings.sanitizer, os.environ)
        return sanitizer.Sanitizer(tool, self.device.arch, self.device.index)

    def sanitize(
        self,
        rung: Rung,
        which: str,
        shape: Shape,
        volatile: bool = False,
        images: Mapping[str, Image] | None = None,
    ) -> Report:
        """Run ``rung`` in a child under the sanitizer's tool ``which``; ``images`` replace its own sources."""
        assert self.settings.ladder is not None
        if which not in sanitizer.FLAGS:
            raise UnknownNameError(f"compute-sanitizer has no tool {which!r}; it has {', '.join(sanitizer.FLAGS)}")
        note = "volatile shared memory" if volatile else ""
        try:
            images = images or images_of(self.ladder, rung, self.device.arch, volatile)
        except CompileError as error:
            if not volatile:
                raise
            return sanitizer.does_not_compile(which, f"{rung.name} {shape}", error)
        verify = which == "memcheck"  # the other tools slow a kernel down, and one answer is enough
        job = rung_job(self.settings.ladder, rung, shape, images, self.device.index, verify, note)
        return self.sanitizer.check(which, job)

    def benchmark(self, fixture: Any, rung: Rung, shape: Shape, state: str | None = None) -> dict[str, Value]:
        """Verify ``rung`` at ``shape``, then time it through pytest-benchmark's ``fixture``; returns the extra_info.

        The answer is checked before and after the timed rounds, and whatever goes wrong leaves no number.
        """
        state = state or self.settings.state
        job = Job(self.device, self.ladder, rung, shape)
        job.run()
        accuracy = job.verify()
        if fixture.disabled:
            fixture.pedantic(job.run)
            return {}
        try:
            measurement = self.bench.measure(job, accuracy, state, partial(self._rounds, fixture, state))
        except BaseException:
            discard(fixture)
            self.records = [record for record in self.records if record[0] != fixture.fullname]
            raise
        fixture.extra_info.update(measurement.record())
        self.records.append((fixture.fullname, fixture.extra_info))
        return dict(fixture.extra_info)

    def _rounds(self, fixture: Any, state: str, series: Series) -> list[float]:
        """Let pytest-benchmark take as many rounds as the precision asks for; the durations in seconds."""
        watch, settings = self.stopwatch, self.settings
        rounds = watch.rounds(series, state, settings.precision, settings.budget, settings.min_rounds)
        watch.timer.late = 0
        fixture.pedantic(lambda work: work(), setup=lambda: ((watch.prepare(series, state),), {}), rounds=rounds)
        return list(fixture.stats.stats.data)


def discard(fixture: Any) -> None:
    """Take a benchmark's samples back, so that neither pytest-benchmark's table nor its JSON shows a number."""
    fixture.has_error = True
    if fixture.stats is not None:
        fixture.stats.stats.data.clear()


def worker_number(environ: Mapping[str, str] | None = None) -> int | None:
    """Number of this pytest-xdist worker (0 for gw0), None outside of one."""
    worker = (os.environ if environ is None else environ).get("PYTEST_XDIST_WORKER", "")
    return int(worker[2:]) if worker.startswith("gw") and worker[2:].isdigit() else None


def not_checked(error: RooflineError | str) -> str:
    """The reason of a skip."""
    return f"{NOT_CHECKED}: {error}"
