"""Kernels from the cases of the opcode table, many in one source, and their runs on a device."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from opcode_case import Case, bits_of, default_rows, matches, register
from opcode_memory import (
    ATOMIC_THREADS,
    BARRIER,
    ROOM,
    THREADS,
    Access,
    Atomic,
    access_text,
    accesses,
    atomic_operands,
    atomic_text,
    atomics,
)
from opcode_table import PARTS

from pytest_roofline.build.nvrtc import Image, compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.run.device import Device

C_TYPES = {16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}
REGISTER_TYPES = {"h": "unsigned short", "r": "unsigned", "l": "unsigned long long", "f": "float", "d": "double"}
FROM_BITS = {"f": "__uint_as_float", "d": "__longlong_as_double"}
TO_BITS = {"f": "__float_as_uint", "d": "__double_as_longlong"}
BLOCK = 64
WARP = 32
PER_SOURCE = 80  # a kernel is looked up in all of its source's PTX


def kernel_name(case: Case) -> str:
    return "k_" + re.sub(r"\W+", "_", case.opcode)


def declaration(name: str, parameters: Iterable[str]) -> str:
    return f'extern "C" __global__ void {name}({", ".join(parameters)})'


def kernel_text(case: Case) -> str:
    """Load the operands' bits, run the instruction once for each thread, store the bits of what it wrote."""
    outputs, inputs = case.operands[: case.outputs], case.inputs
    parameters = [f"{C_TYPES[bits_of(kind)]}* y{i}" for i, kind in enumerate(outputs)]
    parameters += [f"const {C_TYPES[bits_of(kind)]}* x{i}" for i, kind in enumerate(inputs)]
    lines = ["const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;"]
    for i, kind in enumerate(inputs):
        letter = register(kind)
        lines.append(f"const {REGISTER_TYPES[letter]} a{i} = {FROM_BITS.get(letter, '')}(x{i}[i]);")
    lines += [f"{REGISTER_TYPES[register(kind)]} d{i};" for i, kind in enumerate(outputs)]
    written = ", ".join(f'"={register(kind)}"(d{i})' for i, kind in enumerate(outputs))
    read = ", ".join(f'"{register(kind)}"(a{i})' for i, kind in enumerate(inputs))
    if case.warp and inputs:
        lines.append(f"if (!(a{len(inputs) - 1} >> (threadIdx.x % {WARP}) & 1)) return;")
    lines.append(f'asm volatile("{case.assembly}" : {written} : {read});')
    lines += [f"y{i}[i] = {TO_BITS.get(register(kind), '')}(d{i});" for i, kind in enumerate(outputs)]
    body = "\n    ".join(lines)
    return f"{declaration(kernel_name(case), parameters)} {{\n    {body}\n}}\n"


def sources(parts: dict[str, list[Case]]) -> Iterator[tuple[str, str, list[Case]]]:
    """Name, least architecture and cases of each source."""
    for part, cases in parts.items():
        for arch in sorted({case.arch for case in cases}):
            chosen = [case for case in cases if case.arch == arch]
            for number, start in enumerate(range(0, len(chosen), PER_SOURCE)):
                yield f"{part}_{arch}_{number}.cu", arch, chosen[start : start + PER_SOURCE]


ACCESSES, ATOMICS = list(accesses()), list(atomics())
SOURCES = {name: (arch, cases) for name, arch, cases in sources(PARTS)}
SOURCE_OF = {case.opcode: name for name, (_, cases) in SOURCES.items() for case in cases}


@cache
def image(name: str, arch: str) -> Image:
    text = "\n".join(kernel_text(case) for case in SOURCES[name][1])
    return compile_source(Source.of_text(name, text), arch)


@cache
def memory_image(name: str, arch: str) -> Image:
    """The kernels of opcode_memory: "accesses", "atomics" or "barrier"."""
    texts = {"accesses": map(access_text, ACCESSES), "atomics": map(atomic_text, ATOMICS), "barrier": [BARRIER]}
    return compile_source(Source.of_text(f"opcode_{name}.cu", "\n".join(texts[name])), arch)


def number(arch: str) -> int:
    """89 of "sm_89", 90 of "sm_90a"."""
    return int(re.sub(r"\D", "", arch))


def architecture(device: Device, least: str) -> str | None:
    """What to compile for: the simulator takes what the instruction needs, a GPU its own, if that has it."""
    if device.evidence == "simulated":
        return least
    return device.arch if number(device.arch) >= number(least) else None


def operands(case: Case, block: int) -> list[np.ndarray]:
    """The case's rows as an array for each operand, the first rows again until whole blocks are full."""
    if case.values:
        return arrays(case.inputs, case.rows, block)
    return default_operands(case.inputs, tuple(case.domains.items()), block)


@cache
def default_operands(
    inputs: tuple[str, ...], domains: tuple[tuple[int, Sequence[int]], ...], block: int
) -> list[np.ndarray]:
    return arrays(inputs, default_rows(inputs, domains), block)


def arrays(inputs: tuple[str, ...], rows: list[tuple[int, ...]], block: int) -> list[np.ndarray]:
    rows = [*rows, *itertools.islice(itertools.cycle(rows), -len(rows) % block)]
    return [np.array(column, dtype(kind)) for kind, column in zip(inputs, zip(*rows, strict=True), strict=True)]


