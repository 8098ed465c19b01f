"""Checks on what the compiler made of a build's launches. They need no GPU."""

from __future__ import annotations

from collections import Counter

from ..build.ptx.accesses import GlobalAccess, global_accesses, uncounted
from ..declare.array import SCRATCH
from ..errors import StaticCheckError
from ..hardware.gpus import GPUS, Gpu
from .build import Build, BuiltLaunch
from .plan import Plan, PlannedArray

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
    """Global loads and stores have the declared widths; without a loop over the data, their number too.

    A launch that declares no widths is held to none. Atomics on an output are writes to it.
    Errors: :class:`StaticCheckError` with what was found and what was declared.
    """
    planned, ptx, kernel = launch.planned, launch.image.ptx, launch.planned.kernel
    if planned.unrolled is not None and (hidden := uncounted(ptx, kernel)):
        raise StaticCheckError(
            f"{planned.kernel} is declared as straight-line code, but {hidden!r} may touch global memory without being "
            "counted; let the function be inlined, drop the printf, or take unrolled out of the declaration"
        )
    if not planned.vector:
        return
    counts = Counter(global_accesses(ptx, kernel))
    for op, names in (("ld", planned.reads), ("st", planned.writes)):
        _check_widths(build.plan, launch, counts, op, tuple(dict.fromkeys(names)))


def _check_widths(
    plan: Plan, launch: BuiltLaunch, counts: Counter[GlobalAccess], op: str, names: tuple[str, ...]
) -> None:
    planned, what = launch.planned, {"ld": "loads", "st": "stores"}[op]
    declared = [plan.arrays[name] for name in names if name in planned.vector]
    others = _undeclared(plan, launch, op, declared)
    for width in sorted({planned.vector[array.name] for array in declared}):
        arrays = [array for array in declared if planned.vector[array.name] == width]
        wide = counts[GlobalAccess(op, width)] + (counts[GlobalAccess("cp.async", width)] if op == "ld" else 0)
        atomics = sum(n for one, n in counts.items() if op == "st" and one.op in ("atom", "red"))
        beside = {one.bytes: n for one, n in counts.items() if one.op == op and one.bytes != width}
        allowed = {planned.vector[array.name] for array in declared} | others
        found = f"{planned.kernel} has {wide} global {what} of {width} bytes, others of {beside or 'no'} bytes"
        strange = {size for size in beside if size not in allowed}
        # sinf and cosf of large arguments read a table of the device library's, named like this.
        if wide + atomics < len(arrays) or (strange and "__cudart_" not in launch.image.ptx):
            raise StaticCheckError(f"{found}; declared is a width of {width} bytes for {len(arrays)} arrays")
        if planned.unrolled is not None and not others:
            wanted = sum(array.dtype.itemsize for array in arrays) * planned.unrolled // width
            if wide != wanted:
                raise StaticCheckError(
                    f"{found}; {planned.unrolled} elements of each of {len(arrays)} arrays, each once, are {wanted}"
                )


def _undeclared(plan: Plan, launch: BuiltLaunch, op: str, declared: list[PlannedArray]) -> set[int]:
    """Widths that arrays without a declared one may be accessed at: any, from their elements' size on."""
    taken = [plan.arrays[str(name)] for name in launch.planned.args if name in plan.arrays]
    loose = [array for array in taken if array not in declared]
    if op == "st":
        loose = [array for array in loose if array.declared.written or array.declared.role == SCRATCH]
    return {width for array in loose for width in (1, 2, 4, 8, 16) if width >= array.dtype.itemsize}
