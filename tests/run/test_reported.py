"""What was reported to pass, or to fail for the wrong reason, comes out right. Ids carry the case number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant, ceil_div
from pytest_roofline.errors import DeclarationError, DeviceError, RefusedError, WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.device import MEASURED
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import SAMPLE_UNITS, check
from pytest_roofline.sim.device import SimDevice

GPU = gpu_named("h200")


class Blind(SimDevice):
    """As a GPU: it runs all blocks, and does not know which elements kernels stored to."""

    evidence = MEASURED

    def written(self, array):
        return None


@pytest.fixture
def checked(tmp_path: Path):
    """``checked(operator, launch, text, M=8)`` builds the kernel in ``text``, runs it and compares."""

    def run(operator: Operator, launch: Launch, text: str, inputs=None, device=SimDevice, **extents: int):
        (tmp_path / "kernel.cu").write_text(text)
        variant = replace(Variant("v1", operator, "kernel.cu", launch), root=tmp_path)
        return check(device(GPU), Build.of(Plan(Case(variant, Shape(**extents)), GPU)), inputs)

    return run


def each(kernel: str, *args: str, **how) -> Launch:
    """A thread for each of N elements."""
    return Launch(kernel, args=(*args, "N"), grid=lambda s: ceil_div(s.N, 256), block=256, **how)


HEAD = (
    'extern "C" __global__ void k({}, long long N) {{ long long i = blockIdx.x * 256LL + threadIdx.x; if (i < N) {} }}'
)
DOUBLE = Operator(
    "double",
    "y = 2 x",
    arrays=(Array("x", ("N",)), Array("y", ("N",), role="output")),
    reference=lambda v: {"y": 2 * v.x},
)

REGISTERS = """
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
FOLDED = Operator(
    "folded",
    "y = a polynomial of x",
    arrays=(Array("x", (120, "N"), high=0.5), Array("y", ("N",), role="output", rtol=1e-4)),
    reference=lambda v: {"y": folded(v.x)},
)


def folded(x: np.ndarray) -> np.ndarray:
    s = np.zeros(x.shape[1])
    for n in reversed(range(120)):
        s = s * x[n] + x[n * 7 % 120]
    return s


def test_c70_a_block_without_registers_is_refused_before_it_runs(tmp_path, checked):
    """More than 128 registers a thread: 384 threads run, 416 are refused with the figures; nothing is modelled of 0."""

    def launch(threads):
        return Launch("k", args=("x", "y"), grid=1, block=threads)

    assert checked(FOLDED, launch(384), REGISTERS, N=384).values == 384
    refused = r"k is refused.*registers a thread, 73728 for a block of 416 threads"
    with pytest.raises((RefusedError, DeviceError), match=refused):
        checked(FOLDED, launch(416), REGISTERS, N=416)
    variant = replace(Variant("v1", FOLDED, "kernel.cu", launch(416)), root=tmp_path)
    with pytest.raises(RefusedError, match=refused):
        Build.of(Plan(Case(variant, Shape(N=416)), GPU))


GREEDY = HEAD.format("float* x, float* y", "{ y[i] = 2 * x[i]; MORE }")


@pytest.mark.parametrize("device", [SimDevice, Blind])
@pytest.mark.parametrize("size", [1000, 2**20 + 1000, 256 * SAMPLE_UNITS + 1000])
@pytest.mark.parametrize("which", ["i == N - 1", "i == 0"])
def test_c79_an_overwritten_input_is_found_at_any_size(checked, size, which, device):
    """One element of x changed: named at a thousand elements, past 2^20, and where blocks are sampled."""
    assert checked(DOUBLE, each("k", "x", "y"), GREEDY.replace("MORE", ""), N=size, device=device).values > 0
    named = r"the kernel changed its input x, first x\[" + ("0" if which.endswith("== 0") else str(size - 1))
    with pytest.raises(WrongAnswerError, match=named):
        checked(DOUBLE, each("k", "x", "y"), GREEDY.replace("MORE", f"if ({which}) x[i] = -1;"), N=size, device=device)


@pytest.mark.parametrize("device", [SimDevice, Blind])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "bool", "uint8"])
def test_c90_an_output_that_is_never_written_is_found_whatever_poison_means(checked, dtype, device):
    """Where -1, 255 or true is right everywhere, an element that is not written is wrong all the same."""
    kinds = {"int8": "signed char", "int32": "int", "int64": "long long", "bool": "bool", "uint8": "unsigned char"}
    value = {"bool": 1, "uint8": 255}.get(dtype, -1)
    operator = Operator(
        "below",
        "y = -1 where x < 2",
        arrays=(Array("x", ("N",)), Array("y", ("N",), role="output", dtype=dtype)),
        reference=lambda v: {"y": np.where(v.x < 2, value, 0)},
    )
    text = HEAD.format(f"const float* x, {kinds[dtype]}* y", "if (CONDITION) y[i] = x[i] < 2 ? VALUE : 0;")
    text = text.replace("VALUE", str(value))
    launch = each("k", "x", "y")
    assert checked(operator, launch, text.replace("CONDITION", "true"), N=1000, device=device).values == 1000
    with pytest.raises(WrongAnswerError, match=r"1 of 1000 values of y were never written, the first is y\[17\]"):
        checked(operator, launch, text.replace("CONDITION", "i != 17"), N=1000, device=device)


