"""What one pytest process holds: settings, ladder, devices, stopwatch, its benchmarks and its sanitizer checks.

Everything expensive is made on first use. Knows no pytest hooks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from . import cards, declaration
from .benchmarks import Benchmarks
from .cards import Card, key_of
from .check import Accuracy, check, images_of
from .compile import compiler
from .device import NOT_CHECKED
from .errors import (
    DeviceError,
    RooflineError,
    SanitizerNotFoundError,
    UnknownNameError,
)
from .gpu import device as cuda
from .gpu import sanitizer, telemetry
from .gpu.timer import Stopwatch
from .ladder import Ladder, Rung, Shape, lacking
from .measure import Bench
from .modelled import FloorClock, Models, label
from .record import Value
from .sanitizing import Sanitizing
from .sim.device import SimDevice
from .simulated import Simulator
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
    """See the module. ``simulated_tests`` counts tests that ran on the simulator."""

    settings: Settings
    simulated_tests: int = 0
    substituted: int = 0  # runs that the device could not do, on a simulated one that can
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
    def benchmarks(self) -> Benchmarks:
        """What pytest-benchmark times, and the records of it."""
        return Benchmarks(self)

    @cached_property
    def sanitizing(self) -> Sanitizing:
        """Checks by compute-sanitizer, by the simulator, or by both."""
        return Sanitizing(self)

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
        found = self.benchmarks.predictions()
        if self.benchmarks.not_counted:
            found.append(("roofline: counters", [self.benchmarks.not_counted]))
        if self.missing and self.simulated_tests:
            told = f"{self.simulated_tests} tests used the simulator (PTX of {self.device.arch}), none of them a GPU"
            found.append(("roofline: simulated", [told]))
        if self.substituted:
            why = f"{self.substituted} runs were simulated as an {self.newer_simulator.name}"
            found.append(("roofline: simulated for want of", [f"{why}: {self.device.name} lacks what they need"]))
        if self.warnings:
            found.append(("roofline: warnings of the simulator", list(self.warnings)))
        return found

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


def worker_number(environ: Mapping[str, str] | None = None) -> int | None:
    """Number of this pytest-xdist worker (0 for gw0), None outside of one."""
    worker = (os.environ if environ is None else environ).get("PYTEST_XDIST_WORKER", "")
    return int(worker[2:]) if worker.startswith("gw") and worker[2:].isdigit() else None


def not_checked(error: RooflineError | str) -> str:
    """The reason of a skip."""
    return f"{NOT_CHECKED}: {error}"
