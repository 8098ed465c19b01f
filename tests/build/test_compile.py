"""NVRTC without a GPU: what compiles, what the errors say, and the cache."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_roofline.build import nvrtc as compiling
from pytest_roofline.build.nvrtc import FLAGS, Image, compile_source, compiler, load_image, supported_architectures
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError, ToolOutputError

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


def built(text: str, arch: str = "sm_90", *extra: str) -> Image:
    return compile_source(Source.of_text("some.cu", text), arch, extra)


def test_an_image_has_ptx_machine_code_report_and_types(cache: Path) -> None:
    """One compilation gives PTX, an ELF, ptxas's report without its zero byte, and the parameter types."""
    image = built(KERNEL)
    assert (image.name, image.arch, image.kernels()) == ("some.cu", "sm_90", ("k",))
    assert ".target sm_90" in image.ptx
    assert image.cubin.startswith(b"\x7fELF")
    assert image.path.read_bytes() == image.cubin
    assert image.path.parent == cache
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
    assert image.path.parent == cache


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
    assert load_image(first.path) == first
    assert compilations == ["some.cu"]
    assert first.path.parent == cache


def test_each_thing_that_changes_the_result_changes_the_key(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text, name, header, flag, architecture, compiler and CUDA headers each lead to an image of their own."""
    source = Source.of_text("some.cu", KERNEL)
    paths = [
        compile_source(source, "sm_90").path,
        compile_source(dataclasses.replace(source, text=KERNEL + " "), "sm_90").path,
        compile_source(dataclasses.replace(source, name="other.cu"), "sm_90").path,
        compile_source(dataclasses.replace(source, headers={**source.headers, "h.cuh": ""}), "sm_90").path,
        compile_source(source, "sm_90", ("--maxrregcount=32",)).path,
        compile_source(source, "sm_80").path,
    ]
    (tmp_path / "cuda_runtime_api.h").write_text("// another version\n")
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "cuda_include", lambda: str(tmp_path))
        paths.append(compile_source(source, "sm_90").path)
        (tmp_path / "cuda_runtime_api.h").write_text("// yet another version\n")
        paths.append(compile_source(source, "sm_90").path)
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "compiler", lambda: "NVRTC 99.9")
        paths.append(compile_source(source, "sm_90").path)
    assert len(set(paths)) == len(paths) == 9
    assert len(list(cache.glob("*.cubin"))) == 9


def test_a_changed_header_is_compiled_anew(cache: Path, tmp_path: Path, compilations: list[str]) -> None:
    """A change in an included header alone gives another result, not the cached one."""
    text = '#include "h.cuh"\nextern "C" __global__ void k(int* x) { x[0] = VALUE; }\n'
    (tmp_path / "main.cu").write_text(text)
    for value in ("7654321", "7654322", "7654321"):
        (tmp_path / "h.cuh").write_text(f"#define VALUE {value}\n")
        assert value in compile_source(Source.read(tmp_path / "main.cu"), "sm_90").ptx
    assert len(compilations) == 2


def record_of(image: Image) -> Path:
    return image.path.with_suffix(".json")


DAMAGE: dict[str, Callable[[Image], object]] = {
    "a byte of the cubin": lambda i: i.path.write_bytes(i.cubin[:-1] + bytes([i.cubin[-1] ^ 1])),
    "a figure of the report": lambda i: record_of(i).write_text(record_of(i).read_text().replace("Used ", "Used 9")),
    "no PTX": lambda i: record_of(i).write_text(json.dumps({**json.loads(record_of(i).read_text()), "ptx": ""})),
    "cut": lambda i: record_of(i).write_bytes(record_of(i).read_bytes()[:100]),
    "garbled": lambda i: record_of(i).write_bytes(b"\xff\xfe[]"),
    "empty": lambda i: record_of(i).write_text("[]"),
    "no record": lambda i: record_of(i).unlink(),
    "no cubin": lambda i: i.path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_file_is_compiled_anew(cache: Path, compilations: list[str], damage: str) -> None:
    """Damage to either file of a cached image is noticed, and the image made anew and written over."""
    first = built(KERNEL)
    DAMAGE[damage](first)
    assert load_image(first.path) is None
    again = built(KERNEL)
    assert dataclasses.replace(again, log="", cubin=b"") == dataclasses.replace(first, log="", cubin=b"")
    assert len(compilations) == 2
    assert load_image(first.path) == again
    assert sorted(path.suffix for path in cache.iterdir()) == [".cubin", ".json"]  # and no temporary file


def test_a_cache_that_can_not_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache directory that can't be made is an error that names it and the variable to set."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYTEST_ROOFLINE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(ToolOutputError, match=r"can't be written to .*file.*set PYTEST_ROOFLINE_CACHE"):
        built(KERNEL)


def test_the_cache_is_in_the_users_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the variable the cache lies under XDG_CACHE_HOME, or ~/.cache."""
    monkeypatch.delenv("PYTEST_ROOFLINE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiling.cache_directory() == tmp_path / "pytest-roofline"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert compiling.cache_directory() == tmp_path / ".cache" / "pytest-roofline"


def test_flags_flush_subnormals_and_keep_lines_and_report() -> None:
    """The flags of every build include those that CuPy adds, line information, and ptxas's report."""
    assert {"-ftz=true", "-lineinfo", "--ptxas-options=-v"} <= set(FLAGS)
    assert ".ftz" in built('extern "C" __global__ void k(float* x) { x[0] = x[1] * x[2]; }\n').ptx


@pytest.fixture(autouse=True)
def _fresh_nvrtc() -> Iterator[None]:
    yield
    compiling._nvrtc.cache_clear()
