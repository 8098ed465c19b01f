"""NVRTC without a GPU: what compiles, what the errors say, and the cache."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.build import nvrtc as compiling
from pytest_roofline.build.cache import CacheWarning
from pytest_roofline.build.image import read_image
from pytest_roofline.build.nvrtc import FLAGS, Image, compile_source, compiler, supported_architectures
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError

KERNEL = 'extern "C" __global__ void k(float* x, int n, float a, double d, long long q) { x[n + q] = a + d; }\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(folder))
    return folder


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the sources that really went to the compiler."""
    done: list[str] = []
    real = compiling._compile

    def counted(source: Source, *how: Any) -> Any:
        done.append(source.name)
        return real(source, *how)

    monkeypatch.setattr(compiling, "_compile", counted)
    return done


def entry_of(image: Image, cache: Path) -> Path:
    return cache / "store" / image.key


def built(text: str, arch: str = "sm_90", *extra: str) -> Image:
    return compile_source(Source.of_text("some.cu", text), arch, extra)


def test_an_image_has_ptx_machine_code_report_and_types(cache: Path) -> None:
    """One compilation gives PTX, an ELF, ptxas's report without its zero byte, and the parameter types."""
    image = built(KERNEL)
    assert (image.name, image.arch, image.kernels()) == ("some.cu", "sm_90", ("k",))
    assert ".target sm_90" in image.ptx
    assert image.cubin.startswith(b"\x7fELF")
    assert image.path.read_bytes() == image.cubin
    assert "Used " in image.log
    assert "\0" not in image.log + image.ptx
    assert image.parameters("k") == ("u64", "u32", "f32", "f64", "u64")


def test_reports_name_the_file() -> None:
    """Line information and errors carry the .cu file's name and its own line numbers."""
    assert re.search(r'\.file\s+1\s+".*some\.cu"', built(KERNEL).ptx)
    with pytest.raises(CompileError, match=r"some\.cu\(2\): error"):
        built("\nnonsense\n")


def test_c24_kernel_without_extern_c() -> None:
    """It is found by the name that it has in the source, and by the one in PTX."""
    image = built("__global__ void scale(float* x) { x[0] *= 2.0f; }\n")
    assert image.kernels() == ("_Z5scalePf",)
    assert image.entry("scale") == image.entry("_Z5scalePf") == "_Z5scalePf"
    assert image.parameters("scale") == ("u64",)


def test_c24_a_name_that_is_not_there_at_all() -> None:
    """A wrong name is an error that lists the right ones; so is a source without kernels."""
    with pytest.raises(CompileError, match=r"has no kernel kk; it has k; .*correct the name in the declaration"):
        built(KERNEL).parameters("kk")
    with pytest.raises(CompileError, match="it has none"):
        built("__device__ float f() { return 1.0f; }\n").require("k")


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("stdint.h", "uint64_t v = UINT32_MAX; x[0] = (float)v;"),
        ("cstdint", "int16_t v = INT16_MIN; x[0] = (float)v;"),
        ("math.h", "x[0] = INFINITY;"),
        ("cmath", "x[0] = NAN;"),
        ("float.h", "x[0] = FLT_MAX; x[1] = FLT_MIN;"),
        ("cfloat", "x[0] = FLT_EPSILON;"),
        ("limits.h", "x[0] = (float)INT_MAX;"),
        ("climits", "x[0] = (float)UINT_MAX;"),
        ("cuda_fp16.h", "x[0] = __half2float(__float2half(x[1]));"),
        ("cuda_bf16.h", "x[0] = __bfloat162float(__float2bfloat16(x[1]));"),
    ],
)
def test_c25_headers_that_kernels_use_are_there(header: str, body: str) -> None:
    """The C headers that kernels use, and CUDA's 16-bit types, compile without a CUDA toolkit."""
    assert built(f'#include <{header}>\nextern "C" __global__ void k(float* x) {{ {body} }}\n').kernels() == ("k",)


