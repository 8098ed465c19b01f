"""The static checks count what they say they count: no access escapes, and no right kernel is refused."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_roofline import Launch, Shape
from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import StaticCheckError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.static import check_accesses

HEAD = 'extern "C" __global__ void k(const float4* __restrict__ x, float4* __restrict__ y, int N) '
COPY = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; float4 v = x[i]; %s y[i] = v; }"


@pytest.fixture
def accesses(shipped):
    """``accesses(text, ...)`` checks kernel k of ``text``, declared as one float4 of x read and one of y written."""

    def run(text: str, unrolled: int | None = 4, **changed: object) -> None:
        launch = Launch("k", args=("x", "y", "N"), grid=1, block=1, vector=16, unrolled=unrolled)
        launch = dataclasses.replace(launch, **changed)  # type: ignore[arg-type]
        variant = dataclasses.replace(shipped.variant("s3"), launches=(launch,))
        plan = Plan(Case(variant, Shape(M=1, N=4)), gpu_named("h200"))
        build = Build(plan, {variant.source: compile_source(Source.of_text("k.cu", text), "sm_90")})
        for built in build.launches:
            check_accesses(build, built)

    return run


def test_a_right_kernel_passes(accesses):
    """One load and one store of 16 bytes are what is declared."""
    accesses(HEAD + COPY % "")


@pytest.mark.parametrize("unrolled", [4, None])
def test_a_second_read_in_a_function_that_is_called_does_not_escape(accesses, unrolled):
    """A function that is not inlined reads x again, by another width: counted as its caller's."""
    helper = "__device__ __noinline__ float again(const float* p, int i) { return p[i]; }\n"
    text = helper + HEAD + COPY % "v.x += again((const float*)(x + i), N);"
    with pytest.raises(StaticCheckError, match=r"1 global loads of x of 16 bytes, others of \{4: 1\}"):
        accesses(text, unrolled=unrolled)


def test_what_may_be_anything_does_not_escape(accesses):
    """A call of a function that is not there to be read is refused in straight-line code, not in a loop."""
    text = 'extern "C" __device__ int printf(const char*, ...);\n' + HEAD + COPY % 'printf("%d", i);'
    with pytest.raises(StaticCheckError, match=r"call.* may touch global memory without being counted"):
        accesses(text)
    accesses(text, unrolled=None)


def test_a_read_of_one_array_or_another_does_not_escape(accesses):
    """Of which array a load reads that takes its address from either can't be told: refused in straight-line code."""
    text = HEAD + COPY % "if (N > 7) { const float4* from = N % 3 ? x : y; v.x += from[N].x; }"
    with pytest.raises(StaticCheckError, match=r"ld at k.cu:1 goes to an array that can't be told"):
        accesses(text)


def test_a_generic_load_does_not_escape(accesses):
    """A load that names no state space is one of the array that its address comes from."""
    load = 'asm volatile("ld.f32 %0, [%1];" : "=f"(v.y) : "l"(x + i));'
    with pytest.raises(StaticCheckError, match=r"1 global loads of x of 16 bytes, others of \{4: 1\}"):
        accesses(HEAD + COPY % load)


def test_shared_and_parameter_loads_are_none_of_it(accesses):
    """Loads and stores of shared memory and parameters are not global, and raise nothing."""
    body = "__shared__ volatile float s[32]; s[threadIdx.x] = v.x; __syncthreads(); v.y = s[31 - threadIdx.x] + N;"
    accesses(HEAD + COPY % body)


def test_the_table_of_sinf_is_no_narrow_access_of_ours(accesses):
    """The slow path of sinf reads a table of the device library's by 4 bytes; the kernel's own accesses are right."""
    accesses(HEAD + COPY % "v.x = sinf(v.x);")


def test_an_output_that_a_later_launch_reads_counts_as_a_load(accesses):
    """A launch that reads y back and scales it in place has one load for it, though y is no input."""
    text = 'extern "C" __global__ void k(float4* y, int N) { float4 v = y[threadIdx.x]; v.x *= N; y[threadIdx.x] = v; }'
    accesses(text, args=("y", "N"), reads=("y",))
