"""Turns arrays and Python numbers into the typed arguments of a variant's launches, and refuses what can't be right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..build.nvrtc import Image
from ..declare.suite import Launch, Shape, Variant
from ..errors import CompileError, RefusedError
from ..hardware.dtypes import dtype_of
from .device import ArrayView, Device

SCALARS: dict[str, type[np.generic]] = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "long long": np.int64,
}
# What NVRTC declares a parameter of that C type as in PTX.
PTX_TYPES = {"float": ("f32",), "double": ("f64",), "int": ("u32", "s32", "b32"), "long long": ("u64", "s64", "b64")}
POINTER = ("u64", "b64")
MAX_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class Step:
    """One launch with everything bound: kernel handle, grid, block, arguments, dynamic shared bytes."""

    launch: Launch
    kernel: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Any, ...]
    shared: int

    def blocks_of(self, shape: Shape, rows: Sequence[int]) -> list[int]:
        """Numbers of the blocks of ``rows``: one block each, or a cluster of blocks side by side."""
        each = self.launch.cluster
        assert self.grid == (shape.M * each, 1, 1), "rows are not blocks"
        return [row * each + rank for row in rows for rank in range(each)]


@dataclass(frozen=True)
class Program:
    """A variant bound to a device, a shape and arrays. :meth:`run` queues its launches in order."""

    device: Device
    variant: Variant
    shape: Shape
    steps: tuple[Step, ...]
    images: Mapping[str, Image]
    arrays: Mapping[str, Any]

    def run(self, rows: Sequence[int] | None = None) -> None:
        """``rows``: those whose blocks shall run, on a simulated device; all by default."""
        for step in self.steps:
            if rows is None:
                self.device.launch(step.kernel, step.grid, step.block, step.args, step.shared)
            else:
                blocks = step.blocks_of(self.shape, rows)
                self.device.launch(step.kernel, step.grid, step.block, step.args, step.shared, blocks)


def typed_scalar(name: str, value: float, ctype: str) -> np.generic:
    """``value`` in the type of its parameter. A Python float is not a double, and an int may not fit.

    Errors: :class:`RefusedError` for a value that the type can't hold.
    """
    kind: Any = SCALARS[ctype]
    what = f"{name} = {value!r} is refused, nothing was launched: "
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise RefusedError(f"{what}it is a {type(value).__name__}, the parameter is {ctype}: give a number")
    if ctype in ("int", "long long"):
        info = np.iinfo(kind)
        whole = isinstance(value, int | np.integer) or (math.isfinite(value) and int(value) == value)
        if not whole or not info.min <= value <= info.max:
            raise RefusedError(f"{what}the parameter is {ctype}, a whole number from {info.min} to {info.max}")
        return cast(np.generic, kind(int(value)))
    try:
        with np.errstate(over="ignore", under="ignore"):
            typed = kind(value)
    except OverflowError:
        typed = kind(math.inf)
    if math.isinf(typed) and not (isinstance(value, float | np.floating) and math.isinf(value)):
        raise RefusedError(f"{what}it overflows {ctype}")
    if typed == 0 and value != 0:
        raise RefusedError(f"{what}it is too small for {ctype} and would be 0")
    return cast(np.generic, typed)


def check_parameters(variant: Variant, launch: Launch, image: Image) -> None:
    """Raise :class:`CompileError` unless the compiled kernel takes what the declaration says it takes."""
    scalars = {s.name: s.ctype for s in variant.operator.scalars} | {"M": "int", "N": "int"}
    want = [PTX_TYPES[scalars[name]] if name in scalars else POINTER for name in launch.args]
    got = image.parameters(launch.kernel)
    if len(got) != len(want):
        raise CompileError(
            f"{launch.kernel} takes {len(got)} parameters, declared are {len(want)}: {', '.join(launch.args)}"
        )
    for position, (name, allowed, found) in enumerate(zip(launch.args, want, got, strict=True)):
        if found not in allowed:
            declared = scalars.get(name, "a pointer")
            raise CompileError(
                f"{launch.kernel}, parameter {position}: {name} is declared as {declared} "
                f"({' or '.join(allowed)} in PTX), but the kernel was compiled with {found}"
            )


def bind(
    device: Device,
    variant: Variant,
    shape: Shape,
    arrays: Mapping[str, Any],
    images: Mapping[str, Image],
    scalars: Mapping[str, float] | None = None,
) -> Program:
    """Check everything and bind it. Nothing is launched; scratch arrays that are not given are allocated.

    ``arrays`` holds inputs and outputs by name, ``images`` the compiled sources by the declaration's path.
    Errors: :class:`RefusedError` names the variant, the array or scalar, what it is and what is allowed.
    """
    variant = variant.at(shape, device.gpu)
    known = {s.name: s for s in variant.operator.scalars}
    if stray := sorted({*arrays} - {*variant.arrays} | {*(scalars or {})} - {*known}):
        raise RefusedError(
            f"{variant.name} takes no {', '.join(stray)}; it takes {', '.join([*variant.arrays, *known])}"
        )
    values: dict[str, Any] = {"M": typed_scalar("M", shape.M, "int"), "N": typed_scalar("N", shape.N, "int")}
    for name, scalar in known.items():
        values[name] = typed_scalar(name, (scalars or {}).get(name, scalar.value), scalar.ctype)
    held = dict(arrays)
    for scratch in variant.scratch:
        if scratch.name not in held:
            held[scratch.name] = device.empty(scratch.shape(shape), scratch.dtype)
    check_arrays(device, variant, shape, held)
    values |= held
    steps = tuple(_step(device, variant, shape, launch, images, values) for launch in variant.launches)
    return Program(device, variant, shape, steps, images, held)


def _step(
    device: Device,
    variant: Variant,
    shape: Shape,
    launch: Launch,
    images: Mapping[str, Image],
    values: Mapping[str, Any],
) -> Step:
    image = images[variant.source_of(launch)]
    check_parameters(variant, launch, image)
    if image.defines != launch.defines:
        raise CompileError(f"{launch.kernel} was compiled with {image.defines}, {shape} needs {launch.defines}")
    if image.cluster(launch.kernel) != launch.cluster:
        raise CompileError(
            f"{launch.kernel} was compiled for clusters of {image.cluster(launch.kernel)} blocks, "
            f"declared is {launch.cluster}"
        )
    check_launch(device, launch, shape)
    args = tuple(values[name] for name in launch.args)
    return Step(launch, device.load(image, launch.kernel), launch.grid(shape), launch.block, args, launch.shared)


def check_launch(device: Device, launch: Launch, shape: Shape) -> None:
    """Refuse a grid or dynamic shared memory that the gpu can't have."""
    grid = launch.grid(shape)
    if not isinstance(grid, tuple) or len(grid) != len(MAX_GRID):
        raise RefusedError(f"{launch.kernel}: grid {grid!r} is refused, nothing was launched; it is a tuple of three")
    if any(not 1 <= extent <= limit for extent, limit in zip(grid, MAX_GRID, strict=True)):
        raise RefusedError(f"{launch.kernel}: grid {grid} is refused, nothing was launched; allowed is 1 to {MAX_GRID}")
    if launch.shared > device.gpu.shared_per_block_optin:
        raise RefusedError(
            f"{launch.kernel} asks for {launch.shared} bytes of dynamic shared memory a block, "
            f"{device.gpu.name} has at most {device.gpu.shared_per_block_optin}; nothing was launched"
        )


