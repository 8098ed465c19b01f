"""A pytest plugin that puts a GPU in place which is none: right answers by NumPy, times by the number of launches.

For what the plugin does with measurements (gate, records, tables) on machines without a GPU. Environment:
FAKE_SLOWER (factor on all times), FAKE_WRONG ("before" or "after": the answer turns wrong then), FAKE_FULL
(bytes from which an allocation fails).
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from fake_device import FakeDevice, rmsnorm_rows, softmax_rows

from pytest_roofline import devices
from pytest_roofline.bench import measured, telemetry
from pytest_roofline.bench.events import Stopwatch
from pytest_roofline.bench.timer import Timer
from pytest_roofline.errors import DeviceMemoryError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.gpu import device as cuda

SLOWER = float(os.environ.get("FAKE_SLOWER", "1"))
WRONG = os.environ.get("FAKE_WRONG", "")
FULL = int(os.environ.get("FAKE_FULL", str(2**40)))


class FakeGpu(FakeDevice):
    index = 0
    versions = {"driver_cuda": "13.0", "runtime_cuda": "12.9", "cupy": "14"}  # noqa: RUF012

    def __init__(self, index: int = 0) -> None:
        super().__init__({})
        self.gpu = gpu_named("h200")
        self.name = self.gpu.name

    def empty(self, shape, dtype):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if nbytes >= FULL:
            raise DeviceMemoryError(f"allocating {shape} of {dtype}: {nbytes} of {FULL} bytes")
        return super().empty(shape, dtype)

    def launch(self, kernel, grid, block, args, shared, blocks=None):
        self.launched.append(kernel)
        if kernel == "rms_n1_pass1":
            x, rstd, _, eps = args
            rstd[...] = 1 / np.sqrt((x * x).mean(axis=1) + eps)
        elif kernel == "rms_n1_pass2":
            x, w, rstd, y, _ = args
            y[...] = x * rstd[:, None] * w
        else:
            (rmsnorm_rows if kernel.startswith("rms") else softmax_rows)(grid, *args)
            if WRONG == "before" or (WRONG == "after" and len(self.launched) > 1):
                args[-2 if kernel.startswith("sm") else 2][0, 0] = 7


class FakeClock:
    """Ten microseconds for each launch since the mark before."""

    def __init__(self, device: FakeGpu) -> None:
        self.device = device

    def record(self) -> int:
        return len(self.device.launched)

    def seconds(self, start: int, end: int) -> float:
        time.sleep(1e-3)
        return 1e-5 * SLOWER * (end - start)

    def reached(self, mark: int) -> bool:
        return False


class FakeStopwatch(Stopwatch):
    def __init__(self, device: FakeGpu) -> None:
        self.device, self.timer = device, Timer(FakeClock(device))

    def prepare(self, series, state):
        return series()

    def rounds(self, *args) -> int:
        return 5

    def fit_blocking(self, series) -> None: ...


class FakePlacements:
    def __init__(self, device: FakeGpu, run) -> None:
        self.made = run

    def __call__(self):
        return self.made.run

    def outputs(self):
        return self.made.arrays


FAKED = (
    (cuda, "count", lambda: 1),
    (devices, "CudaDevice", FakeGpu),
    (telemetry, "read", lambda device: telemetry.Telemetry("580.159.04", 1980, 3201, 700.0, ())),
    (measured, "Stopwatch", FakeStopwatch),
    (measured, "Placements", FakePlacements),
    (measured.Measured, "copy_gbs", lambda self, nbytes, state: 4000.0),
)
patch = pytest.MonkeyPatch()


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Undone in the end, since the run shares its process with the tests of the plugin."""
    for owner, name, value in FAKED:
        patch.setattr(owner, name, value)


def pytest_unconfigure() -> None:
    patch.undo()
