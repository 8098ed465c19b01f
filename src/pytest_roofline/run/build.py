"""The third link of the chain: a plan compiled, with what its kernels take of an SM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..build.nvrtc import Image, compile_source
from ..build.ptxas import of_kernel
from ..build.source import Source
from ..declare.array import SCALARS
from ..errors import CompileError, RefusedError
from ..hardware.limits import refusal
from ..hardware.occupancy import Occupancy, occupancy
from ..hardware.resources import Resources
from .plan import Plan, PlannedLaunch

POINTER = ("u64", "b64", "s64")
EXTENT = ("u32", "s32", "b32", "u64", "s64", "b64")  # an extent goes in the type of its parameter
LITERAL = (*EXTENT, "f32", "f64", "u16", "s16", "u8", "s8", "b16", "b8")


@dataclass(frozen=True)
class BuiltLaunch:
    """A launch with its image: registers, spills and stack as compiled, and how many blocks an SM holds."""

    planned: PlannedLaunch
    image: Image
    resources: Resources
    occupancy: Occupancy
    waves: float  # blocks of the grid over blocks resident at once


@dataclass(frozen=True)
class Build:
    """A plan with compiled images, by source file. ``images`` are given where the sources are others, as in a mutant.

    Errors: :class:`CompileError` where a kernel is not there, takes other parameters than declared, or was compiled for
    other macros or clusters; :class:`RefusedError` for a launch that the GPU can't do with these registers.
    """

    plan: Plan
    images: Mapping[str, Image] = field(hash=False)
    launches: tuple[BuiltLaunch, ...] = field(init=False)

    @classmethod
    def of(cls, plan: Plan) -> Build:
        """Compile the sources of ``plan``, or take them from the cache."""
        return cls(plan, compiled(plan))

    def __post_init__(self) -> None:
        for launch in self.plan.launches:
            self._check(launch, self.images[launch.source])
        object.__setattr__(self, "launches", tuple(self._built(launch) for launch in self.plan.launches))

    def _check(self, launch: PlannedLaunch, image: Image) -> None:
        image.require(launch.kernel)
        check_parameters(self.plan, launch, image)
        if image.defines != launch.defines:
            raise CompileError(
                f"{launch.kernel} was compiled with {image.defines}, {self.plan.shape} needs {launch.defines}"
            )
        if image.cluster(launch.kernel) != launch.cluster:
            raise CompileError(
                f"{launch.kernel} was compiled for clusters of {image.cluster(launch.kernel)} blocks, "
                f"declared is {launch.cluster}"
            )

    def _built(self, launch: PlannedLaunch) -> BuiltLaunch:
        image, gpu = self.images[launch.source], self.plan.gpu
        resources = of_kernel(image, launch.kernel)
        why = refusal(
            gpu,
            launch.grid,
            launch.block,
            launch.cluster,
            registers=resources.registers,
            static_shared=resources.shared_bytes,
            dynamic_shared=launch.shared,
            max_threads=image.max_threads(launch.kernel),
        )
        fits = occupancy(resources, launch.threads, launch.shared, gpu)
        if why or not fits.blocks:
            raise RefusedError(
                f"{self.plan.case}: {launch.kernel} is refused on {gpu.name}, nothing was launched: {why or fits.why}"
            )
        return BuiltLaunch(launch, image, resources, fits, launch.blocks / (gpu.sms * fits.blocks))

    @property
    def waves(self) -> float:
        """The least waves of its launches; below 1 SMs idle."""
        return min(launch.waves for launch in self.launches)


def compiled(plan: Plan, arch: str = "", edit: Mapping[str, Source] | None = None) -> dict[str, Image]:
    """Images of the plan's sources, for its GPU or for another ``arch``; ``edit`` gives other texts for some files."""
    root, edit = plan.case.variant.root, edit or {}
    kernels: dict[str, list[str]] = {}
    for launch in plan.launches:
        kernels.setdefault(launch.source, []).append(launch.kernel)
    return {
        path: compile_source(
            edit.get(path) or Source.read(Path(root) / path),
            arch or plan.gpu.arch,
            defines=defines,
            names=tuple(dict.fromkeys(kernels[path])),
        )
        for path, defines in plan.sources().items()
    }


def check_parameters(plan: Plan, launch: PlannedLaunch, image: Image) -> None:
    """Raise :class:`CompileError` unless the compiled kernel takes what the declaration says it takes."""
    got = image.parameters(launch.kernel)
    if len(got) != len(launch.args):
        raise CompileError(
            f"{launch.kernel} takes {len(got)} parameters, declared are {len(launch.args)}: "
            f"{', '.join(map(str, launch.args))}"
        )
    ctypes = {scalar.name: scalar.ctype for scalar in plan.case.variant.operator.scalars}
    for position, (name, found) in enumerate(zip(launch.args, got, strict=True)):
        if name in ctypes:
            declared, allowed = ctypes[str(name)], SCALARS[ctypes[str(name)]][1]
        elif name in plan.shape.extents:
            declared, allowed = "an extent", EXTENT
        elif name is None or isinstance(name, str):
            declared, allowed = "a pointer", POINTER
        else:
            declared, allowed = "a number", LITERAL
        if found not in allowed:
            raise CompileError(
                f"{launch.kernel}, parameter {position}: {name} is declared as {declared} "
                f"({' or '.join(allowed)} in PTX), but the kernel was compiled with {found}"
            )