QUANTISE = """
extern "C" __global__ void k(const float* x, signed char* q, float* scale, long long N) {
    long long row = blockIdx.x;
    float most = 0;
    for (long long i = 0; i < N; ++i) most = fmaxf(most, fabsf(x[row * N + i]));
    for (long long i = threadIdx.x; i < N; i += 32) q[row * N + i] = (signed char)rintf(x[row * N + i] * (127 / most));
    if (threadIdx.x == 0) scale[row] = most / DIVISOR;
}
"""


def test_c91_each_output_has_a_tolerance_of_its_own(checked):
    """int8 values may be one off, their scale may not: half the scale is wrong, and it is named."""
    operator = Operator(
        "quantise",
        "q = round(x / scale)",
        arrays=(
            Array("x", ("M", "N"), low=-4.0, high=4.0),
            Array("q", ("M", "N"), role="output", dtype="int8", atol=1),
            Array("scale", ("M",), role="output", rtol=1e-5),
        ),
        reference=lambda v: {
            "q": np.rint(v.x * 127 / np.abs(v.x).max(axis=1, keepdims=True)),
            "scale": np.abs(v.x).max(axis=1) / 127,
        },
    )
    launch = Launch("k", args=("x", "q", "scale", "N"), grid=lambda s: s.M, block=32)
    assert checked(operator, launch, QUANTISE.replace("DIVISOR", "127"), M=4, N=100).values == 404
    with pytest.raises(WrongAnswerError, match="4 of 4 values of scale are wrong"):
        checked(operator, launch, QUANTISE.replace("DIVISOR", "254"), M=4, N=100)


def test_c92_an_index_below_an_extent_and_a_null_pointer_are_supported(checked):
    """high="N" keeps an index below N, and None among the arguments is a null pointer to the kernel."""
    operator = Operator(
        "gather",
        "y = x[at]",
        arrays=(
            Array("x", ("N",)),
            Array("at", ("M",), dtype="int32", high="N"),
            Array("y", ("M",), role="output", rtol=0.0),
        ),
        reference=lambda v: {"y": v.x[v.at]},
    )
    text = """
    extern "C" __global__ void k(const float* x, const int* at, float* y, const float* bias, int M) {
        if (threadIdx.x < M) y[threadIdx.x] = bias ? bias[0] : x[at[threadIdx.x]];
    }
    """
    launch = Launch("k", args=("x", "at", "y", None, "M"), grid=1, block=64)
    assert checked(operator, launch, text, M=40, N=7).values == 40
    with pytest.raises(DeclarationError, match="bounds array 'at' by 'V'; its extents are N, M"):
        replace(operator, arrays=(operator.arrays[0], replace(operator.arrays[1], high="V"), operator.arrays[2]))


def test_c93_a_reference_that_overflows_its_type_wants_infinity(checked):
    """x + r = 4e38 is inf as fp32: inf is right, -inf and the largest float are wrong; 3e38 is finite and not inf."""
    operator = Operator(
        "add",
        "h = x + r",
        arrays=(Array("x", ("N",)), Array("r", ("N",)), Array("h", ("N",), role="output")),
        reference=lambda v: {"h": v.x + v.r},
    )
    text = HEAD.format("const float* x, const float* r, float* h", "h[i] = SUM;")
    launch = each("k", "x", "r", "h")
    inputs = {name: np.full(64, 2e38, np.float32) for name in "xr"}
    assert checked(operator, launch, text.replace("SUM", "x[i] + r[i]"), inputs, N=64).values == 64
    for wrong in ("-x[i] - r[i]", "3.4028234e38f"):
        with pytest.raises(WrongAnswerError, match="64 of 64 values of h are wrong"):
            checked(operator, launch, text.replace("SUM", wrong), inputs, N=64)
    finite = {name: np.full(64, 1.5e38, np.float32) for name in "xr"}
    with pytest.raises(WrongAnswerError, match="64 of 64 values of h are wrong"):
        checked(operator, launch, text.replace("SUM", "2 * (x[i] + r[i])"), finite, N=64)


@pytest.mark.parametrize("loose", [{"atol": 1.0}, {"rtol": 1.0}])
def test_c94_a_tolerance_that_accepts_zeros_is_refused_when_declared(loose):
    """A suite of such an operator is an error that names the output; a tighter one is not, nor an output that is 0."""

    def suite(**tolerance):
        arrays = (Array("x", ("N",), low=0.1), Array("y", ("N",), role="output", **tolerance))
        operator = Operator("half", "y = x / 2", arrays=arrays, reference=lambda v: {"y": v.x / 2})
        return Suite((Variant("v1", operator, "kernel.cu", each("k", "x", "y")),))

    with pytest.raises(DeclarationError, match="operator 'half': the tolerance of y accepts an answer of zeros"):
        suite(**loose)
    suite(atol=0.01)
    zero = Operator("zero", "y = 0", (Array("y", ("N",), role="output"),), lambda v: {"y": np.zeros(v.N)})
    Suite((Variant("v1", zero, "kernel.cu", each("k", "y")),))
