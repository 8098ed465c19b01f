"""Checks on what the compiler made of a launch. They need an image, and no GPU."""

from __future__ import annotations

from collections import Counter

from ..declare.suite import Launch, Variant
from ..errors import StaticCheckError
from ..hardware.dtypes import dtype_of
from ..hardware.resources import Resources
from .nvrtc import Image
from .ptx.accesses import GlobalAccess, global_accesses, uncounted
from .ptxas import of_kernel

# The architectures that are in use: A100, A10, RTX 4090 and L4, H100 and H200, B200, RTX 5090.
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def check_resources(launch: Launch, image: Image) -> Resources:
    """The kernel's resources, if all it keeps is in registers: no stack frame, no spill stores, no spill loads.

    A stack frame alone is enough to fail: an array indexed at run time lies there without one spilled byte.
    Errors: :class:`StaticCheckError` with the figures.
    """
    found = of_kernel(image, launch.kernel)
    if found.stack_bytes or found.spill_stores or found.spill_loads:
        raise StaticCheckError(
            f"{launch.kernel} for {found.arch} keeps data in local memory, which is DRAM: {found.stack_bytes} bytes of "
            f"stack frame, {found.spill_stores} of spill stores, {found.spill_loads} of spill loads, with "
            f"{found.registers} registers. Index register arrays by constants in unrolled loops only, or hold less"
        )
    return found


def check_accesses(variant: Variant, launch: Launch, image: Image) -> None:
    """The kernel's global loads and stores have the declared width; without a loop over the row, their number too.

    A kernel that takes scratch arrays, such as a row's sum, may have narrower accesses beside the wide ones.
    Errors: :class:`StaticCheckError` with what was found and what was declared.
    """
    image.require(launch.kernel)
    if launch.unrolled is not None and (hidden := uncounted(image.ptx, launch.kernel)):
        raise StaticCheckError(
            f"{launch.kernel} is declared as straight-line code, but {hidden!r} may touch global memory without being "
            "counted; let the function be inlined, drop the printf, or take unrolled out of the declaration"
        )
    counts = Counter(global_accesses(image.ptx, launch.kernel))
    scratch = bool(set(launch.args) & {array.name for array in variant.scratch})
    for op, what, arrays in (("ld", "loads", variant.operator.inputs), ("st", "stores", variant.operator.outputs)):
        touched = launch.args if op == "ld" else launch.writes
        read_back = [a for a in variant.operator.outputs if op == "ld" and a.name in launch.reads]
        sizes = [dtype_of(array.dtype).itemsize for array in (*arrays, *read_back) if array.name in touched]
        copied = counts[GlobalAccess("cp.async", launch.vector)] if op == "ld" else 0  # to shared memory, read there
        wide = counts[GlobalAccess(op, launch.vector)] + copied
        kinds = ("ld", "cp.async") if op == "ld" else (op,)
        others = {one.bytes: n for one, n in counts.items() if one.op in kinds and one.bytes != launch.vector}
        found = f"{launch.kernel} has {wide} global {what} of {launch.vector} bytes, others of {others or 'no'} bytes"
        # sinf and cosf of large arguments read a table of the device library's, named like this.
        if wide < len(sizes) or (others and not scratch and "__cudart_" not in image.ptx):
            raise StaticCheckError(f"{found}; declared is a width of {launch.vector} bytes for {len(sizes)} arrays")
        if launch.unrolled is not None:
            wanted = sum(sizes) * launch.unrolled // launch.vector
            if wide != wanted:
                raise StaticCheckError(
                    f"{found}; {launch.unrolled} elements of each of {len(sizes)} arrays, each once, are {wanted}"
                )
