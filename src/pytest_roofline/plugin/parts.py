"""What one pytest process holds: settings and the parts made of them, each on first use. None of them is given this."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..bench import telemetry
from ..bench.clock import Clock
from ..bench.measured import Measured, Precision
from ..bench.modelled import Modelled
from ..declare import load
from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Variant
from ..devices import AUTO, DEFAULT_GPU, Devices
from ..errors import UnknownNameError
from ..model.models import Models
from ..run.build import Build
from ..run.case import Case
from ..sanitize.checks import Checks
from ..sanitize.compute_sanitizer import Sanitizer, find


@dataclass(frozen=True)
class Settings:
    """Options of a run."""

    suite: Path | None = None
    device: str = AUTO
    gpu: str = DEFAULT_GPU
    require_gpu: bool = False
    state: str = "cold"
    precision: Precision = field(default_factory=Precision)
    sanitizer: str | None = None
    worker: int = 0


class Parts:
    """See the module."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.devices = Devices(settings.device, settings.gpu, settings.worker)
        self.simulated_tests = 0

    @property
    def declared(self) -> bool:
        """Whether this project has a suite. In others the plugin leaves everything alone."""
        return self.settings.suite is not None

    @cached_property
    def suite(self) -> Suite:
        """The declaration; :class:`~pytest_roofline.errors.DeclarationError` if there is none or it is wrong."""
        if self.settings.suite is None:
            raise UnknownNameError(
                "no suite is declared: set roofline_suite in the pytest configuration to the path of a declaration, "
                "for example roofline_suite = kernels/suite.py (outside pytest, --suite names one too)"
            )
        return load(self.settings.suite)

    @cached_property
    def models(self) -> Models:
        """Speeds of light on the GPU that is there, or on the one that is named."""
        return Models(self.devices.gpu)

    @cached_property
    def clock(self) -> Clock:
        """How benchmarks get their numbers: measured where there is a GPU, else modelled."""
        if self.devices.missing:
            return Modelled(self.models)
        return Measured(self.suite, self.devices.cuda, self.models, self.settings.precision)

    @cached_property
    def sanitizer(self) -> Sanitizer:
        """compute-sanitizer; :class:`~pytest_roofline.errors.SanitizerNotFoundError` where there is none."""
        tool = find(self.settings.sanitizer, os.environ)
        return Sanitizer(tool, self.devices.cuda.arch, self.devices.cuda.index)

    @cached_property
    def checks(self) -> Checks:
        """Checks by compute-sanitizer, by the simulator, or by both."""
        return Checks(self.devices, lambda: self.sanitizer)

    @cached_property
    def telemetry(self) -> telemetry.Telemetry:
        """Read once: the driver's version and the power limit. Clocks are read again after each benchmark."""
        return telemetry.read(self.devices.cuda)

    def case(self, variant: Case | Variant | str, shape: Shape | None = None) -> Case:
        """A case as given, or of a variant (or the name of one) at a shape."""
        if isinstance(variant, Case):
            return variant
        found = self.suite.variant(variant) if isinstance(variant, str) else variant
        return Case(found, shape or self.suite.default(found.operator), self.suite)

    def kernel(self, name: str, shape: Shape | None = None) -> Any:
        """The kernel ``name`` of a declared launch: on a GPU a CuPy RawKernel, else one that is called alike.

        One that is compiled for its shape needs ``shape``.
        """
        launches = [(variant, one) for variant in self.suite for one in variant.launches]
        named = [(variant, one) for variant, one in launches if one.kernel == name]
        if any(one.configure is not None for _, one in named) and shape is None:
            raise UnknownNameError(f"kernel {name!r} is compiled for its shape: kernels({name!r}, Shape(...))")
        # The first variant that launches it: later ones use it as it is.
        sources = {variant.source_of(one): variant for variant, one in reversed(named)}
        if not sources:
            names = dict.fromkeys(one.kernel for _, one in launches)
            raise UnknownNameError(f"there is no kernel {name!r}; declared are {', '.join(names)}")
        if len(sources) > 1:
            raise UnknownNameError(f"kernel {name!r} is in {' and '.join(sources)}: give them different names")
        (source, variant), *_ = sources.items()
        plan, device = self.devices.plan(self.case(variant, shape))
        return device.load(Build.of(plan).images[source], name)


def worker_number(environ: Mapping[str, str] | None = None) -> int | None:
    """Number of this pytest-xdist worker (0 for gw0), None outside of one."""
    worker = (os.environ if environ is None else environ).get("PYTEST_XDIST_WORKER", "")
    return int(worker[2:]) if worker.startswith("gw") and worker[2:].isdigit() else None
