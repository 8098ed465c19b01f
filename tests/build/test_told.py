"""What is said where a source does not compile or has no such kernel: the true reason, and what can be done."""

from __future__ import annotations

import pytest

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError


def refused(folder, text: str, kernel: str = "k") -> str:
    (folder / "k.cu").write_text(text)
    with pytest.raises(CompileError) as raised:
        compile_source(Source.read(folder / "k.cu"), "sm_90", names=(kernel,)).require(kernel)
    return str(raised.value)


@pytest.mark.parametrize(
    ("header", "absent", "reason"),
    [
        ("cooperative_groups.h", "nv/target", "It belongs to CCCL"),
        ("cuda/std/tuple", "cuda/std/tuple", "It belongs to CCCL"),
        ("cub/cub.cuh", "cub/cub.cuh", "It belongs to CCCL"),
        ("mma.h", "crt/mma.h", "It is one of nvcc's own headers"),
        ("vector", "vector", "NVRTC has no host library"),
    ],
)
def test_c101_an_absent_header_is_told_truly(tmp_path, header, absent, reason):
    """Whose header it is; a package that is installed is not named as what would bring it."""
    said = refused(tmp_path, f'#include <{header}>\nextern "C" __global__ void k(float* x) {{ x[0] = 1; }}\n')
    assert f"fix: the header {absent} is not on the include path. {reason}" in said
    assert "nvidia-cuda-runtime" not in said.split("fix: ")[1]


def test_c101_a_template_that_was_not_named_in_full(tmp_path):
    """A template has no kernel of its bare name: an instance is named as in C++, which is possible and compiles."""
    text = "template <int B> __global__ void scale(float* x) { x[threadIdx.x] *= B; }\n"
    said = refused(tmp_path, text, "scale")
    assert "an instance of a template is named with its arguments, such as scale<256>" in said
    image = compile_source(Source.read(tmp_path / "k.cu"), "sm_90", names=("scale<256>",))
    image.require("scale<256>")


def test_errors_are_brief_by_the_compilers_own_lines():
    """The same for each architecture; the whole text where the compiler said nothing."""
    text = 'NVRTC refused k.cu for sm_{}:\nk.cu(3): error: identifier "a" is undefined\n    x[0] = a;\n1 error detected'
    assert CompileError(text.format(80)).brief == CompileError(text.format(90)).brief
    assert CompileError(text.format(80)).brief == ('k.cu(3): error: identifier "a" is undefined',)
    assert CompileError("no kernel k\nit has j").brief == ("no kernel k", "it has j")
