"""The second link of the chain: a case on a GPU model, with every launch fixed. Needs no compiler and no device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..declare.array import Array
from ..declare.launch import Argument, Launch, dims
from ..declare.shape import Shape, at
from ..declare.variant import Variant
from ..errors import DeclarationError, NotCheckedError, RefusedError, RooflineError
from ..hardware.gpus import Gpu
from ..hardware.limits import refusal
from .case import Case

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class PlannedLaunch:
    """A launch with its numbers: grid and block in x, y, z, dynamic shared memory in bytes, blocks of a cluster."""

    kernel: str
    source: str
    args: tuple[Argument, ...]
    grid: Dim3
    block: Dim3
    shared: int
    cluster: int
    defines: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    vector: Mapping[str, int] = field(hash=False)
    unrolled: int | None

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return math.prod(self.block)

    @property
    def units(self) -> int:
        """Blocks, or clusters of them, that run apart from each other."""
        return self.blocks // self.cluster


@dataclass(frozen=True)
class PlannedArray:
    """An array with its numbers."""

    declared: Array
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    alignment: int

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize


class LackingError(NotCheckedError, RefusedError):
    """The GPU lacks what a variant needs at a shape, such as clusters: refused there, and elsewhere it may run."""


@dataclass(frozen=True)
class Plan:
    """A case on a GPU.

    Errors: :class:`LackingError` for what the GPU lacks, :class:`RefusedError` for a grid or block that no GPU takes,
    :class:`DeclarationError` where the declaration makes no launch at this shape.
    """

    case: Case
    gpu: Gpu
    launches: tuple[PlannedLaunch, ...] = field(init=False)

    def __post_init__(self) -> None:
        variant = self.case.variant
        if self.gpu.capability < variant.capability:
            self._lacks(f"instructions of sm_{variant.capability} and newer")
        launches = tuple(self._planned(one) for one in variant.configured(self.case.shape, self.gpu))
        object.__setattr__(self, "launches", launches)
        for launch in launches:
            self._check(launch)
        for source in {launch.source for launch in launches}:
            if len({launch.defines for launch in launches if launch.source == source}) > 1:
                raise DeclarationError(
                    f"variant {variant.name!r}: {source} is compiled once, and its launches have different macros"
                )

    def _planned(self, launch: Launch) -> PlannedLaunch:
        variant, shape = self.case.variant, self.case.shape
        what = f"{variant.name}, {launch.kernel}"
        reads, writes = variant.reads(launch), variant.writes(launch)
        vector = launch.vector
        if not isinstance(vector, Mapping):
            vector = {} if vector is None else dict.fromkeys((*reads, *writes), vector)
        return PlannedLaunch(
            kernel=launch.kernel,
            source=variant.source_of(launch),
            args=launch.args,
            grid=_dim3(f"{what}: grid", launch.grid, shape),
            block=_dim3(f"{what}: block", launch.block, shape),
            shared=_whole(f"{what}: shared", launch.shared, shape, 0),
            cluster=_whole(f"{what}: cluster", launch.cluster, shape, 1),
            defines=launch.defines,
            reads=reads,
            writes=writes,
            vector=vector,
            unrolled=launch.unrolled,
        )

    def _check(self, launch: PlannedLaunch) -> None:
        if launch.cluster > 1 and not self.gpu.has_clusters:
            self._lacks(f"thread-block clusters of {launch.cluster}, which sm_90 and newer have")
        if launch.shared > self.gpu.shared_per_block_optin:
            self._lacks(
                f"{launch.shared} bytes of dynamic shared memory a block, of at most {self.gpu.shared_per_block_optin}"
            )
        if why := refusal(self.gpu, launch.grid, launch.block, launch.cluster, dynamic_shared=launch.shared):
            raise RefusedError(f"{self.case}: {launch.kernel} is refused, nothing was launched: {why}")

    def _lacks(self, what: str) -> None:
        raise LackingError(
            f"{self.case.variant.name} can't run {self.case.shape} on {self.gpu.name} ({self.gpu.arch}), nothing was "
            f"launched: it needs {what}{self.case.others(self._runs)}"
        )

    def _runs(self, variant: Variant) -> bool:
        """Whether another variant can be planned for this shape and GPU."""
        return planned(variant, self.case.shape, self.gpu) is not None

    @property
    def shape(self) -> Shape:
        return self.case.shape

    @cached_property
    def arrays(self) -> dict[str, PlannedArray]:
        """All arrays by name, the operator's first, then the variant's scratch."""
        return {name: self._array(array) for name, array in self.case.variant.arrays.items()}

    def _array(self, array: Array) -> PlannedArray:
        dtype = array.dtype_at(self.shape)
        alignment = max(dtype.itemsize, self.case.variant.alignment)
        return PlannedArray(array, array.shape(self.shape), dtype, alignment)

    @property
    def bytes_moved(self) -> int:
        """Bytes that must cross DRAM if no cache serves anything: what the launches read and write."""
        arrays = self.arrays
        return sum(arrays[name].nbytes for launch in self.launches for name in (*launch.reads, *launch.writes))

    @property
    def footprint(self) -> int:
        """Bytes of all distinct arrays among those moved."""
        names = {name for launch in self.launches for name in (*launch.reads, *launch.writes)}
        return sum(self.arrays[name].nbytes for name in names)

    @property
    def elements(self) -> int:
        """Elements of the largest output: what bytes are given as multiples of."""
        return max(array.size for array in self.arrays.values() if array.declared.written)

    @property
    def largest(self) -> int:
        """Elements of the largest array."""
        return max(array.size for array in self.arrays.values())

    def moved_words(self) -> str:
        """What is moved, as a sum in words: "rms_n2 reads x, x, writes y"."""
        return "; ".join(
            f"{launch.kernel} "
            + ", ".join([f"reads {name}" for name in launch.reads] + [f"writes {name}" for name in launch.writes])
            for launch in self.launches
        )

    def sources(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """The macros of each source file."""
        return {launch.source: launch.defines for launch in self.launches}


def planned(variant: Variant, shape: Shape, gpu: Gpu) -> Plan | None:
    """The plan of a variant at a shape; None where its limits or the GPU do not allow it, or it makes no launch."""
    try:
        return Plan(Case(variant, shape), gpu)
    except RooflineError:
        return None


def _dim3(what: str, value: Any, shape: Shape) -> Dim3:
    given = at(what, value, shape)
    found = dims(given)
    if found is None:
        raise DeclarationError(f"{what} is {given!r} at {shape!r}; it is one to three whole numbers of at least 1")
    return found


def _whole(what: str, value: Any, shape: Shape, least: int) -> int:
    given = at(what, value, shape)
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise DeclarationError(f"{what} is {given!r} at {shape!r}; it is a whole number of at least {least}")
    return given
