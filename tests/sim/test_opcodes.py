"""Every PTX instruction of the table, run and compared bit by bit with another arithmetic."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_roofline.errors import DeviceError
from pytest_roofline.run.device import Device
from pytest_roofline.run.gpu.device import CudaDevice
from pytest_roofline.sim.device import SimDevice

sys.path.append(str(Path(__file__).parent))
from opcode_case import Case, edges, matches, random_bits  # beside this file, in no package
from opcode_formats import BF16, F16, F32, F64, NAN, Format, finished, product, quotient, square_root, total
from opcode_memory import (
    ROOM,
    THREADS,
    Access,
    Atomic,
    atomic_operands,
    has_serial_order,
    left_at_last,
    loaded,
    stored,
)
from opcode_run import (
    ACCESSES,
    ATOMICS,
    WARP,
    architecture,
    differences,
    run,
    run_access,
    run_atomic,
    run_barrier,
)
from opcode_table import CASES

SHOWN = 3  # differences of one case in a message
FAMILIES: dict[str, list[Case]] = {
    family: list(group)
    for family, group in itertools.groupby(sorted(CASES, key=lambda case: case.family), key=lambda case: case.family)
}
ACCESS_FAMILIES = sorted({(access.load, access.space) for access in ACCESSES})
CANONICAL = {F32: 0x7FFFFFFF, F16: 0x7FFF, BF16: 0x7FFF}
# A NaN with a payload, which a copy has to keep: what is moved as float may be anything
SIGNALLING = {"f32": bytes.fromhex("0504a3ff"), "f64": bytes.fromhex("070605040302f1ff")}


@pytest.fixture(scope="module", params=["sim", "cuda"])
def backend(request) -> Device:
    """The simulator and, where there is one, a GPU: the same expectations hold for both."""
    if request.param == "sim":
        return SimDevice()
    try:
        device = CudaDevice()
    except DeviceError as error:
        pytest.skip(f"not checked: no CUDA device ({error})")
    if architecture(device, "sm_89") is None:
        pytest.skip(f"not checked: {device.name} is {device.arch}, the table begins with sm_89")
    return device


def problems(device: Device, case: Case) -> Iterator[str]:
    """What is wrong with a case, an instruction that is refused and one that fails included."""
    try:
        found = differences(device, case)
    except Exception as error:  # whatever it is, it must not hide what the cases after it have to say
        yield f"{case.opcode}: {type(error).__name__}: {error}"
        return
    if found:
        yield f"{case.opcode}: {len(found)} of {len(case.rows)} wrong"
        yield from (f"    {difference}" for difference in found[:SHOWN])


@pytest.mark.parametrize("family", FAMILIES)
def test_instruction(backend, family):
    """An opcode with all its modifiers gives what the PTX ISA says, for edge values and random operands."""
    cases = [case for case in FAMILIES[family] if architecture(backend, case.arch)]
    if not cases:
        pytest.skip(f"not checked: {backend.name} is {backend.arch}, {family} needs {FAMILIES[family][0].arch}")
    found = [problem for case in cases for problem in problems(backend, case)]
    assert not found, "\n" + "\n".join(found)


def each(items: list, wrong: Callable[..., str | None]) -> None:
    """Fail with all that ``wrong`` says of the items, what they raise included."""
    found = []
    for item in items:
        try:
            message = wrong(item)
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        if message:
            found.append(f"{item.opcode} ({item.name}): {message}")
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(("load", "space"), ACCESS_FAMILIES, ids=lambda x: x if isinstance(x, str) else ("st", "ld")[x])
def test_memory_access(backend, load, space):
    """Loads extend to the register as the type says, stores write its low bytes and no other, in vectors too."""
    rng = random.Random(space)

    def wrong(access: Access) -> str | None:
        if access.load:
            data = rng.randbytes(THREADS * access.size + 2 * ROOM)
            if access.kind in SIGNALLING:
                data = data[:ROOM] + SIGNALLING[access.kind] + data[ROOM + len(SIGNALLING[access.kind]) :]
            got = run_access(backend, access, data)
            wanted = np.array(loaded(access, data), f"uint{access.register_bits}").tobytes()
        else:
            values = [rng.getrandbits(access.register_bits) for _ in range(THREADS * access.count)]
            if access.kind in SIGNALLING:
                values[0] = int.from_bytes(SIGNALLING[access.kind], "little")
            got = run_access(backend, access, np.array(values, f"uint{access.register_bits}").tobytes())
            wanted = stored(access, values)
        if got == wanted:
            return None
        at = next(i for i, (x, y) in enumerate(zip(got, wanted, strict=True)) if x != y) & ~7
        return f"at byte {at} {got[at : at + 8].hex(' ')}, wanted {wanted[at : at + 8].hex(' ')}"

    each([access for access in ACCESSES if (access.load, access.space) == (load, space)], wrong)


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_atomic(backend, space):
    """Atomics on one address by many lanes are all done, and what they return has a serial order."""

    def wrong(atomic: Atomic) -> str | None:
        cells, where, b, c = atomic_operands(atomic)
        old, after = run_atomic(backend, atomic)
        if not atomic.returns:
            wanted = left_at_last(atomic, cells, where, b, c)
            return None if after == wanted else f"left {after}, wanted {wanted}"
        for cell, start in enumerate(cells):
            mine = [i for i, target in enumerate(where) if target == cell]
            steps = [(old[i], atomic.function(old[i], b[i], c[i])) for i in mine]
            if not has_serial_order(start, after[cell], steps):
                return f"no order of {steps} leads from {start} to {after[cell]}"
        return None

    each([atomic for atomic in ATOMICS if atomic.space == space], wrong)


@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x0000FFFF, 0xF0F0F0F1, 0x80000001])
def test_warp_barrier(backend, members):
    """What a lane wrote before bar.warp.sync the other lanes of the mask read after it."""
    lanes = [lane for lane in range(WARP) if members >> lane & 1]
    partners = [0] * WARP
    for i, lane in enumerate(lanes):
        partners[lane] = lanes[(i + 1) % len(lanes)]
    values = [1000 + lane for lane in range(WARP)]
    got = run_barrier(backend, values, partners, members)
    assert [got[lane] for lane in lanes] == [values[partners[lane]] for lane in lanes]


@pytest.mark.parametrize("backend", ["sim"], indirect=True)
@pytest.mark.parametrize("fmt", CANONICAL, ids=lambda fmt: fmt.name)
def test_canonical_nan(backend, fmt):
    """Arithmetic in f32, f16 and bf16 gives one NaN, whatever the payload of its operands."""
    for opcode in ("add.rn", "sub.rn", "mul.rn", "fma.rn", "min.NaN", "max.NaN"):
        (case,) = (case for case in CASES if case.opcode == f"{opcode}.{fmt.name}")
        wanted = [expected is NAN for expected in itertools.starmap(case.expected, case.rows)]
        given = {bits for is_nan, (bits,) in zip(wanted, run(backend, case), strict=True) if is_nan}
        assert given == {CANONICAL[fmt]}, opcode


NUMPY = {F16: (np.uint16, np.float16), F32: (np.uint32, np.float32), F64: (np.uint64, np.float64)}


@pytest.mark.parametrize("fmt", NUMPY, ids=lambda fmt: fmt.name)
def test_exact_arithmetic_is_right(fmt: Format):
    """The table's own arithmetic, rounded to nearest, is the host's."""
    rng = random.Random(1)
    pairs = list(itertools.product(edges(fmt.name, 2), repeat=2))
    pairs += [(random_bits(fmt.name, rng), random_bits(fmt.name, rng)) for _ in range(2000)]
    raw, floats = NUMPY[fmt]
    a, b = (np.array(column, raw).view(floats) for column in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        operations = {
            "add": (a + b, lambda x, y: total(x, y, "rn")),
            "mul": (a * b, product),
            "div": (a / b, quotient),
            "sqrt": (np.sqrt(a), lambda x, _: square_root(x)),
        }
    for name, (results, exact) in operations.items():
        for (x, y), bits in zip(pairs, results.view(raw).tolist(), strict=True):
            expected = finished(fmt, exact(fmt.number(x), fmt.number(y)))
            assert matches(fmt.name, expected, bits), (name, hex(x), hex(y), hex(bits))
