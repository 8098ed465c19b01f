"""CUDA C++ to PTX and cubin for one architecture, by NVRTC, with the same flags for every backend.

Needs neither a GPU nor a driver nor a CUDA toolkit: NVRTC comes as a wheel and is called through CuPy's binding.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import CompileError
from ..version import __version__
from .cache import store
from .image import FORMAT
from .image import Image as Image
from .source import Source

# -ftz=true is what CuPy's own RawModule adds: results under 1.18e-38 flush to zero, and __expf is one instruction
# instead of three. -lineinfo gives the sanitizer and the simulator source lines; it changes no machine code.
# Without --no-source-include NVRTC looks for headers in the working directory, which the cache key does not hold.
FLAGS = ("-std=c++17", "-ftz=true", "-lineinfo", "--ptxas-options=-v", "--no-source-include")

HINTS = {
    "float.h": ("FLT_MAX", "FLT_MIN", "FLT_EPSILON", "DBL_MAX", "DBL_MIN"),
    "math.h": ("INFINITY", "NAN", "M_PI", "HUGE_VALF"),
    "stdint.h": ("int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uintptr_t"),
    "limits.h": ("INT_MAX", "INT_MIN", "UINT_MAX", "LLONG_MAX"),
    "cuda_fp16.h": ("__half", "half", "__half2", "half2", "__float2half"),
    "cuda_bf16.h": ("__nv_bfloat16", "__nv_bfloat162", "__float2bfloat16"),
}


@cache
def _nvrtc() -> Any:
    """CuPy's NVRTC binding, or :class:`CompileError` that says what to install."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:  # cuda-pathfinder, ImportError and OSError all mean: not there
        raise CompileError(
            f"NVRTC, the CUDA compiler library, can't be loaded ({type(error).__name__}: {error}). "
            "Install it with: pip install 'pytest-roofline[cuda12]' (or [cuda13] for CUDA 13)"
        ) from error
    return nvrtc


def compiler() -> str:
    """The compiler and its version: "NVRTC 12.9"."""
    major, minor = _nvrtc().getVersion()
    return f"NVRTC {major}.{minor}"


def supported_architectures() -> tuple[str, ...]:
    return tuple(f"sm_{arch}" for arch in _nvrtc().getSupportedArchs())


@cache
def cuda_include() -> str | None:
    """Directory of the CUDA headers (cuda_fp16.h), from the runtime wheel or a toolkit; None where there is none."""
    from cuda import pathfinder

    found = pathfinder.find_nvidia_header_directory("cudart")
    return None if found is None else str(found)


def compile_source(
    source: Source,
    arch: str,
    extra: Iterable[str] = (),
    defines: tuple[tuple[str, str], ...] = (),
    names: tuple[str, ...] = (),
) -> Image:
    """Compile ``source`` for ``arch`` ("sm_90") with the macros ``defines``, or take the image from the cache.

    ``names`` are kernels that will be asked for; of those that are expressions, like ``scale<256, float>``, an instance
    is made, and NVRTC says what its name in PTX is.

    The cache key holds everything that can change the result: source, all headers, flags, architecture, the
    compiler's version and the CUDA headers' place and version.
    Errors: :class:`CompileError` with the compiler's log and, where it is known, the fix.
    """
    flags = [*FLAGS, *_no_cache(), *extra, *(f"-D{name}={value}" for name, value in defines), f"-arch={arch}"]
    if include := cuda_include():
        flags.append(f"-I{include}")
    expressions = tuple(dict.fromkeys(name for name in names if not name.isidentifier()))
    parts = [FORMAT, __version__, compiler(), flags, _header_version(include), source.as_json(), *expressions]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    kept = store()
    if data := kept.get(key):
        return Image.from_bytes(data)
    ptx, cubin, log, lowered = _compile(source, arch, flags, expressions)
    image = Image(source.name, arch, ptx, cubin, log, key, defines, lowered)
    kept.put(key, image.to_bytes())
    return image


def _no_cache() -> tuple[str, ...]:
    """From 12.9 on NVRTC keeps a cache of its own where there is a driver, and a hit comes without ptxas's report."""
    return ("-no-cache",) if _nvrtc().getVersion() >= (12, 9) else ()


def _header_version(include: str | None) -> str:
    if include is None:
        return "none"
    header = Path(include) / "cuda_runtime_api.h"
    return hashlib.sha256(header.read_bytes()).hexdigest() if header.is_file() else "unknown"


def _compile(
    source: Source, arch: str, flags: list[str], expressions: tuple[str, ...]
) -> tuple[str, bytes, str, tuple[tuple[str, str], ...]]:
    """PTX, machine code, the log, and the expressions with their names in PTX."""
    nvrtc = _nvrtc()
    if arch.rstrip("af") not in supported_architectures():  # sm_90a and sm_100f are variants of their number
        raise CompileError(
            f"{compiler()} can't compile {source.name} for {arch}; it supports {', '.join(supported_architectures())}. "
            "Take one of these or install a newer NVRTC"
        )
    names, texts = zip(*source.headers.items(), strict=True) if source.headers else ((), ())
    program = nvrtc.createProgram(
        source.main_text(), source.name, tuple(t.encode() for t in texts), tuple(n.encode() for n in names)
    )
    try:
        try:
            for name in expressions:
                nvrtc.addNameExpression(program, name)
            nvrtc.compileProgram(program, flags)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program).replace("\0", "")
            raise CompileError(_explain(source, arch, flags, str(error), log)) from None
        ptx, cubin = nvrtc.getPTX(program).decode().rstrip("\0"), nvrtc.getCUBIN(program)
        lowered = tuple((name, _text(nvrtc.getLoweredName(program, name))) for name in expressions)
        return ptx, cubin, nvrtc.getProgramLog(program).replace("\0", ""), lowered
    finally:
        nvrtc.destroyProgram(program)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _where_headers_are(name: str) -> str:
    if name.startswith(("nv/", "cub/", "thrust/", "cuda/", "cooperative_groups")):
        return "It belongs to CCCL, which this version does not put on the path: write what you need of it yourself"
    if name.startswith("crt/"):
        return (
            "It is one of nvcc's own headers, which this version does not put on the path: write what you need of it "
            "yourself, such as mma.sync in inline PTX instead of wmma"
        )
    if name.startswith(("cuda", "sm_", "math_", "vector_", "device_")):
        return (
            "CUDA's own headers come with the package nvidia-cuda-runtime-cu12 (CUDA 12) or nvidia-cuda-runtime "
            "(CUDA 13), part of the extras cuda12 and cuda13"
        )
    return (
        "NVRTC has no host library: of the C headers there are float.h, limits.h, math.h and stdint.h. Your own "
        "headers are found beside the file that includes them with quotes"
    )


def _explain(source: Source, arch: str, flags: list[str], error: str, log: str) -> str:
    text = f"{compiler()} refused {source.name} for {arch} ({error}):\n{log.strip()}\nflags: {' '.join(flags)}"
    if "unrecognized option" in log:
        text += "\nfix: NVRTC takes no nvcc-only flag (optimisation is always on, there is no -O3); remove it"
    for name in re.findall(r'(?:could not|cannot) open source file "([^"]+)"', log):
        text += f"\nfix: the header {name} is not on the include path. {_where_headers_are(name)}"
    for name in dict.fromkeys(re.findall(r'identifier "(\w+)" is undefined', log)):
        for header, identifiers in HINTS.items():
            if name in identifiers:
                text += f"\nfix: {name} comes from {header}; write #include <{header}>"
    return text
