"""Sectors, unique bytes and bank conflicts, against the figures that the access patterns give by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.observe.traffic import SHARED, by_buffer, instructions

TEXT = """
extern "C" __global__ void strided(const float* x, float* y, int stride) {
    y[threadIdx.x] = x[threadIdx.x * stride];
}
extern "C" __global__ void vectors(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void halves(const short* x, short* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void column(float* y, int pitch) {
    extern __shared__ volatile float tile[];
    for (int i = threadIdx.x; i < 32 * pitch; i += 32) tile[i] = i;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x * pitch];
}
extern "C" __global__ void wide(float* y) {
    __shared__ float4 tile[32];
    tile[threadIdx.x] = make_float4(1, 2, 3, 4);
    __syncthreads();
    y[threadIdx.x] = tile[31 - threadIdx.x].x;
}
"""


@pytest.fixture
def launch():
    """``launch(kernel, *args, shared=0)`` runs one warp and gives the counts by argument, and the device."""
    device = SimDevice()
    device.detailed = True
    image = compile_source(Source.of_text("patterns.cu", TEXT), device.arch)

    def run(name, *args, shared=0):
        given = tuple(device.upload(a) if isinstance(a, np.ndarray) else a for a in args)
        device.launch(device.load(image, name), (1, 1, 1), (32, 1, 1), given, shared)
        device.synchronize()
        launches = device.take_launches()
        counts = by_buffer(launches)
        return {name.split(" of ")[0]: found for name, found in counts.items()}, instructions(launches)

    return run


@pytest.mark.parametrize(
    ("stride", "sectors", "distinct"), [(1, 4, 32), (2, 8, 32), (8, 32, 32), (32, 32, 32), (0, 1, 1)]
)
def test_sectors_of_a_strided_read(launch, stride, sectors, distinct):
    """32 floats are 4 sectors if they are neighbours, 32 if each lies in its own, 1 if all are the same."""
    counts, _ = launch("strided", np.zeros(1024, np.float32), np.zeros(32, np.float32), np.int32(stride))
    x, y = counts["argument 0"], counts["argument 1"]
    assert (x.lanes, x.bytes, x.requests) == (32, 128, 1)
    assert (x.sectors, x.unique_bytes) == (sectors, 4 * distinct)
    assert (y.sectors, y.unique_bytes, y.requests) == (4, 128, 1)


@pytest.mark.parametrize(("kernel", "dtype", "each"), [("vectors", np.float32, 16), ("halves", np.int16, 2)])
def test_sectors_of_wide_and_narrow_accesses(launch, kernel, dtype, each):
    """32 float4 are 16 sectors in one request, 32 shorts two."""
    counts, _ = launch(kernel, np.zeros(128, dtype), np.zeros(128, dtype))
    for found in counts.values():
        assert (found.requests, found.bytes, found.sectors) == (1, 32 * each, each)


@pytest.mark.parametrize(("pitch", "wavefronts"), [(32, 32), (33, 1), (2, 2), (16, 16), (1, 1)])
def test_bank_conflicts_of_a_column(launch, pitch, wavefronts):
    """A column of a tile 32 wide lies in one bank and takes 32 wavefronts; with a column of padding it is one."""
    counts, _ = launch("column", np.zeros(32, np.float32), np.int32(pitch), shared=4 * 32 * pitch)
    stores = pitch  # each trip of the loop writes 32 neighbours: one wavefront
    assert counts[SHARED].wavefronts == stores + wavefronts
    assert counts[SHARED].requests == stores + 1


def test_wide_shared_accesses_go_by_quarter_warps(launch):
    """A float4 a lane is four wavefronts of 128 bytes without a conflict; a float out of each is a conflict of four."""
    counts, executed = launch("wide", np.zeros(32, np.float32))
    assert counts[SHARED].wavefronts == 4 + 4
    assert sum(count for opcode, count in executed.items() if opcode.startswith("st.shared")) == 32


def test_counts_of_detail_are_off_by_default():
    """Without :attr:`detailed` sectors are not counted: it takes its time."""
    assert SimDevice().detailed is False
