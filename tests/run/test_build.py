"""What the GPU can't hold is refused when it is built, by the rule that the simulator and the driver have."""

from __future__ import annotations

from functools import reduce

import pytest

from pytest_roofline import Array, Launch, Operator, Shape
from pytest_roofline.errors import RefusedError
from pytest_roofline.run.run import check
from pytest_roofline.sim.device import SimDevice

TOTAL = Operator(
    "total",
    "y = y x[n] + x[7 n % 120] for n from 119 to 0",
    arrays=(Array("x", (120, "T")), Array("y", ("T",), role="output")),
    reference=lambda v: {"y": reduce(lambda y, n: y * v.x[n] + v.x[7 * n % 120], range(119, -1, -1), 0 * v.x[0])},
)
# All 120 values are kept over the barrier, so that the kernel needs more than 128 registers.
MANY_REGISTERS = """
extern "C" __global__ void __maxnreg__(144) total(const float* x, float* y, int T) {
    float a[120];
    #pragma unroll
    for (int n = 0; n < 120; ++n) a[n] = x[n * T + threadIdx.x];
    __syncthreads();
    float s = 0;
    #pragma unroll
    for (int n = 120; n-- > 0;) s = s * a[n] + a[n * 7 % 120];
    y[threadIdx.x] = s;
}
"""


def test_c70_a_block_whose_registers_an_sm_does_not_have_is_refused(declared, built):
    """384 threads of 138 registers are one block an SM; 416 and 448 are refused, never modelled with 0 blocks."""
    suite = declared(MANY_REGISTERS, TOTAL, Launch("total", args=("x", "y", "T"), grid=1, block=lambda s: s.T))
    fits = built(suite, Shape(T=384))
    assert fits.launches[0].resources.registers > 128
    assert fits.launches[0].occupancy.blocks == 1
    assert 0 < fits.waves < 1
    assert check(SimDevice("h200"), fits).values == 384
    for threads in (416, 448):
        with pytest.raises(RefusedError, match=rf"nothing was launched: .*registers.* a block of {threads} threads"):
            built(suite, Shape(T=threads))
