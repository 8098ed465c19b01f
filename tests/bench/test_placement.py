"""Samples at many places of memory, each from the initial contents. CuPy's arrays are played by NumPy's."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, Shape, Variant
from pytest_roofline.bench import placement as module
from pytest_roofline.bench.placement import PAGE, UNIT, Placements
from pytest_roofline.errors import DeviceMemoryError
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.device import ArrayView
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run

KERNEL = """
extern "C" __global__ void step(const float* x, float* part, float* c, float* count, float* y, int N) {}
"""
SCRATCH = Array("part", ("N",), dtype="float32")
OPERATOR = Operator(
    "step",
    "y = x + c; c = c + x; count = number of x",
    arrays=(
        Array("x", ("N",)),
        Array("c", ("N",), role="inout"),
        Array("count", ("N",), role="output", initial=0.0),
        Array("y", ("N",), role="output"),
    ),
    reference=lambda v: {"y": v.x + v.c, "c": v.c + v.x, "count": np.ones(v.N)},
)
N = 1000


class CupyLike(np.ndarray):
    """An array whose ``data`` copies as CuPy's does."""

    @property
    def data(self):
        def copy(source, nbytes: int) -> None:
            self.view(np.ndarray).view(np.uint8)[:nbytes] = source.array.view(np.ndarray).view(np.uint8)[:nbytes]

        return SimpleNamespace(array=self, copy_from_device_async=copy)


class HostDevice:
    """Arrays on the host; the kernel is a Python function; allocations beyond ``room`` bytes fail."""

    evidence, name, arch = "measured", "host", "sm_90"
    gpu = gpu_named("h200")

    def __init__(self, room: int = 2**40) -> None:
        self.room, self.seen = room, []

    def empty(self, shape, dtype):
        size = int(np.prod(shape)) * dtype_of(dtype).itemsize
        if size > self.room:
            raise DeviceMemoryError("full")
        raw = np.zeros(size + 512, np.uint8) if size > 2**25 else np.full(size + 512, 0xFF, np.uint8)
        start = -raw.ctypes.data % 512
        return raw[start : start + size].view(dtype_of(dtype)).reshape(shape).view(CupyLike)

    def upload(self, host):
        array = self.empty(host.shape, host.dtype.name)
        array[...] = host
        return array

    def repeat(self, tile, shape):
        return self.upload(np.resize(tile, shape))

    def write(self, array, host):
        array[...] = host.reshape(array.shape)

    def poison(self, array, byte):
        array.view(np.ndarray).view(np.uint8)[...] = byte

    def fingerprint(self, array):
        return hash(array.tobytes())

    def download(self, array):
        return np.array(array)

    def written(self, array):
        return None

    def view(self, array):
        pointer = array.__array_interface__["data"][0]
        return ArrayView(pointer, array.nbytes, array.shape, array.strides, array.dtype, array.flags.c_contiguous)

    def load(self, image, kernel):
        return kernel

    def launch(self, kernel, grid, block, args, shared, blocks=None):
        x, part, c, count, y, _ = args
        self.seen.append({"c": np.array(c), "count": np.array(count), "y": np.array(y), "part": np.array(part)})
        self.seen[-1]["at"] = x.__array_interface__["data"][0]
        part[...] = 5
        y[...] = x + c
        c += x
        count += 1

    def synchronize(self) -> None: ...

    def release(self) -> None: ...


@pytest.fixture
def series(tmp_path, monkeypatch):
    """``series(room)`` are placements of one kernel on a :class:`HostDevice`, with the device and the run."""
    monkeypatch.setattr(module, "SPAN", 2**25)  # a GiB of it is of no use here

    def make(room: int = 2**40):
        (tmp_path / "step.cu").write_text(KERNEL)
        launch = Launch("step", args=("x", "part", "c", "count", "y", "N"), grid=1, block=32)
        variant = dataclasses.replace(Variant("v1", OPERATOR, "step.cu", (launch,), scratch=(SCRATCH,)), root=tmp_path)
        device = HostDevice(room)
        run = Run(device, Build.of(Plan(Case(variant, Shape(N=N)), device.gpu)))
        return Placements(device, run), device, run

    return make


def test_each_sample_starts_from_the_initial_contents(series):
    """What accumulates is put back, poisoned outputs are poison again; scratch is left as the last sample had it."""
    placed, device, run = series()
    c = run.inputs["c"].full()
    for _ in range(300):  # more than there are places: each has run before
        placed()()
    for seen in device.seen:
        assert (seen["c"] == c).all()
        assert (seen["count"] == 0).all()
        assert np.isnan(seen["y"]).all()
        assert (seen["y"].view(np.uint32) == 0xFFFFFFFF).all()
    assert (device.seen[-1]["part"] == 5).all()


def test_samples_run_at_many_places(series):
    """Large pages apart, and the same ones in every session."""
    placed, device, _ = series()
    for _ in range(128):
        placed()()
    places = [seen["at"] for seen in device.seen]
    assert len({*places}) > 4
    assert {(at - min(places)) % PAGE for at in places} == {0}
    again, other, _ = series()
    for _ in range(128):
        again()()
    assert [seen["at"] - min(places) for seen in device.seen] == [
        seen["at"] - min(one["at"] for one in other.seen) for seen in other.seen
    ]


def test_a_run_that_warms_the_cache_is_undone(series):
    """What a launch changed in place, or added to, is as before; what it wrote may stay."""
    placed, device, run = series()
    work = placed()
    work()
    placed.restore()
    work()
    assert (device.seen[1]["c"] == run.inputs["c"].full()).all()
    assert (device.seen[1]["count"] == 0).all()


def test_the_outputs_are_those_of_the_last_sample(series):
    """They are compared with the reference on the run's own inputs, at whatever place; another place's are wrong."""
    placed, _, run = series()
    for _ in range(3):
        placed()()
    assert run.verify(outputs=placed.outputs()).values == 3 * N
    placed.outputs()["y"][7] += 1
    with pytest.raises(AssertionError, match=r"1 of 1000 values of y are wrong"):
        run.verify(outputs=placed.outputs())


def test_where_memory_is_short_there_is_one_place_or_none(series):
    """Fewer places where the GPU has no room for all, one at least; without room for that it is an error."""
    needed = 5 * -(-4 * N // UNIT) * UNIT
    placed, device, _ = series(room=needed)
    for _ in range(4):
        placed()()
    assert len({seen["at"] for seen in device.seen}) == 1
    with pytest.raises(DeviceMemoryError):
        series(room=needed - 1)