def check_arrays(device: Device, variant: Variant, shape: Shape, arrays: Mapping[str, Any]) -> None:
    """Refuse arrays of the wrong device, dtype, shape, strides or alignment, and outputs that overlap anything."""
    views: dict[str, ArrayView] = {}
    for name, declared in variant.arrays.items():
        if name not in arrays:
            raise RefusedError(f"{variant.name} needs the array {name}; given: {', '.join(arrays) or 'none'}")
        view = views[name] = device.view(arrays[name])
        what = f"{variant.name}: {name} is refused, nothing was launched: "
        if view.dtype != dtype_of(declared.dtype):
            raise RefusedError(f"{what}it is {view.dtype}, allowed is {declared.dtype}; convert it first")
        if view.shape != declared.shape(shape):
            raise RefusedError(f"{what}its shape is {view.shape}, allowed is {declared.shape(shape)} at {shape}")
        if not view.contiguous:
            raise RefusedError(
                f"{what}its strides are {view.strides} bytes for shape {view.shape}, a view of something larger; "
                "allowed is a C-contiguous array: take a copy (cupy.ascontiguousarray)"
            )
        if view.pointer % variant.alignment:
            raise RefusedError(
                f"{what}its address {view.pointer:#x} is not a multiple of {variant.alignment} bytes, "
                "which the width of the kernel's accesses needs; take a copy, allocations are aligned"
            )
    _refuse_overlap(variant, views)


def _refuse_overlap(variant: Variant, views: Mapping[str, ArrayView]) -> None:
    written = {a.name for a in (*variant.operator.outputs, *variant.scratch)}
    for name in views:
        for other in views:
            a, b = views[name], views[other]
            apart = a.pointer + a.nbytes <= b.pointer or b.pointer + b.nbytes <= a.pointer
            if name in written and other != name and not apart:
                raise RefusedError(
                    f"{variant.name}: {name} and {other} overlap in memory, nothing was launched: the kernel's pointers "
                    "are __restrict__, so the result would be undefined; give the output its own array"
                )
