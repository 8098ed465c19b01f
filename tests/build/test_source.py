"""Sources in memory: their headers, the volatile build, and edits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from specimens import planned

from pytest_roofline import Shape, Suite
from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_quoted_includes_are_read_recursively(tmp_path: Path) -> None:
    """A header that a header includes is read too, relative to that header, and the whole compiles."""
    write(
        tmp_path,
        {
            "k/main.cu": '#include "../inner/a.cuh"\nextern "C" __global__ void k(float* x) { x[0] = A + B; }\n',
            "inner/a.cuh": '#pragma once\n  # include  "deep/b.cuh"\n#define A 1.0f\n',
            "inner/deep/b.cuh": "#define B 2.0f\n",
        },
    )
    source = Source.read(tmp_path / "k/main.cu")
    assert source.name == "main.cu"
    assert source.headers["../inner/a.cuh"].endswith("#define A 1.0f\n")
    assert source.headers["deep/b.cuh"] == "#define B 2.0f\n"
    assert compile_source(source, "sm_90").kernels() == ("k",)


def test_includes_in_a_circle_end(tmp_path: Path) -> None:
    """Headers that include each other are read once each."""
    write(tmp_path, {"main.cu": '#include "a.cuh"\n', "a.cuh": '#include "b.cuh"\n', "b.cuh": '#include "a.cuh"\n'})
    source = Source.read(tmp_path / "main.cu")
    assert {"a.cuh", "b.cuh"} <= set(source.headers)


def test_one_name_for_two_headers_is_an_error(tmp_path: Path) -> None:
    """Two headers that differ and are included by the same name can't both be compiled: the second is refused."""
    files = {"main.cu": '#include "sub/a.cuh"\n#include "b.cuh"\n', "sub/a.cuh": '#include "b.cuh"\n'}
    write(tmp_path, {**files, "sub/b.cuh": "#define B 2\n", "b.cuh": "#define B 2\n"})
    Source.read(tmp_path / "main.cu")
    (tmp_path / "b.cuh").write_text("#define B 3\n")
    with pytest.raises(CompileError, match=r'main\.cu includes "b\.cuh", and another file of that name'):
        Source.read(tmp_path / "main.cu")


@pytest.mark.parametrize("line", ['#include "../gone.cuh"', '#include "sub/gone.cuh"'])
def test_c25_a_missing_own_header_is_named(tmp_path: Path, line: str) -> None:
    """A header that is not there is an error with its path and the file that includes it."""
    write(tmp_path, {"k/main.cu": '#include "good.cuh"\n', "k/good.cuh": line + "\n"})
    with pytest.raises(CompileError, match=r"can't read .*gone\.cuh, included by .*good\.cuh"):
        Source.read(tmp_path / "k/main.cu")


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    """A .cu file that is not there, or is no UTF-8 text, is an error with its path."""
    with pytest.raises(CompileError, match=r"can't read .*none\.cu: "):
        Source.read(tmp_path / "none.cu")
    (tmp_path / "latin.cu").write_bytes(b"// caf\xe9\n")
    with pytest.raises(CompileError, match=r"can't read .*latin\.cu: .*utf-8"):
        Source.read(tmp_path / "latin.cu")


def test_volatile_build_changes_declarations_and_nothing_else(tmp_path: Path) -> None:
    """Each __shared__ in code becomes volatile, in headers too; comments, strings and longer names stay as they are."""
    text = (
        "// a __shared__ comment\n/* __shared__\n __shared__ */\n"
        'const char* s = "a __shared__ \\" __shared__"; // "\n'
        "__shared__ float a[8]; extern __shared__ float b[]; int my__shared__x;\n"
        "/* \" */ __shared__ int c; // '\n"
    )
    write(tmp_path, {"main.cu": '#include "h.cuh"\n' + text, "h.cuh": "__shared__ double d;\n"})
    built = Source.read(tmp_path / "main.cu").with_volatile_shared()
    want = text.replace("__shared__ float", "__shared__ volatile float").replace(
        "__shared__ int c", "__shared__ volatile int c"
    )
    assert built.text == '#include "h.cuh"\n' + want
    assert built.headers["h.cuh"] == "__shared__ volatile double d;\n"
    assert built.text.count("volatile") == 3


def test_volatile_build_of_the_suite_compiles(suite: Suite) -> None:
    """The volatile build of each source compiles, one block a row or several, and differs where memory is shared."""
    wanted = (Shape(M=4096, N=2048), Shape(M=32, N=65536))
    launches = [
        launch
        for variant in suite
        for shape in wanted
        if not variant.broken_limit(shape)
        for launch in planned(suite, variant.name, **shape.extents).launches
    ]
    built_as = {(launch.source, launch.defines) for launch in launches}
    assert {dict(defines).get("CLUSTER") for _, defines in built_as} > {None, "1"}
    for name, defines in sorted(built_as):
        source = Source.read(suite.root / name)
        built = source.with_volatile_shared()
        shared = "__shared__" in source.text + "".join(source.headers.values())
        assert (built == source) != shared
        images = [compile_source(one, "sm_90", defines=defines) for one in (built, source)]
        assert images[0].kernels() == images[1].kernels()


SOURCE = Source("some.cu", "one two two\n", {"h.cuh": "three three\n"})


def test_replaced() -> None:
    """An edit changes the one place that is meant, in the text or in a header, and leaves the original alone."""
    assert SOURCE.replaced("one", "1").text == "1 two two\n"
    assert SOURCE.replaced("two", "2", occurrence=1).text == "one two 2\n"
    assert SOURCE.replaced("two", "2", occurrence=0).text == "one 2 two\n"
    edited = SOURCE.replaced("three", "3", file="h.cuh", occurrence=1)
    assert (edited.text, edited.headers["h.cuh"]) == (SOURCE.text, "three 3\n")
    assert SOURCE.headers["h.cuh"] == "three three\n"


@pytest.mark.parametrize(
    ("old", "file", "occurrence", "said"),
    [
        ("four", "", None, "can't replace 'four' in some.cu: it occurs 0 times, wanted exactly once"),
        ("two", "", None, "it occurs 2 times, wanted exactly once"),
        ("two", "", 2, "it occurs 2 times, wanted number 2"),
        ("one", "h.cuh", None, "can't replace 'one' in h.cuh: it occurs 0 times"),
        ("three", "gone.cuh", None, "in gone.cuh: it occurs 0 times"),
    ],
)
def test_replaced_that_does_not_apply_is_an_error(old: str, file: str, occurrence: int | None, said: str) -> None:
    """An edit that finds nothing, or more than one place, is an error with the text and the file."""
    with pytest.raises(CompileError, match=re.escape(said)):
        SOURCE.replaced(old, "x", file=file, occurrence=occurrence)
