"""The same checks without pytest, for a script or a notebook.

    suite = pytest_roofline.load("kernels/suite.py")
    print(pytest_roofline.check("n3", Shape(M=8, N=1000), suite=suite))

A variant is given as it is declared, or by its name and with the suite. Each call makes the device that it needs and
gives its memory back. Errors of all of them: :class:`UnknownNameError` for a name that does not exist, and those of the
chain: :class:`RefusedError`, :class:`DeclarationError`, :class:`CompileError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from .bench.clock import require_state
from .bench.measured import Measured
from .bench.modelled import Modelled, label
from .bench.record import Record
from .declare.shape import Shape
from .declare.suite import Suite
from .declare.variant import Variant
from .devices import AUTO, CHOICES, CUDA, DEFAULT_GPU, Devices
from .errors import UnknownNameError
from .hardware.gpus import gpu_named
from .hardware.occupancy import Occupancy
from .hardware.resources import Resources
from .model.models import Models
from .model.sol import SpeedOfLight
from .run.build import Build
from .run.case import Case
from .run.compare import Accuracy
from .run.plan import Plan
from .run.run import check as check_build
from .sanitize.checks import Checks
from .sanitize.compute_sanitizer import Sanitizer, find
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
    """What a case does, counted in the simulator, and its speed of light on a GPU model.

    ``sol.launches`` has the counts of each launch; ``accuracy`` says how far the answer was checked meanwhile.
    """

    case: str
    sol: SpeedOfLight
    accuracy: Accuracy

    def __str__(self) -> str:
        moved, gpu = self.sol.dram, self.sol.facts.plan.gpu
        dram = f"{moved.read} bytes read from DRAM and {moved.written} written" if moved else "DRAM not modelled"
        return (
            f"{self.case}: {1e6 * self.sol.seconds:.2f} us, {label(gpu)}, bound by {self.sol.bound}, "
            f"{self.sol.state} L2; {dram}"
        )


@dataclass(frozen=True)
class Resident:
    """What a launch takes of an SM, and how many of its blocks fit there at once."""

    kernel: str
    resources: Resources
    occupancy: Occupancy
    waves: float

    def __str__(self) -> str:
        fits = self.occupancy
        return (
            f"{self.kernel}: {self.resources.registers} registers, {fits.blocks} blocks an SM "
            f"({fits.fraction:.0%} occupancy, limited by {fits.limited_by}), {self.waves:.3g} waves"
        )


def check(
    variant: Variant | str,
    shape: Shape,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    suite: Suite | None = None,
    device: str = AUTO,
    gpu: str = DEFAULT_GPU,
) -> Checked:
    """Run ``variant`` once at ``shape`` and compare with its float64 reference.

    ``inputs`` are host arrays by name, by default drawn as declared. ``device`` is "auto" (a GPU if there is one, else
    the simulator), "cuda" or "sim"; ``gpu`` is what the simulator has the limits of.
    Errors: :class:`WrongAnswerError`, :class:`DeviceError`, and :class:`~pytest_roofline.sim.errors.SimulationError`
    for races and bad accesses.
    """
    with _devices(device, gpu) as devices:
        plan, used = devices.plan(_case(variant, shape, suite))
        return Checked(str(plan.case), used.evidence, used.name, check_build(used, Build.of(plan), inputs))


def sanitize(
    variant: Variant | str,
    shape: Shape,
    which: str = "racecheck",
    *,
    suite: Suite | None = None,
    device: str = AUTO,
    gpu: str = DEFAULT_GPU,
) -> Report:
    """Look for races ("racecheck"), bad accesses ("memcheck"), uninitialised reads ("initcheck") or bad barriers
    ("synccheck"): in the simulator, and on a GPU machine under compute-sanitizer too, which needs ``suite`` since its
    child loads the suite's file.

    Errors: :class:`SanitizerNotFoundError`, :class:`NotCheckedError`,
    :class:`~pytest_roofline.sanitize.simulated.DisagreementError`.
    """
    with _devices(device, gpu) as devices:

        def tool() -> Sanitizer:
            return Sanitizer(find(None, os.environ), devices.cuda.arch, devices.cuda.index)

        return Checks(devices, tool).check(_case(variant, shape, suite), which)


def traffic(
    variant: Variant | str,
    shape: Shape,
    *,
    suite: Suite | None = None,
    gpu: str = DEFAULT_GPU,
    state: str = "cold",
) -> Traffic:
    """Count what ``variant`` does at ``shape`` and model its speed of light on a GPU of the table, from a "cold" or a
    "warm" L2 cache; needs no GPU.
    """
    case = _case(variant, shape, suite)
    return Traffic(str(case), *Models(gpu_named(gpu)).sol(case, require_state(state)))


def time(
    variant: Variant | str, shape: Shape, *, suite: Suite | None = None, state: str = "cold", samples: int = 31
) -> Record:
    """Check ``variant`` and time it on the GPU: ``samples`` by CUDA events from a "cold" or a "warm" L2 cache.

    Errors: :class:`DeviceError` where there is no GPU, :class:`WrongAnswerError`.
    """
    case = _case(variant, shape, suite)
    with _devices(CUDA, DEFAULT_GPU) as devices:
        alone = suite or Suite((case.variant,))
        record, _ = Measured(alone, devices.cuda, Models(devices.gpu)).time(case, require_state(state), samples)
        return record


def modelled(
    variant: Variant | str,
    shape: Shape,
    *,
    suite: Suite | None = None,
    gpu: str = DEFAULT_GPU,
    state: str = "cold",
) -> Record:
    """The record of a benchmark whose time is the speed of light on a GPU of the table; needs none."""
    return Modelled(Models(gpu_named(gpu))).record(_case(variant, shape, suite), state)


def occupancy(
    variant: Variant | str, shape: Shape, *, suite: Suite | None = None, gpu: str = DEFAULT_GPU
) -> tuple[Resident, ...]:
    """Of each launch, what it takes of an SM of a GPU of the table, how many blocks fit, and what stops one more."""
    build = Build.of(Plan(_case(variant, shape, suite), gpu_named(gpu)))
    return tuple(Resident(one.planned.kernel, one.resources, one.occupancy, one.waves) for one in build.launches)


@contextmanager
def _devices(wanted: str, gpu: str) -> Iterator[Devices]:
    if wanted not in CHOICES:
        raise UnknownNameError(f"there is no device {wanted!r}; there are {', '.join(CHOICES)}")
    gpu_named(gpu)  # or it does not exist
    devices = Devices(wanted, gpu)
    if wanted == CUDA:
        devices.require("device='cuda'")
    try:
        yield devices
    finally:
        devices.release()


def _case(variant: Variant | str, shape: Shape, suite: Suite | None) -> Case:
    if isinstance(variant, Variant):
        return Case(variant, shape, suite)
    if suite is None:
        raise UnknownNameError(f"the variant {variant!r} is given by its name: give the suite too (suite=load(PATH))")
    return Case(suite.variant(variant), shape, suite)
