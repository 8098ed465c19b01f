"""Small kernels with a defect, their twins without it, and what the simulator finds in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.observe.findings import ERROR, WARNING, Finding

INDICES = "const int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t;"


def kernel(parameters: str, *statements: str, before: tuple[str, ...] = (), bounds: str = "") -> str:
    """A source with the kernel k: after the lines ``before`` its head, then INDICES, then one statement a line."""
    head = f'extern "C" __global__ void {bounds}k({parameters}) {{'
    return "\n".join([*before, head, INDICES, *statements, "}", ""])


def asm(text: str) -> str:
    """A statement of inline assembly without operands."""
    return f'asm volatile("{text}" ::: "memory");'


@dataclass(frozen=True)
class Empty:
    """An argument: a new array of ``count`` elements that nobody wrote."""

    count: int
    dtype: str = "float32"


class Address:
    """For messages: ``{0[8]}`` is the address of byte 8 of argument 0."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def __getitem__(self, offset: int | str) -> str:
        return hex(self.pointer + int(offset))


@dataclass(frozen=True)
class Ran:
    """What a launch left: its findings, its arrays on the host, and where they lay."""

    findings: tuple[Finding, ...]
    arrays: tuple[np.ndarray, ...]
    addresses: tuple[Address | None, ...]

    def texts(self) -> list[str]:
        return sorted(map(str, self.findings))


@dataclass(frozen=True)
class Defect:
    """A kernel, the edits that mend it, and each finding as it is told; ``{n[8]}`` is an address."""

    name: str
    text: str
    mend: tuple[str, str]
    args: tuple[Any, ...]
    finds: str | tuple[str, ...]
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (64,)
    shared: int = 0
    gpu: str = "rtx4090"
    volatile: bool = False

    def run(self, mended: bool = False, reverse: bool = False) -> Ran:
        source = Source.of_text("k.cu", self.text)
        source = source.replaced(*self.mend) if mended else source
        device = SimDevice(self.gpu, reverse=reverse)
        return run(
            source.with_volatile_shared() if self.volatile else source,
            self.args,
            self.grid,
            self.block,
            self.shared,
            device,
        )


def assert_found_and_mended(defect: Defect) -> None:
    """The defect is told as expected, its errors under the other schedule too; the mended twin is clean under both."""
    ran = defect.run()
    finds = (defect.finds,) if isinstance(defect.finds, str) else defect.finds
    assert ran.texts() == sorted(" ".join(text.split()).format(*ran.addresses) for text in finds)
    assert errors(defect.run(reverse=True)) == errors(ran)
    twins = [defect.run(mended=True, reverse=reverse) for reverse in (False, True)]
    assert [twin.texts() for twin in twins] == [[], []]
    assert [array.tobytes() for array in twins[0].arrays] == [array.tobytes() for array in twins[1].arrays]


def errors(ran: Ran) -> set[tuple[str, tuple[str, ...]]]:
    """Kind and source lines of each error; of each warning where there are no errors."""
    found = {severity: [f for f in ran.findings if f.severity == severity] for severity in (ERROR, WARNING)}
    return {(f.kind, f.places) for f in found[ERROR] or found[WARNING]}


def run(
    source: Source | str,
    args: tuple[Any, ...],
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (64,),
    shared: int = 0,
    device: SimDevice | None = None,
    steps: int = 20_000,
) -> Ran:
    """Launch k once; NumPy arrays are uploaded first."""
    device = device or SimDevice()
    device.steps_limit = steps
    source = Source.of_text("k.cu", source) if isinstance(source, str) else source
    loaded = device.load(compile_source(source, device.arch), "k")
    given = []
    for arg in args:
        if isinstance(arg, Empty):
            arg = device.empty((arg.count,), arg.dtype)
        given.append(device.upload(arg) if isinstance(arg, np.ndarray) and arg.ndim else arg)
    loaded(grid, block, tuple(given), shared_mem=shared)
    findings = device.take_findings()
    arrays = [arg for arg in given if hasattr(arg, "pointer")]
    addresses = tuple(Address(arg.pointer) if hasattr(arg, "pointer") else None for arg in given)
    return Ran(findings, tuple(device.download(array) for array in arrays), addresses)


def floats(count: int) -> np.ndarray:
    """1.0, 2.0, ..."""
    return np.arange(1, count + 1, dtype=np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def local_access(kind: str, count: int, access: str, at: range) -> Ran:
    """``access`` to a[n[t]], a local array of ``count`` elements, by a thread for each value of n."""
    fill = f"{kind} a[{count}]; for (int k = 0; k < {count}; ++k) a[k] = k * n[k & 1];"
    text = kernel("const int* n, float* y", fill, access, "y[t] = a[n[0]];")
    return run(text, (ints(*at), Empty(len(at))), block=(len(at),))
