"""Bad arrays and numbers are refused before any launch, on the device itself. Ids carry the case number."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_roofline import Shape
from pytest_roofline.errors import RefusedError, UnknownNameError
from pytest_roofline.run.arguments import bind
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run

SHAPE = Shape(M=4, N=2048)


@pytest.fixture
def given(device, suite):
    """``given(variant, **changed)`` binds the variant to good arrays of SHAPE, some replaced; y is poison before."""

    def make(variant, scalars=None, **changed):
        build = Build.of(Plan(Case(variant, SHAPE, suite), device.gpu))
        arrays = {a.name: device.upload(np.ones(a.shape(SHAPE), np.float32)) for a in variant.operator.inputs}
        arrays |= {a.name: device.empty(a.shape(SHAPE), "float32") for a in variant.operator.outputs}
        return bind(device, build, arrays | changed, scalars)

    return make


def test_good_arrays_are_taken(given, variant):
    """The arrays that the refusals start from are accepted, so a refusal is due to the change alone."""
    given(variant).run()


def test_c20_a_view_with_gaps(given, device, variant):
    """base[:, 1:2049] of a (4, 2080) array is refused with its strides."""
    base = device.upload(np.ones((4, 2080), np.float32))
    with pytest.raises(RefusedError, match=r"strides are \(8320, 4\)"):
        given(variant, x=base[:, 1:2049])


def test_wrong_dtype(given, device, variant):
    """float64 where float32 is declared is refused with both names."""
    with pytest.raises(RefusedError, match="it is float64, allowed is float32"):
        given(variant, x=device.upload(np.ones((4, 2048))))


def test_wrong_shape(given, device, variant):
    """An array of another shape is refused with both shapes."""
    with pytest.raises(RefusedError, match=r"its shape is \(4, 2047\), allowed is \(4, 2048\)"):
        given(variant, x=device.upload(np.ones((4, 2047), np.float32)))


def test_misaligned(given, device, variant):
    """A contiguous array that starts 4 bytes off is refused by variants of 128-bit accesses, taken by the others."""
    base = device.upload(np.ones(4 * 2048 + 1, np.float32))
    shifted = base[1:].reshape(4, 2048)
    if variant.alignment == 16:
        with pytest.raises(RefusedError, match="not a multiple of 16 bytes"):
            given(variant, x=shifted)
    else:
        given(variant, x=shifted).run()


def test_overlap(given, device, variant):
    """x and y in the same memory are refused, whole or in part: the pointers are __restrict__."""
    base = device.upload(np.ones((6, 2048), np.float32))
    for x, y in ((base[:4], base[:4]), (base[:4], base[2:])):
        with pytest.raises(RefusedError, match="overlap in memory"):
            given(variant, x=x, y=y)


def test_a_numpy_array_is_no_device_array(given, variant):
    """A host array is refused by type, with what to do."""
    with pytest.raises(RefusedError, match=r"numpy\.ndarray is refused.*nothing was launched"):
        given(variant, x=np.ones((4, 2048), np.float32))


def test_an_array_of_another_device(given, cuda_device, suite):
    """An array on another GPU is refused with both device numbers."""
    device, cupy = cuda_device, cuda_device.cupy
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("not checked: one GPU only, this needs two")
    other = (device.index + 1) % 2
    with cupy.cuda.Device(other):
        x = cupy.empty((4, 2048), np.float32)
    with pytest.raises(RefusedError, match=f"CUDA device {other} is refused"):
        given(suite.variants[0], x=x)


def test_missing_and_unknown_arrays(given, device, suite, variant):
    """A missing array and an unknown one are refused by name."""
    build = Build.of(Plan(Case(variant, SHAPE, suite), device.gpu))
    with pytest.raises(RefusedError, match="needs the array x"):
        bind(device, build, {})
    with pytest.raises(RefusedError, match="takes no z"):
        given(variant, z=device.empty((1,), "float32"))


@pytest.mark.parametrize(("scalars", "message"), [({"eps": 1e300}, "overflows float"), ({"epsilon": 1.0}, "takes no")])
def test_bad_scalars(given, suite, scalars, message):
    """A scalar that its type can't hold, and one that does not exist, are refused."""
    for variant in suite.family(suite.operators["rmsnorm"]):
        with pytest.raises(RefusedError, match=message):
            given(variant, scalars)


