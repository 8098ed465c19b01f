"""The L2 cache before a sample: full of clean lines of something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...build.nvrtc import Image, compile_source
from ...build.source import Source
from .device import CudaDevice

FLUSH_TIMES_L2 = 4


class Flush:
    """Fills the L2 cache with clean lines of a buffer of its own, several times as large; queued when called."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.kernel = device.load(timing_image(device), "roofline_flush")
        count = FLUSH_TIMES_L2 * device.gpu.l2_bytes // 16
        self.args = (device.empty((count * 4,), "float32"), np.int64(count), device.empty((1,), "float32"))

    def __call__(self) -> None:
        self.device.launch(self.kernel, (8 * self.device.gpu.sms, 1, 1), (256, 1, 1), self.args, 0)


def timing_image(device: CudaDevice) -> Image:
    return compile_source(Source.read(Path(__file__).with_name("timing.cu")), device.arch)