@pytest.mark.parametrize(
    ("body", "identifier", "header"),
    [
        ("uint8_t v = 1; x[0] = v;", "uint8_t", "stdint.h"),
        ("x[0] = INFINITY;", "INFINITY", "math.h"),
        ("x[0] = FLT_MAX;", "FLT_MAX", "float.h"),
        ("x[0] = INT_MAX;", "INT_MAX", "limits.h"),
        ("__half h; x[0] = 1.0f;", "__half", "cuda_fp16.h"),
    ],
)
def test_c25_a_missing_include_is_named(body: str, identifier: str, header: str) -> None:
    """A name that needs a header is an error with the include to write."""
    with pytest.raises(CompileError) as raised:
        built(f'extern "C" __global__ void k(float* x) {{ {body} }}\n')
    assert f"fix: {identifier} comes from {header}; write #include <{header}>" in str(raised.value)


@pytest.mark.parametrize(
    ("header", "from_where"),
    [
        ("gone_header.h", "beside the file that includes them with quotes"),
        ("vector", "NVRTC has no host library"),
        ("cuda_gone.h", "nvidia-cuda-runtime-cu12"),
        ("cub/cub.cuh", "CCCL"),
    ],
)
@pytest.mark.parametrize("line", ["#include <{}>", '#include "{}"'])
def test_c25_a_header_that_is_nowhere(line: str, header: str, from_where: str) -> None:
    """A header that is not on the include path is an error with its name and where such headers come from."""
    with pytest.raises(
        CompileError, match=rf"fix: the header {re.escape(header)} is not on the include path"
    ) as raised:
        built(line.format(header) + "\n")
    assert from_where in str(raised.value)


@pytest.mark.parametrize("arch", ["sm_999", "compute_90", "90", "sm_90x", ""])
def test_c26_unknown_architecture(arch: str) -> None:
    """An architecture that the compiler does not know is an error with it, the version, and all that it supports."""
    with pytest.raises(CompileError) as raised:
        built(KERNEL, arch)
    said = str(raised.value)
    assert f"{compiler()} can't compile some.cu for {arch}; it supports" in said
    assert all(known in said for known in supported_architectures())


def test_c26_variants_of_a_known_architecture(cache: Path) -> None:
    """sm_90a is a variant of sm_90 and compiles."""
    image = built(KERNEL, "sm_90a")
    assert ".target sm_90a" in image.ptx
    assert entry_of(image, cache).is_file()


@pytest.mark.parametrize("flag", ["-O3", "--no-such-flag"])
def test_c26_a_flag_that_nvrtc_rejects(flag: str) -> None:
    """A flag that NVRTC does not take is an error with the flag, the version and what to do."""
    with pytest.raises(CompileError) as raised:
        built(KERNEL, "sm_90", flag)
    said = str(raised.value)
    assert compiler() in said
    assert flag in said.split("flags:")[0]  # in the compiler's own words, not only in the list of all flags
    assert "fix: NVRTC takes no nvcc-only flag" in said


def test_too_much_shared_memory_is_a_compile_error() -> None:
    """More static shared memory than a block may have is an error that carries ptxas's figures."""
    text = 'extern "C" __global__ void k(float* x) { __shared__ float s[20000]; s[threadIdx.x] = x[0]; x[1] = s[7]; }\n'
    with pytest.raises(CompileError, match="uses too much shared data") as raised:
        built(text)
    assert "\0" not in str(raised.value)


