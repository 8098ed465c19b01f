"""Turns arrays and Python numbers into the typed arguments of a build's launches, and refuses what can't be right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..declare.array import SCALARS
from ..declare.values import scalars_at
from ..errors import RefusedError
from ..hardware.dtypes import dtype_of
from .build import Build, BuiltLaunch
from .device import ArrayView, Device
from .plan import PlannedLaunch

# The C type of a number or an extent, by the PTX type of its parameter.
CTYPES = {
    **dict.fromkeys(("u32", "s32", "b32"), "int"),
    **dict.fromkeys(("u64", "s64", "b64"), "long long"),
    **dict.fromkeys(("u16", "s16", "b16"), "short"),
    **dict.fromkeys(("u8", "s8", "b8"), "char"),
    "f32": "float",
    "f64": "double",
}


@dataclass(frozen=True)
class Step:
    """One launch with everything bound: kernel handle, grid, block, arguments, dynamic shared bytes."""

    planned: PlannedLaunch
    kernel: Any
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """A build bound to a device and to arrays. :meth:`run` queues its launches in order."""

    device: Device
    build: Build
    steps: tuple[Step, ...]
    arrays: Mapping[str, Any]

    def run(self) -> None:
        """Queue all launches."""
        for step in self.steps:
            self.launch(step)

    def launch(self, step: Step, blocks: Sequence[int] | None = None) -> None:
        """Queue one launch; on a simulated device, only the ``blocks`` of these numbers where they are given."""
        planned = step.planned
        self.device.launch(step.kernel, planned.grid, planned.block, step.args, planned.shared, blocks)


def typed_scalar(name: str, value: float, ctype: str) -> np.generic:
    """``value`` in the type of its parameter. A Python float is not a double, and an int may not fit.

    Errors: :class:`RefusedError` for a value that the type can't hold.
    """
    dtype = dtype_of(SCALARS[ctype][0])
    kind: Any = dtype.type
    what = f"{name} = {value!r} is refused, nothing was launched: "
    if not isinstance(value, int | float | np.number | np.bool_) or (isinstance(value, bool) and ctype != "bool"):
        raise RefusedError(f"{what}it is a {type(value).__name__}, the parameter is {ctype}: give a number")
    if dtype.kind in "iub":
        info = np.iinfo(np.uint8 if dtype.kind == "b" else kind)
        most = 1 if dtype.kind == "b" else info.max
        whole = isinstance(value, int | np.integer | np.bool_) or (math.isfinite(value) and int(value) == value)
        if not whole or not info.min <= value <= most:
            raise RefusedError(f"{what}the parameter is {ctype}, a whole number from {info.min} to {most}")
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


def bind(
    device: Device, build: Build, arrays: Mapping[str, Any], scalars: Mapping[str, float] | None = None
) -> Program:
    """Check everything and bind it. Nothing is launched; scratch arrays that are not given are allocated.

    ``arrays`` holds the operator's arrays by name.
    Errors: :class:`RefusedError` names the variant, the array or scalar, what it is and what is allowed.
    """
    plan = build.plan
    variant = plan.case.variant
    known = [scalar.name for scalar in variant.operator.scalars]
    if stray := sorted({*arrays} - {*plan.arrays} | {*(scalars or {})} - {*known}):
        raise RefusedError(f"{variant.name} takes no {', '.join(stray)}; it takes {', '.join([*plan.arrays, *known])}")
    held = dict(arrays)
    for scratch in variant.scratch:
        if scratch.name not in held:
            planned = plan.arrays[scratch.name]
            held[scratch.name] = device.empty(planned.shape, planned.dtype.name)
    check_arrays(device, build, held)
    ctypes = {scalar.name: scalar.ctype for scalar in variant.operator.scalars}
    values = {
        name: typed_scalar(name, value, ctypes[name])
        for name, value in scalars_at(variant.operator, plan.shape, scalars).items()
    }
    steps = tuple(_step(device, build, launch, {**held, **values}) for launch in build.launches)
    return Program(device, build, steps, held)


def _step(device: Device, build: Build, launch: BuiltLaunch, values: Mapping[str, Any]) -> Step:
    planned, args = launch.planned, []
    types = launch.image.parameters(planned.kernel)
    for name, found in zip(planned.args, types, strict=True):
        if name is None or name in values:
            args.append(None if name is None else values[str(name)])
        else:  # an extent or a number goes in the type of its parameter
            value = build.plan.shape[name] if isinstance(name, str) else name
            args.append(typed_scalar(f"{planned.kernel}: {name}", value, CTYPES[found]))
    return Step(planned, device.load(launch.image, planned.kernel), tuple(args))


def check_arrays(device: Device, build: Build, arrays: Mapping[str, Any]) -> None:
    """Refuse arrays of the wrong device, dtype, shape, strides or alignment, and outputs that overlap anything."""
    views: dict[str, ArrayView] = {}
    plan = build.plan
    variant = plan.case.variant
    for name, planned in plan.arrays.items():
        if name not in arrays:
            raise RefusedError(f"{variant.name} needs the array {name}; given: {', '.join(arrays) or 'none'}")
        view = views[name] = device.view(arrays[name])
        what = f"{variant.name}: {name} is refused, nothing was launched: "
        if view.dtype != planned.dtype:
            raise RefusedError(f"{what}it is {view.dtype}, allowed is {planned.dtype}; convert it first")
        if view.shape != planned.shape:
            raise RefusedError(f"{what}its shape is {view.shape}, allowed is {planned.shape} at {plan.shape}")
        if not view.contiguous:
            raise RefusedError(
                f"{what}its strides are {view.strides} bytes for shape {view.shape}, a view of something larger; "
                "allowed is a C-contiguous array: take a copy (cupy.ascontiguousarray)"
            )
        if view.pointer % planned.alignment:
            raise RefusedError(
                f"{what}its address {view.pointer:#x} is not a multiple of {planned.alignment} bytes, "
                "which the width of the kernel's accesses needs; take a copy, allocations are aligned"
            )
    _refuse_overlap(build, views)


def _refuse_overlap(build: Build, views: Mapping[str, ArrayView]) -> None:
    variant = build.plan.case.variant
    written = {a.name for a in (*variant.operator.outputs, *variant.scratch)}
    for name in views:
        for other in views:
            a, b = views[name], views[other]
            apart = a.pointer + a.nbytes <= b.pointer or b.pointer + b.nbytes <= a.pointer
            if name in written and other != name and not apart:
                raise RefusedError(
                    f"{variant.name}: {name} and {other} overlap in memory, nothing was launched: the kernel's "
                    "pointers are __restrict__, so the result would be undefined; give the output its own array"
                )
