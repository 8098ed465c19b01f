"""Checks on what the compiler made of a build's launches. They need no GPU."""

from __future__ import annotations

from collections import Counter

from ..errors import StaticCheckError
from ..hardware.gpus import GPUS, Gpu
from .build import Build, BuiltLaunch

# The architectures that are in use: A100, A10, RTX 4090 and L4, H100 and H200, B200, RTX 5090.
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def gpu_of(arch: str) -> Gpu:
    """A GPU of the table with that architecture, or the first one where there is none."""
    return next((gpu for gpu in GPUS.values() if gpu.arch == arch), next(iter(GPUS.values())))


def check_resources(launch: BuiltLaunch) -> None:
    """All that the kernel keeps is in registers: no stack frame, no spill stores, no spill loads.

    A stack frame alone is enough to fail: an array indexed at run time lies there without one spilled byte.
    Errors: :class:`StaticCheckError` with the figures.
    """
    found = launch.resources
    if found.stack_bytes or found.spill_stores or found.spill_loads:
        raise StaticCheckError(
            f"{launch.planned.kernel} for {found.arch} keeps data in local memory, which is DRAM: {found.stack_bytes} "
            f"bytes of stack frame, {found.spill_stores} of spill stores, {found.spill_loads} of spill loads, with "
            f"{found.registers} registers. Index register arrays by constants in unrolled loops only, or hold less"
        )


def check_accesses(build: Build, launch: BuiltLaunch) -> None:
    """Each array is accessed at the width that the launch declares for it; without a loop, as often as it must be.

    An array without a declared width is held to none. Atomics on an output are writes to it.
    Errors: :class:`StaticCheckError` with what was found and what was declared.
    """
    planned = launch.planned
    if planned.unrolled is not None:
        _check_all_are_told(launch)
    accesses = launch.image.accesses(planned.kernel) if planned.vector else ()
    for name, width in planned.vector.items():
        mine = [one for one in accesses if one.target == planned.args.index(name)]
        loads = Counter(one.bytes for one in mine if one.reads and not one.writes)
        stores = Counter(one.bytes for one in mine if one.writes and not one.reads)
        atomics = sum(one.atomic for one in mine)
        if name in planned.reads:
            unrolled = planned.unrolled if build.plan.arrays[name].declared.read else None
            wanted = None if unrolled is None else build.plan.arrays[name].dtype.itemsize * unrolled // width
            _check(planned.kernel, f"loads of {name}", loads, width, wanted)
        if name in planned.writes and not atomics:
            _check(planned.kernel, f"stores to {name}", stores, width, None)


def _check_all_are_told(launch: BuiltLaunch) -> None:
    """Straight-line code: every access is counted, and of one array."""
    kernel, image = launch.planned.kernel, launch.image
    told = f"{kernel} is declared as straight-line code, but"
    if hidden := image.uncounted(kernel):
        raise StaticCheckError(
            f"{told} {hidden} may touch global memory without being counted; let the function be inlined, drop the "
            "printf, or take unrolled out of the declaration"
        )
    if lost := next((one for one in image.accesses(kernel) if one.target is None), None):
        raise StaticCheckError(
            f"{told} {lost.op} at {lost.loc} goes to an array that can't be told; access each through a pointer of its "
            "own, or take unrolled out of the declaration"
        )


def _check(kernel: str, what: str, found: Counter[int | None], width: int, wanted: int | None) -> None:
    others = {size: n for size, n in found.items() if size != width}
    told = f"{kernel} has {found[width]} global {what} of {width} bytes, others of {others or 'no'} bytes"
    if not found[width] or others:
        raise StaticCheckError(f"{told}; declared is a width of {width} bytes")
    if wanted is not None and found[width] != wanted:
        raise StaticCheckError(f"{told}; each element once, as unrolled declares it, are {wanted}")
