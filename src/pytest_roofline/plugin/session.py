"""What one pytest process holds: settings, suite, devices, stopwatch, its benchmarks and its sanitizer checks.

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

from ..bench import telemetry
from ..bench.events import Stopwatch
from ..bench.measure import Bench
from ..bench.modelled import FloorClock, Models, label
from ..bench.record import Value
from ..bench.timer import Stamp
from ..build.nvrtc import compiler
from ..declare import loading as declaration
from ..declare.suite import Shape, Suite, Variant, lacking
from ..errors import (
    DeviceError,
    RooflineError,
    SanitizerNotFoundError,
    UnknownNameError,
)
from ..hardware import gpus as gpus
from ..hardware.gpus import Gpu, key_of
from ..run.check import Accuracy, check, images_of
from ..run.device import NOT_CHECKED
from ..run.gpu import device as driver
from ..sanitize import compute_sanitizer as sanitizer
from ..sanitize.checks import Sanitizing
from ..sanitize.simulated import Simulator
from ..sim.device import SimDevice
from .benchmarks import Benchmarks

MIN_ROUNDS = 31


@dataclass(frozen=True)
class Settings:
    """Options of a run. ``precision`` is a fraction of the median, ``budget`` wall-clock seconds a benchmark."""

    suite: Path | None = None
    device: str = "auto"
    gpu: str = "rtx4090"
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
    def suite(self) -> Suite:
        """The declaration; :class:`~pytest_roofline.errors.DeclarationError` if there is none or it is wrong."""
        if self.settings.suite is None:
            raise UnknownNameError(
                "no suite is declared: set roofline_suite in the pytest configuration to the path of a declaration, "
                "for example roofline_suite = kernels/suite.py (outside pytest, --suite names one too)"
            )
        return declaration.load(self.settings.suite)

    @cached_property
    def _gpu(self) -> driver.CudaDevice | str:
        if self.settings.device == "sim":
            return "--roofline-device sim asks for the simulator"
        try:
            return driver.CudaDevice(self.settings.worker % driver.count())
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
    def cuda(self) -> driver.CudaDevice:
        """The GPU; :class:`DeviceError` says why there is none."""
        if isinstance(self._gpu, str):
            raise DeviceError(self._gpu)
        return self._gpu

    @cached_property
    def simulator(self) -> SimDevice:
        """The simulated device, with the limits of the gpu that --roofline-gpu names."""
        return SimDevice(self.settings.gpu)

    @property
    def device(self) -> driver.CudaDevice | SimDevice:
        """What kernels are checked on: the GPU if there is one, else the simulator."""
        return self.simulator if isinstance(self._gpu, str) else self._gpu

    def device_for(self, variant: Variant, shape: Shape) -> driver.CudaDevice | SimDevice:
        """The device; a simulated H200 where that lacks what ``variant`` needs at ``shape``, such as clusters."""
        if not lacking(variant, shape, self.device.gpu):
            return self.device
        self.substituted += 1
        return self.newer_simulator

    @cached_property
    def newer_simulator(self) -> SimDevice:
        """A simulated H200, for variants that the GPU, or the gpu of --roofline-gpu, can't run."""
        return SimDevice("h200")

    @cached_property
    def simulated(self) -> Simulator:
        """The simulator as a sanitizer, with the limits of the GPU if there is one."""
        gpu = self.settings.gpu if self.missing else key_of(self.cuda.gpu.name, self.settings.gpu)
        return Simulator(lambda: SimDevice(gpu), self.suite)

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
        return Bench(self.suite, self.cuda)

    @property
    def stopwatch(self) -> Stopwatch:
        return self.bench.stopwatch

    @cached_property
    def gpu(self) -> Gpu:
        """The gpu that floors are modelled for: the GPU's, or the one that --roofline-gpu names."""
        return gpus.gpu(self.settings.gpu) if self.missing else self.cuda.gpu

    @cached_property
    def models(self) -> Models:
        return Models(self.suite, self.gpu)

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
        return telemetry.read(self.cuda)

    def machine(self) -> dict[str, Value]:
        """What is written into a saved run's machine_info["roofline"]."""
        if self.missing:
            return {
                "gpu": self.gpu.name,
                "evidence": self.device.evidence,
                "note": label(self.gpu),
                "arch": self.gpu.arch,
                "sms": self.gpu.sms,
                "peak_gbs": self.gpu.peak_gbs,
                "l2_bytes": self.gpu.l2_bytes,
                "compiler": compiler(),
            }
        gpu = self.cuda.gpu
        return {
            "gpu": gpu.name,
            "evidence": self.cuda.evidence,
            "arch": gpu.arch,
            "sms": gpu.sms,
            "peak_gbs": gpu.peak_gbs,
            "l2_bytes": gpu.l2_bytes,
            "driver": self.telemetry.driver,
            "power_limit_w": self.telemetry.power_limit_w,
            "compiler": compiler(),
            **self.cuda.versions,
        }

    def header(self) -> str:
        """One line: device, gpu, peak and its source, versions; or that it is simulated, and why."""
        if self.missing:
            return (
                f"roofline: {self.device.evidence} (PTX of {self.device.arch}) with the limits of {self.device.name}; "
                f"no GPU ({self.missing}), so times are {NOT_CHECKED}; perf tests show the {label(self.gpu)}"
            )
        gpu, versions = self.cuda.gpu, self.cuda.versions
        return (
            f"roofline: {self.cuda.evidence} on {gpu.name} ({gpu.arch}, {gpu.sms} SMs), peak {gpu.peak_gbs:.0f} "
            f"GB/s from {gpu.source}, driver {self.telemetry.driver or 'unknown'} (CUDA {versions['driver_cuda']}), "
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
        launches = [(variant, one) for variant in self.suite.variants for one in variant.launches]
        tuned = any(one.tune is not None for _, one in launches if one.kernel == name)
        if tuned and shape is None:
            raise UnknownNameError(f"kernel {name!r} is compiled for its shape: kernels({name!r}, Shape(M, N))")
        # The first variant that launches it: later ones use it as it is.
        sources = {variant.source_of(one): variant for variant, one in reversed(launches) if one.kernel == name}
        if not sources:
            names = dict.fromkeys(one.kernel for _, one in launches)
            raise UnknownNameError(f"there is no kernel {name!r}; declared are {', '.join(names)}")
        if len(sources) > 1:
            raise UnknownNameError(f"kernel {name!r} is in {' and '.join(sources)}: give them different names")
        (source, variant), *_ = sources.items()
        device = self.device_for(variant, shape or variant.operator.default_shape)
        fixed = variant.at(shape or variant.operator.default_shape, device.gpu)
        return device.load(images_of(self.suite, fixed, device.arch)[source], name)

    def check(self, variant: Variant, shape: Shape, inputs: Mapping[str, np.ndarray] | None = None) -> Accuracy:
        """Run ``variant`` once on the device and compare with the reference."""
        return check(self.device_for(variant, shape), self.suite, variant, shape, inputs)

    @cached_property
    def sanitizer(self) -> sanitizer.Sanitizer:
        """compute-sanitizer; :class:`~pytest_roofline.errors.SanitizerNotFoundError` where there is none."""
        tool = sanitizer.find(self.settings.sanitizer, os.environ)
        return sanitizer.Sanitizer(tool, self.cuda.arch, self.cuda.index)


def worker_number(environ: Mapping[str, str] | None = None) -> int | None:
    """Number of this pytest-xdist worker (0 for gw0), None outside of one."""
    worker = (os.environ if environ is None else environ).get("PYTEST_XDIST_WORKER", "")
    return int(worker[2:]) if worker.startswith("gw") and worker[2:].isdigit() else None


def not_checked(error: RooflineError | str) -> str:
    """The reason of a skip."""
    return f"{NOT_CHECKED}: {error}"
