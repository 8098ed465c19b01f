"""The same checks without pytest, for a script or a notebook.

    suite = pytest_roofline.load("kernels/suite.py")
    print(pytest_roofline.check(suite.variant("n3"), Shape(M=8, N=1000)))

A variant comes from a loaded suite. Each call makes what it needs and gives its memory back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .bench.measured import Measured, Precision
from .bench.modelled import Modelled
from .bench.record import Record
from .declare.shape import Shape
from .declare.suite import Suite
from .declare.variant import Variant
from .devices import AUTO, DEFAULT_GPU, Devices
from .hardware.gpus import gpu_named
from .hardware.occupancy import Occupancy
from .model.models import Models
from .model.sol import SpeedOfLight
from .run.build import Build
from .run.case import Case
from .run.compare import Accuracy
from .run.plan import Plan
from .run.run import check as check_build
from .sanitize.checks import Checks
from .sanitize.compute_sanitizer import FLAGS, Sanitizer, find
from .sanitize.report import Report


@dataclass(frozen=True)
class Checked:
    """A right answer: where it was had, how large the errors are."""

    case: str
    evidence: str  # "measured" or "simulated"
    gpu: str
    accuracy: Accuracy

    def __str__(self) -> str:
        found = self.accuracy
        if not found.values:
            return f"{self.case}: not checked: {found.not_checked}"
        return (
            f"{self.case}: right, {self.evidence} on {self.gpu}: {found.values} values, largest error "
            f"{found.absolute:.2g}, {found.of_tolerance:.2g} of the tolerance"
        )


@dataclass(frozen=True)
class Traffic:
    """What a case does, counted in the simulator, and its speed of light on a GPU model."""

    case: str
    sol: SpeedOfLight
    accuracy: Accuracy

    def __str__(self) -> str:
        gpu = self.sol.facts.plan.gpu.name
        return f"{self.case}: {1e6 * self.sol.seconds:.2f} us at the speed of light on {gpu}, bound by {self.sol.bound}"


def check(
    variant: Variant,
    shape: Shape,
    inputs: Mapping[str, np.ndarray] | None = None,
    device: str = AUTO,
    gpu: str = DEFAULT_GPU,
) -> Checked:
    """Run ``variant`` once at ``shape`` and compare with its float64 reference.

    ``inputs`` are host arrays by name, by default drawn as declared. ``device`` is "auto" (a GPU if there is one, else
    the simulator), "cuda" or "sim"; ``gpu`` is what the simulator has the limits of.
    Errors: :class:`WrongAnswerError`, :class:`RefusedError`, :class:`CompileError`, :class:`DeviceError`, and
    :class:`~pytest_roofline.sim.errors.SimulationError` for races and bad accesses.
    """
    devices = _devices(device, gpu)
    plan, used = devices.plan(Case(variant, shape))
    accuracy = check_build(used, Build.of(plan), inputs)
    devices.release()
    return Checked(str(plan.case), used.evidence, used.name, accuracy)


def sanitize(
    suite: Suite, variant: Variant | str, shape: Shape, which: str = "racecheck", device: str = AUTO
) -> Report:
    """Look for races ("racecheck"), bad accesses ("memcheck"), uninitialised reads ("initcheck") or bad barriers
    ("synccheck"): in the simulator, and on a GPU machine under compute-sanitizer too, which loads the suite's file.

    Errors: :class:`UnknownNameError`, :class:`SanitizerNotFoundError`,
    :class:`~pytest_roofline.sanitize.simulated.DisagreementError`.
    """
    devices = _devices(device, DEFAULT_GPU)

    def tool() -> Sanitizer:
        return Sanitizer(find(None, os.environ), devices.cuda.arch, devices.cuda.index)

    return Checks(devices, tool).check(_case(suite, variant, shape), which)


def traffic(variant: Variant, shape: Shape, gpu: str = DEFAULT_GPU, state: str = "cold") -> Traffic:
    """Count what ``variant`` does at ``shape`` and model its speed of light on a GPU of the table; needs none."""
    case = Case(variant, shape)
    return Traffic(str(case), *Models(gpu_named(gpu)).sol(case, state))


def time(suite: Suite, variant: Variant | str, shape: Shape, state: str = "cold", samples: int = 31) -> Record:
    """Check and time ``variant`` on the GPU: ``samples`` by CUDA events from a "cold" or a "warm" L2 cache.

    Errors: :class:`DeviceError` where there is no GPU, :class:`WrongAnswerError`.
    """
    devices = _devices("cuda", DEFAULT_GPU)
    clock = Measured(suite, devices.cuda, Models(devices.gpu), Precision())
    run, accuracy = clock.checked(_case(suite, variant, shape))
    return clock.measure(run, accuracy, state, lambda series: clock.samples(series, state, samples))


def modelled(suite: Suite, variant: Variant | str, shape: Shape, gpu: str = DEFAULT_GPU, state: str = "cold") -> Record:
    """The record of a benchmark whose time is the speed of light on a GPU of the table; needs none."""
    return Modelled(Models(gpu_named(gpu))).record(_case(suite, variant, shape), state)


def occupancy(variant: Variant, shape: Shape, gpu: str = DEFAULT_GPU) -> dict[str, Occupancy]:
    """By kernel, how many blocks an SM of a GPU of the table holds at once, and what stops one more."""
    build = Build.of(Plan(Case(variant, shape), gpu_named(gpu)))
    return {launch.planned.kernel: launch.occupancy for launch in build.launches}


def _devices(device: str, gpu: str) -> Devices:
    devices = Devices(device, gpu)
    devices.require(*(["device='cuda'"] if device == "cuda" else []))
    return devices


def _case(suite: Suite, variant: Variant | str, shape: Shape) -> Case:
    return Case(suite.variant(variant) if isinstance(variant, str) else variant, shape, suite)


TOOLS = tuple(FLAGS)