def dtype(kind: str) -> str:
    return f"uint{bits_of(kind)}"


def run(device: Device, case: Case) -> Iterator[tuple[int, ...]]:
    """The bits that the device writes for each row of the case."""
    least, _ = SOURCES[SOURCE_OF[case.opcode]]
    arch = architecture(device, least)
    assert arch is not None
    kernel = device.load(image(SOURCE_OF[case.opcode], arch), kernel_name(case))
    block = WARP if case.warp else BLOCK
    columns = operands(case, block)
    count = len(columns[0])
    inputs = [device.upload(column) for column in columns]
    outputs = [device.empty((count,), dtype(kind)) for kind in case.operands[: case.outputs]]
    device.launch(kernel, (count // block, 1, 1), (block, 1, 1), (*outputs, *inputs), 0)
    device.synchronize()
    written = [device.download(array).tolist() for array in outputs]
    return itertools.islice(zip(*written, strict=True), len(case.rows))


def run_access(device: Device, access: Access, data: bytes) -> bytes:
    """The bytes that the kernel leaves: of the registers it loaded, or of the memory it stored to."""
    arch = architecture(device, "sm_89")
    assert arch is not None
    kernel = device.load(memory_image("accesses", arch), access.name)
    if access.load:
        source = device.upload(np.frombuffer(data, np.uint8))
        target = device.empty((THREADS * access.count,), f"uint{access.register_bits}")
    else:
        source = device.upload(np.frombuffer(data, f"uint{access.register_bits}"))
        target = device.upload(np.full(THREADS * access.size + 2 * ROOM, 0xFF, np.uint8))
    device.launch(kernel, (1, 1, 1), (THREADS, 1, 1), (target, source), 0)
    device.synchronize()
    return device.download(target).tobytes()


def run_atomic(device: Device, atomic: Atomic) -> tuple[list[int], list[int]]:
    """What the threads got back (poison from red), and the cells afterwards."""
    arch = architecture(device, "sm_89")
    assert arch is not None
    kernel = device.load(memory_image("atomics", arch), atomic.name)
    cells, where, b, c = atomic_operands(atomic)
    kind = dtype(atomic.kind)
    after = device.upload(np.array(cells, kind))
    old = device.empty((ATOMIC_THREADS,), kind)
    columns = (np.array(where, "uint32"), np.array(b, kind), np.array(c, kind))
    operands = [device.upload(column) for column in columns]
    device.launch(kernel, (1, 1, 1), (ATOMIC_THREADS, 1, 1), (old, after, *operands), 0)
    device.synchronize()
    return device.download(old).tolist(), device.download(after).tolist()


def run_barrier(device: Device, values: list[int], partners: list[int], members: int) -> list[int]:
    """What each lane of ``members`` reads from its partner after bar.warp.sync."""
    arch = architecture(device, "sm_89")
    assert arch is not None
    kernel = device.load(memory_image("barrier", arch), "exchange")
    inputs = [device.upload(np.array(column, "uint32")) for column in (values, partners)]
    output = device.empty((WARP,), "uint32")
    device.launch(kernel, (1, 1, 1), (WARP, 1, 1), (output, *inputs, np.uint32(members)), 0)
    device.synchronize()
    return device.download(output).tolist()


@dataclass(frozen=True)
class Difference:
    """A result that is not what was expected."""

    case: Case
    row: tuple[int, ...]
    got: tuple[int, ...]
    expected: tuple[Any, ...]

    def __str__(self) -> str:
        def text(kind: str, value: Any) -> str:
            if isinstance(value, tuple):  # the halves of a register, or one of several
                return f"{type(value).__name__}({', '.join(text(kind, part) for part in value)})"
            return f"{value:#0{bits_of(kind) // 4 + 2}x}" if isinstance(value, int) else str(value)

        kinds = self.case.operands
        operands = ", ".join(text(kind, bits) for kind, bits in zip(self.case.inputs, self.row, strict=True))
        got = ", ".join(text(kind, bits) for kind, bits in zip(kinds, self.got, strict=False))
        wanted = ", ".join(text(kind, value) for kind, value in zip(kinds, self.expected, strict=False))
        return f"{self.case.assembly!r} of {operands}: {got}, wanted {wanted}"


def expectations(case: Case) -> Iterator[tuple[Any, ...]]:
    """What is expected of each row, a tuple with an entry for each output."""
    if case.warp:
        for start in range(0, len(case.rows), WARP):
            yield from (one if case.outputs > 1 else (one,) for one in case.expected(case.rows[start : start + WARP]))
        return
    for row in case.rows:
        expected = case.expected(*row)
        yield expected if case.outputs > 1 else (expected,)


def differences(device: Device, case: Case) -> list[Difference]:
    kinds = case.operands[: case.outputs]
    results = run(device, case)
    found = []
    for row, got, expected in zip(case.rows, results, expectations(case), strict=True):
        if got == expected:  # the usual case, in one comparison
            continue
        if not all(matches(kind, one, bits) for kind, one, bits in zip(kinds, expected, got, strict=True)):
            found.append(Difference(case, row, got, expected))
    return found