def test_missing_nvrtc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without NVRTC the error says so and names the extras that bring it."""
    compiling._nvrtc.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(CompileError, match=r"NVRTC.*can't be loaded.*pip install 'pytest-roofline\[cuda12\]'"):
        compiler()


def test_a_second_compilation_comes_from_the_cache(cache: Path, compilations: list[str]) -> None:
    """The same source is compiled once, and the cached image equals the first."""
    first = built(KERNEL)
    assert built(KERNEL) == first
    assert read_image(first.file) == first
    assert compilations == ["some.cu"]
    assert entry_of(first, cache).is_file()


def test_each_thing_that_changes_the_result_changes_the_key(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text, name, header, flag, architecture, compiler and CUDA headers each lead to an image of their own."""
    source = Source.of_text("some.cu", KERNEL)
    keys = [
        compile_source(source, "sm_90").key,
        compile_source(dataclasses.replace(source, text=KERNEL + " "), "sm_90").key,
        compile_source(dataclasses.replace(source, name="other.cu"), "sm_90").key,
        compile_source(dataclasses.replace(source, headers={**source.headers, "h.cuh": ""}), "sm_90").key,
        compile_source(source, "sm_90", ("--maxrregcount=32",)).key,
        compile_source(source, "sm_80").key,
    ]
    (tmp_path / "cuda_runtime_api.h").write_text("// another version\n")
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "cuda_include", lambda: str(tmp_path))
        keys.append(compile_source(source, "sm_90").key)
        (tmp_path / "cuda_runtime_api.h").write_text("// yet another version\n")
        keys.append(compile_source(source, "sm_90").key)
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "compiler", lambda: "NVRTC 99.9")
        keys.append(compile_source(source, "sm_90").key)
    assert len(set(keys)) == len(keys) == 9
    assert all((cache / "store" / key).is_file() for key in keys)


def test_a_changed_header_is_compiled_anew(cache: Path, tmp_path: Path, compilations: list[str]) -> None:
    """A change in an included header alone gives another result, not the cached one."""
    text = '#include "h.cuh"\nextern "C" __global__ void k(int* x) { x[0] = VALUE; }\n'
    (tmp_path / "main.cu").write_text(text)
    for value in ("7654321", "7654322", "7654321"):
        (tmp_path / "h.cuh").write_text(f"#define VALUE {value}\n")
        assert value in compile_source(Source.read(tmp_path / "main.cu"), "sm_90").ptx
    assert len(compilations) == 2


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a byte of the machine code": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a figure of the report": lambda data: data.replace(b"Used ", b"Used 9"),
    "cut": lambda data: data[:100],
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_compiled_anew(cache: Path, compilations: list[str], damage: str) -> None:
    """Damage to a cached image is noticed, and the image made anew and written over."""
    first = built(KERNEL)
    entry = entry_of(first, cache)
    entry.write_bytes(DAMAGE[damage](entry.read_bytes()))
    again = built(KERNEL)
    assert dataclasses.replace(again, log="", cubin=b"") == dataclasses.replace(first, log="", cubin=b"")
    assert len(compilations) == 2
    assert built(KERNEL) == again
    assert len(compilations) == 2


def test_without_a_cache_images_are_compiled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str]
) -> None:
    """A cache that can't be written is said once; an image is made once in the process, and its files are its own."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(CacheWarning, match=r"can't be written to .*file.*set PYTEST_ROOFLINE_CACHE") as said:
        image, other = built(KERNEL), built(KERNEL + " ")
    assert len(said) == 1
    assert built(KERNEL) == image != other
    assert len(compilations) == 2
    assert image.path.read_bytes() == image.cubin
    assert read_image(image.file) == image
    assert tmp_path not in image.path.parents


def test_an_image_that_another_process_reads(tmp_path: Path) -> None:
    """Through a file it is equal; where the file is cut or gone there is none."""
    image = built(KERNEL, "sm_90", "-DA=1")
    copy = tmp_path / "copy"
    copy.write_bytes(image.file.read_bytes())
    assert read_image(copy) == image
    copy.write_bytes(image.file.read_bytes()[:-1])
    assert read_image(copy) is None
    assert read_image(tmp_path / "gone") is None


def test_flags_flush_subnormals_and_keep_lines_and_report() -> None:
    """The flags of every build include those that CuPy adds, line information, and ptxas's report."""
    assert {"-ftz=true", "-lineinfo", "--ptxas-options=-v"} <= set(FLAGS)
    assert ".ftz" in built('extern "C" __global__ void k(float* x) { x[0] = x[1] * x[2]; }\n').ptx


@pytest.fixture(autouse=True)
def _fresh_nvrtc() -> Iterator[None]:
    yield
    compiling._nvrtc.cache_clear()