def test_a_refusal_writes_nothing(given, device, variant):
    """After a refusal the output is still poison."""
    y = device.empty((4, 2048), "float32")
    with pytest.raises(RefusedError):
        given(variant, y=y, x=device.upload(np.ones((4, 2047), np.float32)))
    device.synchronize()
    assert np.isnan(device.download(y)).all()


def test_kernels_are_handed_out_to_be_called(kernels, device):
    """kernels("sm_s1_max") can be launched by hand, on a GPU as the CuPy RawKernel that it is."""
    kernel = kernels("sm_s1_max")
    assert type(kernel).__name__ in ("RawKernel", "SimKernel")
    x = device.upload(np.arange(8, dtype=np.float32).reshape(2, 4))
    out = device.empty((2,), "float32")
    kernel((2,), (256,), (x, out, np.int32(4)))
    assert device.download(out).tolist() == [3.0, 7.0]


def test_c28_dynamic_shared_memory_is_opted_in(device):
    """98304 bytes of dynamic shared memory are opted in and run, or refused with the GPU's limit."""
    from pytest_roofline.build.nvrtc import compile_source
    from pytest_roofline.build.source import Source

    text = """
    extern "C" __global__ void last(float* y) {
        extern __shared__ float cells[];
        cells[24575 - threadIdx.x] = threadIdx.x;
        __syncthreads();
        y[threadIdx.x] = cells[24575 - threadIdx.x];
    }"""
    kernel = device.load(compile_source(Source.of_text("last.cu", text), device.arch), "last")
    y = device.empty((32,), "float32")
    if device.gpu.shared_per_block_optin < 98304:
        pytest.skip(f"not checked: {device.gpu.name} gives a block {device.gpu.shared_per_block_optin} bytes at most")
    device.launch(kernel, (1, 1, 1), (32, 1, 1), (y,), 98304)
    device.synchronize()
    assert device.download(y).tolist() == list(range(32))


def test_c50_memory_is_freed_between_cases(cuda_device, suite):
    """Large jobs in a row, each over a third of the GPU, fit one after the other."""
    device = cuda_device
    free, _ = device.cupy.cuda.runtime.memGetInfo()
    variant = suite.variants[-1]
    columns = 8192
    shape = Shape(M=int(0.35 * free) // 2 // (4 * columns), N=columns)
    for _ in range(6):
        run = Run(device, Build.of(Plan(Case(variant, shape, suite), device.gpu)))
        run.run()
        device.synchronize()
        del run
        device.release()


def test_c50_out_of_memory_names_the_sizes(cuda_device):
    """More memory than the GPU has is an error of its own, with the sizes, and a test that meets it is skipped."""
    from pytest_roofline.errors import DeviceMemoryError

    device = cuda_device
    _, total = device.cupy.cuda.runtime.memGetInfo()
    with pytest.raises(DeviceMemoryError, match=f"of {total} bytes are free"):
        device.empty((total,), "float32")


def test_a_kernel_that_is_compiled_for_its_shape_needs_one(kernels, suite, device):
    """By name alone it is refused, for it would be built for another width; with a shape it is that shape's."""
    with pytest.raises(
        UnknownNameError, match=r"'rms_n5' is compiled for its shape: kernels\('rms_n5', Shape\(\.\.\.\)\)"
    ):
        kernels("rms_n5")
    assert kernels("rms_n5", Shape(M=4, N=1000)).name == "rms_n5"
