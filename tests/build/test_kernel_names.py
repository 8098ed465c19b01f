"""Kernels by the name a user writes: templates, namespaces, mangled names, and what is said where none fits."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pytest_roofline.build import nvrtc as compiling
from pytest_roofline.build.image import Image, read_image
from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.ptx import names
from pytest_roofline.build.ptx.names import demangled, expression, matching
from pytest_roofline.build.ptxas import of_kernel
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError
from pytest_roofline.sim.device import SimDevice

TEMPLATE = """
namespace ns {
template <int BLOCK, class T, bool FAST = false>
__global__ void __launch_bounds__(BLOCK) scale(const T* x, T* y, T by) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    y[i] = x[i] * by;
}
namespace inner { __global__ void plain(int* y) { y[threadIdx.x] = 7; } }
}
template <class T> __global__ void fill(T* y, T v) { y[threadIdx.x] = v; }
"""
INSTANCES = (
    TEMPLATE
    + """
template __global__ void fill<float>(float*, float);
template __global__ void fill<unsigned>(unsigned*, unsigned);
template __global__ void ns::scale<256, float>(const float*, float*, float);
template __global__ void ns::scale<128, double, true>(const double*, double*, double);
extern "C" __global__ void raw(float* y) { y[0] = 1; }
"""
)


def built(text: str, *wanted: str, arch: str = "sm_90") -> Image:
    return compile_source(Source.of_text("k.cu", text), arch, names=wanted)


@pytest.mark.parametrize("name", ["ns::scale<256, float>", "ns::scale< 256,float >", "::ns::scale<256, float, false>"])
def test_an_instance_that_is_asked_for_is_made(name: str) -> None:
    """NVRTC compiles it, whatever is said of it in the source, and it is found by what was asked."""
    image = built(TEMPLATE, name)
    assert len(image.kernels()) == 2
    assert image.entry(name) in image.kernels()
    assert image.max_threads(name) == 256
    assert image.parameters(name) == ("u64", "u64", "f32")
    assert image.lowered == ((name, image.entry(name)),)
    assert of_kernel(image, name).registers > 0


@pytest.mark.parametrize(
    ("name", "is_"),
    [
        ("raw", "raw"),
        ("fill<float>", "void fill<float>(float*, float)"),
        ("fill<unsigned int>", "void fill<unsigned int>(unsigned int*, unsigned int)"),
        ("fill<unsigned>", "void fill<unsigned int>(unsigned int*, unsigned int)"),
        ("ns::scale<256,float>", "void ns::scale<256, float, false>(float const*, float*, float)"),
        ("ns::scale<(int)256, float, false>", "void ns::scale<256, float, false>(float const*, float*, float)"),
        ("ns::scale<256>", "void ns::scale<256, float, false>(float const*, float*, float)"),
        ("&ns::scale<128u>", "void ns::scale<128, double, true>(double const*, double*, double)"),
        ("ns::inner::plain", "ns::inner::plain(int*)"),
        ("_ZN2ns5inner5plainEPi", "ns::inner::plain(int*)"),
    ],
)
def test_explicit_instances_are_found_without_asking(name: str, is_: str) -> None:
    """Weak entries are kernels; spelling and default arguments do not matter."""
    image = built(INSTANCES)
    assert len(image.kernels()) == 6
    assert demangled(image.entry(name)) == is_


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ns::scale", "k.cu has several kernels ns::scale: ns::scale<256, float, false>, ns::scale<128, double, true>"),
        ("fill", "several kernels fill: fill<float>, fill<unsigned int>; name one of them in full"),
        ("fill<int>", "has no kernel fill<int>; it has fill<float>, fill<unsigned int>, raw, ns::inner::plain"),
        ("scale<256, float>", "an instance of a template is named with namespace and arguments"),
        ("plain", 'write extern "C" __global__ void plain(...), or correct the name'),
        ("fil", "has no kernel fil;"),
        ("ns::scale<25>", "has no kernel ns::scale<25>"),
    ],
)
def test_a_name_that_fits_none_or_several_is_an_error(name: str, said: str) -> None:
    """With the names there are, as one writes them."""
    with pytest.raises(CompileError, match=re.escape(said)):
        built(INSTANCES).entry(name)


def test_an_instance_that_can_not_be_made_is_a_compile_error() -> None:
    """NVRTC's own words, and the expression."""
    with pytest.raises(CompileError, match="no_such<3>"):
        built(TEMPLATE, "no_such<3>")


def test_a_kernel_that_is_found_runs() -> None:
    """By its expression, in the simulator."""
    device = SimDevice("h200")
    image = built(TEMPLATE, "ns::scale<64, float>", "fill<short>", arch=device.arch)
    x = device.upload(np.arange(128, dtype=np.float32))
    y = device.empty((128,), "float32")
    device.load(image, "ns::scale<64, float>")((2,), (64,), (x, y, np.float32(3)))
    device.synchronize()
    assert (device.download(y) == 3 * np.arange(128)).all()
    assert device.load(image, "ns::scale<64,float>") is device.load(image, image.entry("ns::scale<64>"))


def test_expressions_are_part_of_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other expressions are another build; from the cache comes what the compiler said; plain names change nothing."""
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path))
    first = built(TEMPLATE, "fill<float>")
    assert read_image(first.file) == first
    assert built(TEMPLATE, "fill<int>").key != first.key
    assert built(TEMPLATE, "fill<float>", "fill<int>").key != first.key
    assert built(TEMPLATE, "plain").key == built(TEMPLATE).key
    monkeypatch.setattr(compiling, "_compile", None)
    assert built(TEMPLATE, "fill<float>", "raw").entry("fill<float>") == first.entry("fill<float>")


def test_without_a_library_that_demangles_the_compiler_s_word_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for is found, and names as PTX has them."""
    image = built(TEMPLATE, "fill<float>")
    demangled.cache_clear()
    monkeypatch.setattr(names, "_demangler", lambda: None)
    try:
        assert image.entry("fill<float>") == "_Z4fillIfEvPT_S0_"
        assert image.entry("_Z4fillIfEvPT_S0_") == "_Z4fillIfEvPT_S0_"
        with pytest.raises(CompileError, match="it has _Z"):
            image.entry("ns::inner::plain")
    finally:
        demangled.cache_clear()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("_Z5scalePf", "scale"),
        ("_ZN12_GLOBAL__N_11kILi3EEEvPf", "k<3>"),
        ("_Z1kIN1a1bIiEELm4EEvT_", "k<a::b<int>, 4ul>"),
        ("k_param", "k_param"),
        ("_Znonsense", "_Znonsense"),
    ],
)
def test_how_a_kernel_is_named_in_cpp(name: str, written: str) -> None:
    """Without result and parameters; an anonymous namespace has no name."""
    assert expression(name) == written
    assert matching(written, [name]) == (name,)
