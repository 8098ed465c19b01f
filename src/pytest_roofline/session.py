"""What one pytest process holds: settings, ladder, device, stopwatch, and the records of what was measured.

Everything expensive is made on first use. Knows pytest-benchmark's fixture, but no pytest hooks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from . import cards, declaration, verdict
from .cards import Card, key_of
from .check import Accuracy, Job, check, images_of
from .compile import Image, compiler
from .device import NOT_CHECKED, SIMULATED
from .errors import (
    CompileError,
    CountersError,
    DeviceError,
    NotCheckedError,
    RooflineError,
    SanitizerNotFoundError,
    UnknownNameError,
)
from .gpu import counters, sanitizer, telemetry
from .gpu import device as cuda
from .gpu.child import ChildJob, Counted, rung_job
from .gpu.sanitizer_report import CLEAN, FINDINGS, Report
from .gpu.timer import Series, Stopwatch
from .ladder import Ladder, Rung, Shape, lacking
from .measure import Bench
from .modelled import FloorClock, Models, floor_record, label
from .record import Value
from .sim.device import SimDevice
from .simulated import Simulator, agreed
from .timing import Stamp

MIN_ROUNDS = 31
VOLATILE = "volatile shared memory"
Call = tuple[Rung, str, Shape, bool, Mapping[str, Image] | None]


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
    """See the module. ``records`` holds (test id, extra_info) of each benchmark in the order they ran.

    ``simulated_tests`` counts tests of this process that ran on the simulator.
    """

    settings: Settings
    records: list[tuple[str, dict[str, Value]]] = field(default_factory=list)
    simulated_tests: int = 0
    substituted: int = 0  # runs that the device could not do, on a simulated one that can
    not_counted: str = ""  # why ncu counted nothing, where it was asked to
    warnings: dict[str, None] = field(default_factory=dict)  # of the simulator, each once

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
    def _gpu(self) -> cuda.CudaDevice | str:
        if self.settings.device == "sim":
            return "--roofline-device sim asks for the simulator"
        try:
            return cuda.CudaDevice(self.settings.worker % cuda.count())
        except DeviceError as error:
            return str(error)

    @property
    def missing(self) -> str:
        """Why there is no GPU; empty if there is one."""
        return self._gpu if isinstance(self._gpu, str) else ""

    def check_device(self) -> None:
        """Raise :class:`DeviceError` where a GPU was asked for, by option, and there is none."""
        wanted = {"--roofline-require-gpu": self.settings.require_gpu}
        wanted["--roofline-device cuda"] = self.settings.device == "cuda"
        if asked := [option for option, on in wanted.items() if on and self.missing]:
            raise DeviceError(f"{' and '.join(asked)}: {self.missing}")

    def release(self) -> None:
        """Give the device's unused memory back, if a device was used; keep what the simulator warned of."""
        for name in ("_gpu", "simulator", "newer_simulator"):
            device = self.__dict__.get(name)
            if isinstance(device, SimDevice):
                self.warnings |= dict.fromkeys(str(finding) for finding in device.take_findings())
            if device is not None and not isinstance(device, str):
                device.release()

    @property
    def gpu(self) -> cuda.CudaDevice:
        """The GPU; :class:`DeviceError` says why there is none."""
        if isinstance(self._gpu, str):
            raise DeviceError(self._gpu)
        return self._gpu

    @cached_property
    def simulator(self) -> SimDevice:
        """The simulated device, with the limits of the card that --roofline-card names."""
        return SimDevice(self.settings.card)

    @property
    def device(self) -> cuda.CudaDevice | SimDevice:
        """What kernels are checked on: the GPU if there is one, else the simulator."""
        return self.simulator if isinstance(self._gpu, str) else self._gpu

    def device_for(self, rung: Rung, shape: Shape) -> cuda.CudaDevice | SimDevice:
        """The device; a simulated H200 where that lacks what ``rung`` needs at ``shape``, such as clusters."""
        if not lacking(rung, shape, self.device.card):
            return self.device
        self.substituted += 1
        return self.newer_simulator

    @cached_property
    def newer_simulator(self) -> SimDevice:
        """A simulated H200, for rungs that the GPU, or the card of --roofline-card, can't run."""
        return SimDevice("h200")

    @cached_property
    def simulated(self) -> Simulator:
        """The simulator as a sanitizer, with the limits of the GPU if there is one."""
        card = self.settings.card if self.missing else key_of(self.gpu.card.name, self.settings.card)
        return Simulator(lambda: SimDevice(card), self.ladder)

    @cached_property
    def bench(self) -> Bench:
        return Bench(self.ladder, self.gpu)

    @property
    def stopwatch(self) -> Stopwatch:
        return self.bench.stopwatch

    @cached_property
    def card(self) -> Card:
        """The card that floors are modelled for: the GPU's, or the one that --roofline-card names."""
        return cards.card(self.settings.card) if self.missing else self.gpu.card

    @cached_property
    def models(self) -> Models:
        return Models(self.ladder, self.card)

    @cached_property
    def floor_clock(self) -> FloorClock:
        return FloorClock()

    @cached_property
    def timer(self) -> Callable[[], Any]:
        """The timer for pytest-benchmark; its name is what a saved run shows."""

        def cuda_events() -> Stamp:
            return self.stopwatch()

        def modelled_floor() -> float:
            return self.floor_clock()

        return modelled_floor if self.missing else cuda_events

    @cached_property
    def telemetry(self) -> telemetry.Telemetry:
        """Read once: the driver's version and the power limit. Clocks are read again after each benchmark."""
        return telemetry.read(self.gpu)

    def machine(self) -> dict[str, Value]:
        """What is written into a saved run's machine_info["roofline"]."""
        if self.missing:
            return {
                "card": self.card.name,
                "evidence": self.device.evidence,
                "note": label(self.card),
                "arch": self.card.arch,
                "sms": self.card.sms,
                "peak_gbs": self.card.peak_gbs,
                "l2_bytes": self.card.l2_bytes,
                "compiler": compiler(),
            }
        card = self.gpu.card
        return {
            "card": card.name,
            "evidence": self.gpu.evidence,
            "arch": card.arch,
            "sms": card.sms,
            "peak_gbs": card.peak_gbs,
            "l2_bytes": card.l2_bytes,
            "driver": self.telemetry.driver,
            "power_limit_w": self.telemetry.power_limit_w,
            "compiler": compiler(),
            **self.gpu.versions,
        }

    def header(self) -> str:
        """One line: device, card, peak and its source, versions; or that it is simulated, and why."""
        if self.missing:
            return (
                f"roofline: {self.device.evidence} (PTX of {self.device.arch}) with the limits of {self.device.name}; "
                f"no GPU ({self.missing}), so times are {NOT_CHECKED}; perf tests show the {label(self.card)}"
            )
        card, versions = self.gpu.card, self.gpu.versions
        return (
            f"roofline: {self.gpu.evidence} on {card.name} ({card.arch}, {card.sms} SMs), peak {card.peak_gbs:.0f} "
            f"GB/s from {card.source}, driver {self.telemetry.driver or 'unknown'} (CUDA {versions['driver_cuda']}), "
            f"CUDA {versions['runtime_cuda']}, CuPy {versions['cupy']}, L2 {self.settings.state}; {self._skipped()}"
        )

    def footer(self) -> list[tuple[str, list[str]]]:
        """Titles and lines of predictions, counters, what was simulated in this run, and what the simulator warned."""
        found = self._predictions()
        if self.not_counted:
            found.append(("roofline: counters", [self.not_counted]))
        if self.missing and self.simulated_tests:
            told = f"{self.simulated_tests} tests used the simulator (PTX of {self.device.arch}), none of them a GPU"
            found.append(("roofline: simulated", [told]))
        if self.substituted:
            why = f"{self.substituted} runs were simulated as an {self.newer_simulator.name}"
            found.append(("roofline: simulated for want of", [f"{why}: {self.device.name} lacks what they need"]))
        if self.warnings:
            found.append(("roofline: warnings of the simulator", list(self.warnings)))
        return found

    def _predictions(self) -> list[tuple[str, list[str]]]:
        if not self.records:
            return []
        infos = [info for _, info in self.records]
        lines = verdict.table(verdict.verdicts(self.ladder, infos, self.models.reuses(), self.card.l2_bytes))
        return [(f"roofline: predictions ({label(self.card) if self.missing else 'measured'})", lines)] if lines else []

    def count_traffic(self) -> None:
        """Run what was benchmarked once more under ncu, and add what it counts to the records.

        Where that can't be done the reason stands in the summary; with --roofline-require-gpu it is an error.
        """
        assert self.settings.ladder is not None
        records = [info for _, info in self.records]
        try:
            cases = [self._counted(info) for info in records]
            found = counters.count(counters.find(), self.settings.ladder, cases, self.gpu.index) if cases else []
        except (CountersError, DeviceError) as error:
            if self.settings.require_gpu:
                raise
            self.not_counted = f"{NOT_CHECKED}: {error}"
            return
        for info, launches in zip(records, found, strict=True):
            info |= counters.record(launches, info)

    def _counted(self, info: Mapping[str, Value]) -> Counted:
        rung = self.ladder.rung(str(info["rung"]))
        shape = Shape(int(info["rows"] or 0), int(info["columns"] or 0), str(info["dtype"]))
        images = images_of(self.ladder, rung.at(shape, self.gpu.card), self.gpu.arch)
        return Counted(rung, shape, str(info["state"]), images)

    def _skipped(self) -> str:
        try:
            return f"compute-sanitizer {self.sanitizer.tool.version}"
        except SanitizerNotFoundError:
            return (
                "no compute-sanitizer was found, so its tests are skipped (their reason says where it was looked for)"
            )

    def kernel(self, name: str, shape: Shape | None = None) -> Any:
        """The kernel ``name`` of a declared launch: on a GPU a CuPy RawKernel, else one that is called alike.

        One that is compiled for its shape needs ``shape``.
        """
        launches = [(rung, one) for rung in self.ladder.rungs for one in rung.launches]
        tuned = any(one.tune is not None for _, one in launches if one.kernel == name)
        if tuned and shape is None:
            raise UnknownNameError(f"kernel {name!r} is compiled for its shape: kernels({name!r}, Shape(M, N))")
        # The first rung that launches it: later ones use it as it is.
        sources = {rung.source_of(one): rung for rung, one in reversed(launches) if one.kernel == name}
        if not sources:
            names = dict.fromkeys(one.kernel for _, one in launches)
            raise UnknownNameError(f"there is no kernel {name!r}; declared are {', '.join(names)}")
        if len(sources) > 1:
            raise UnknownNameError(f"kernel {name!r} is in {' and '.join(sources)}: give them different names")
        (source, rung), *_ = sources.items()
        device = self.device_for(rung, shape or rung.operator.default_shape)
        fixed = rung.at(shape or rung.operator.default_shape, device.card)
        return device.load(images_of(self.ladder, fixed, device.arch)[source], name)

    def check(self, rung: Rung, shape: Shape, inputs: Mapping[str, np.ndarray] | None = None) -> Accuracy:
        """Run ``rung`` once on the device and compare with the reference."""
        return check(self.device_for(rung, shape), self.ladder, rung, shape, inputs)

    @cached_property
    def sanitizer(self) -> sanitizer.Sanitizer:
        """compute-sanitizer; :class:`~pytest_roofline.errors.SanitizerNotFoundError` where there is none."""
        tool = sanitizer.find(self.settings.sanitizer, os.environ)
        return sanitizer.Sanitizer(tool, self.gpu.arch, self.gpu.index)

    def sanitize(
        self,
        rung: Rung,
        which: str,
        shape: Shape,
        volatile: bool = False,
        images: Mapping[str, Image] | None = None,
    ) -> Report:
        """The check ``which`` of ``rung``: simulated, and on a GPU machine by compute-sanitizer too.

        ``images`` replace the rung's own sources.
        Errors: :class:`~pytest_roofline.simulated.DisagreementError` if the two come to different verdicts.
        """
        if which not in sanitizer.FLAGS:
            raise UnknownNameError(f"compute-sanitizer has no tool {which!r}; it has {', '.join(sanitizer.FLAGS)}")
        note = VOLATILE if volatile else ""
        device = self.device_for(rung, shape)
        rung = rung.at(shape, device.card)
        try:
            images = images or images_of(self.ladder, rung, device.arch, volatile)
        except CompileError as error:
            if not volatile:
                raise
            return sanitizer.does_not_compile(which, f"{rung.name} {shape}", error)
        simulated = self.simulated.check(which, rung, shape, images, device.card)
        if simulated.verdict == CLEAN:
            self.warnings |= dict.fromkeys(str(finding) for finding in simulated.findings)
        if device.evidence == SIMULATED:
            return simulated
        try:
            tool = self.sanitizer
        except SanitizerNotFoundError:
            if simulated.verdict == FINDINGS:
                return simulated
            raise
        return agreed(tool.check(which, self._sanitizer_job(which, rung, shape, images, note)), simulated)

    def _sanitizer_job(
        self, which: str, rung: Rung, shape: Shape, images: Mapping[str, Image], note: str = ""
    ) -> ChildJob:
        assert self.settings.ladder is not None
        verify = which == "memcheck"  # the other tools slow a kernel down, and one answer is enough
        return rung_job(self.settings.ladder, rung, shape, images, self.gpu.index, verify, note)

    @contextmanager
    def sanitizing_ahead(self, calls: Iterable[Call]) -> Iterator[None]:
        """compute-sanitizer in the background for ``calls`` of :meth:`sanitize`, with the arguments of each in order.

        Nothing at all where only the simulator checks. What was not asked for in the end is dropped.
        """
        try:
            tool = None if self.missing else self.sanitizer
        except SanitizerNotFoundError:
            tool = None
        if tool is None:
            yield
            return
        jobs = []
        for rung, which, shape, volatile, images in calls:
            if lacking(rung, shape, self.gpu.card):
                continue
            with suppress(CompileError):  # sanitize() says so
                made = images or images_of(self.ladder, rung.at(shape, self.gpu.card), self.gpu.arch, volatile)
                jobs.append((which, self._sanitizer_job(which, rung, shape, made, VOLATILE if volatile else "")))
        tool.start(jobs)
        try:
            yield
        finally:
            tool.stop()

    def benchmark(self, fixture: Any, rung: Rung, shape: Shape, state: str | None = None) -> dict[str, Value]:
        """Verify ``rung`` at ``shape``, then time it through pytest-benchmark's ``fixture``; returns the extra_info.

        The answer is checked before and after the timed rounds, and whatever goes wrong leaves no number. Without a GPU
        the time is the modelled floor, and the rows that were computed for it are checked.
        """
        state = state or self.settings.state
        if missing := lacking(rung, shape, self.card):
            raise NotCheckedError(f"{rung.name} at {shape} needs {missing}; {self.card.name} is {self.card.arch}")
        if self.missing:
            return self._benchmark_modelled(fixture, rung, shape, state)
        job = Job(self.gpu, self.ladder, rung, shape)
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
        fixture.extra_info.update(measurement.record() | self._floor(rung, shape, state, measurement.median))
        self.records.append((fixture.fullname, fixture.extra_info))
        return dict(fixture.extra_info)

    def _floor(self, rung: Rung, shape: Shape, state: str, seconds: float) -> dict[str, Value]:
        """The floor beside a measured time; None with the reason where it can't be modelled."""
        try:
            found, _ = self.models.floor(rung, shape, state)
        except RooflineError as error:
            return {"floor_us": None, "floor_us.reason": str(error).splitlines()[0], "floor_ratio": None}
        return floor_record(found) | {"floor_ratio": seconds / found.seconds}

    def _benchmark_modelled(self, fixture: Any, rung: Rung, shape: Shape, state: str) -> dict[str, Value]:
        model = self.models.model(rung, shape, state)
        self.floor_clock.take(fixture, model.floor.seconds)
        if fixture.disabled:
            return {}
        fixture.extra_info.update(model.record())
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
