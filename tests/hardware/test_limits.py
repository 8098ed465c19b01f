"""What a launch may ask of a GPU: one rule, which the simulator and the occupancy take too."""

from __future__ import annotations

import re

import numpy as np
import pytest

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.ptxas import of_kernel
from pytest_roofline.build.source import Source
from pytest_roofline.errors import DeviceError
from pytest_roofline.hardware.gpus import GPUS
from pytest_roofline.hardware.limits import MAX_GRID, refusal
from pytest_roofline.hardware.occupancy import occupancy
from pytest_roofline.sim.device import SimDevice

H200 = GPUS["h200"]

# On an H200 the driver runs 384 threads of 138 registers and refuses 416 and 448 (12 warps of 4608; 13 and 14 count as
# 16, which is 73728 of 65536).
REFUSED = [
    ({"block": (416, 1, 1), "registers": 138}, "138 registers a thread, 73728 for a block of 416 threads"),
    ({"block": (448, 1, 1), "registers": 138}, "73728 for a block of 448 threads"),
    ({"block": (32, 1, 1), "registers": 256}, "has 255 a thread"),
    ({"grid": (0, 1, 1)}, r"a grid of \(0, 1, 1\) blocks; allowed are 1 to \(2147483647, 65535, 65535\)"),
    ({"grid": (1, 65536, 1)}, "a grid of"),
    ({"grid": (1, 1, 65536)}, "a grid of"),
    ({"grid": (2**31, 1, 1)}, "a grid of"),
    ({"block": (1025, 1, 1)}, r"a block of \(1025, 1, 1\) threads; allowed are 1 to \(1024, 1024, 64\)"),
    ({"block": (1, 1, 65)}, "a block of"),
    ({"block": (32, 33, 1)}, "1056 threads a block; NVIDIA H200 allows 1 to 1024"),
    ({"cluster": 3, "grid": (3, 1, 1)}, "clusters of 3 blocks; allowed are 1, 2, 4, 8, 16"),
    ({"cluster": 32, "grid": (32, 1, 1)}, "clusters of 32 blocks"),
    ({"cluster": 4, "grid": (6, 1, 1)}, "no multiple of the cluster of 4"),
    ({"cluster": (1, 2, 1), "grid": (2, 3, 1)}, r"no multiple of the cluster of \(1, 2, 1\)"),
    ({"static_shared": 1024, "dynamic_shared": 232448 - 1023}, "1024 static and 231425 dynamic bytes"),
    ({"dynamic_shared": -1}, "-1 dynamic bytes"),
    ({"max_threads": 128, "block": (160, 1, 1)}, "at most 128"),
    ({"required_block": (64, 1, 1), "block": (32, 1, 1)}, r"for blocks of \(64, 1, 1\) only"),
    ({"required_block": (64, 1, 1), "block": (32, 2, 1)}, "only"),
]
TAKEN = [
    {"block": (384, 1, 1), "registers": 138},
    {"block": (512, 1, 1), "registers": 128},
    {"block": (32, 1, 1), "registers": 255},
    {"grid": MAX_GRID},
    {"block": (16, 1, 64)},
    {"cluster": 16, "grid": (32, 1, 1)},
    {"cluster": (2, 2, 1), "grid": (4, 2, 1)},
    {"static_shared": 1024, "dynamic_shared": 232448 - 1024},
    {"max_threads": 128, "block": (128, 1, 1)},
    {"required_block": (64, 1, 1), "block": (64, 1, 1)},
]


def asked(**figures):
    return refusal(H200, **({"grid": (1, 1, 1), "block": (32, 1, 1)} | figures))


@pytest.mark.parametrize(("figures", "said"), REFUSED)
def test_what_the_driver_refuses_is_refused_with_the_figures(figures, said):
    """Each limit by itself, one past the last value that is allowed."""
    assert re.search(said, asked(**figures))


@pytest.mark.parametrize("figures", TAKEN)
def test_what_the_driver_takes_is_taken(figures):
    """The last value that is allowed of each."""
    assert asked(**figures) == ""


def test_a_turing_gpu_takes_its_1024_threads():
    """The bound of a block is the smaller one of CUDA's and the SM's."""
    assert refusal(GPUS["t4"], (1, 1, 1), (1024, 1, 1), registers=64) == ""


MANY_REGISTERS = """
extern "C" __global__ void __maxnreg__(144) k(const float* x, float* y) {
    float a[120];
    #pragma unroll
    for (int n = 0; n < 120; ++n) a[n] = x[n * blockDim.x + threadIdx.x];
    __syncthreads();
    float s = 0;
    #pragma unroll
    for (int n = 120; n-- > 0;) s = s * a[n] + a[n * 7 % 120];
    y[threadIdx.x] = s;
}
"""


def test_static_check_and_simulator_refuse_the_same_block():
    """C70: more than 128 registers a thread: a block of 384 runs, of 416 and 448 the driver refuses."""
    device = SimDevice("h200")
    image = compile_source(Source.of_text("k.cu", MANY_REGISTERS), device.arch)
    resources = of_kernel(image, "k")
    assert 129 <= resources.registers <= 144
    kernel = device.load(image, "k")
    arrays = device.upload(np.ones(120 * 448, np.float32)), device.empty((448,), "float32")
    kernel((1,), (384,), arrays)
    device.synchronize()
    assert occupancy(resources, 384, 0, H200).blocks == 1
    for threads in (416, 448):
        with pytest.raises(DeviceError, match=f"registers a thread, 73728 for a block of {threads} threads"):
            kernel((1,), (threads,), arrays)
        assert occupancy(resources, threads, 0, H200).blocks == 0


def test_a_required_block_is_the_only_one_the_simulator_takes():
    """``__block_size__`` becomes .reqntid: the driver refuses any other block, even one of as many threads."""
    text = 'extern "C" __global__ void __block_size__((64, 1, 1)) k(float* x) { x[threadIdx.x] = 1; }'
    device = SimDevice("h200")
    kernel = device.load(compile_source(Source.of_text("k.cu", text), device.arch), "k")
    x = device.empty((64,), "float32")
    kernel((1,), (64,), (x,))
    device.synchronize()
    for block in ((32,), (32, 2)):
        with pytest.raises(DeviceError, match=r"for blocks of \(64, 1, 1\) only"):
            kernel((1,), block, (x,))
