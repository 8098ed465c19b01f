"""Rungs are fixed for a shape and a gpu, refused where the gpu lacks something, and the best one runs."""

from __future__ import annotations

import dataclasses
import re

import pytest

from pytest_roofline import Array, Launch, Limit, Shape, Suite
from pytest_roofline.declare.suite import ELEMENT, lacking
from pytest_roofline.errors import DeclarationError, RefusedError, UnknownNameError
from pytest_roofline.hardware.dtypes import FLOATS
from pytest_roofline.hardware.gpus import GPUS, gpu

H200, RTX4090, RTX5090, T4 = (gpu(name) for name in ("h200", "rtx4090", "rtx5090", "t4"))
LONG = Shape(M=4096, N=65536)
SHAPES = (  # few rows, many rows, the widest in one block's registers, and longer ones
    (1, 2048), (32, 3584), (8192, 3584), (4096, 8192), (4096, 8193), (4096, 65536), (32, 152064), (8, 524288)
)  # fmt: skip
BEST = {
    ("h200", "float32", "rmsnorm"): "n6 n6 n7 n7 n8 n8 n8 n8",
    ("h200", "bfloat16", "rmsnorm"): "n6 n6 n7 n7 n8 n8 n8 n8",
    ("h200", "float32", "softmax"): "s6 s6 s7 s7 s8 s8 s9 s9",
    ("h200", "float16", "softmax"): "s6 s6 s7 s7 s8 s8 s9 s9",
    ("h200", "float32", "add_rmsnorm"): "a2 a2 a2 a2 a2 a2 a2 a1",
    ("h200", "bfloat16", "add_rmsnorm"): "a2 a2 a2 a2 a2 a2 a2 a1",
    ("a100", "float32", "rmsnorm"): "n6 n6 n7 n7 n8 n2 n2 n2",
    ("rtx4090", "float32", "rmsnorm"): "n6 n6 n7 n7 n8 n2 n2 n2",
    ("rtx4090", "float32", "softmax"): "s6 s6 s7 s7 s8 s2 s2 s2",
    ("rtx4090", "bfloat16", "rmsnorm"): "n6 n6 n7 n7 n8 n8 - -",
    ("rtx4090", "float16", "softmax"): "s6 s6 s7 s7 s8 - - -",
    ("rtx4090", "float32", "add_rmsnorm"): "a2 a2 a2 a2 a2 - - -",
    ("t4", "float32", "rmsnorm"): "n2 n2 n2 n2 n2 n2 n2 n2",
    ("t4", "float32", "softmax"): "s2 s2 s2 s2 s2 s2 s2 s2",
    ("t4", "bfloat16", "rmsnorm"): "- - - - - - - -",
    ("t4", "float32", "add_rmsnorm"): "- - - - - - - -",
}


def best(suite: Suite, operator: str, shape: Shape, on) -> str:
    try:
        return suite.best(operator, shape, on).variant.name
    except RefusedError:
        return "-"


@pytest.mark.parametrize(("name", "dtype", "operator"), BEST)
def test_the_best_variant_by_shape_and_gpu(suite: Suite, name: str, dtype: str, operator: str) -> None:
    """One block's registers, then shared memory, then clusters of blocks, or a loop where the gpu has none."""
    found = [best(suite, operator, Shape(M=m, N=n, dtype=dtype), gpu(name)) for m, n in SHAPES]
    assert " ".join(found) == BEST[name, dtype, operator]


def runs(variant, shape: Shape, on) -> bool:
    if variant.broken_limit(shape) or lacking(variant, shape, on):
        return False
    return all(one.shared <= on.shared_per_block_optin for one in variant.at(shape, on).launches)


@pytest.mark.parametrize("name", GPUS)
def test_the_best_variant_runs_and_none_is_refused_where_one_runs(suite: Suite, name: str) -> None:
    """On every gpu, at every width and type: what is named runs there, and a refusal means that no variant does."""
    on = gpu(name)
    for columns in (1, 1001, 3584, 8193, 16385, 20000, 24001, 32768, 65537, 152064, 262145, 400001, 524287, 524289):
        for dtype in FLOATS:
            for operator in suite.operators.values():
                shape = Shape(M=400, N=columns, dtype=dtype)
                able = [variant.name for variant in suite.family(operator) if runs(variant, shape, on)] or ["-"]
                assert best(suite, operator.name, shape, on) in able, (operator.name, str(shape))


def test_the_choice_says_why(suite: Suite) -> None:
    """The reason names what decides: the cache, the cluster, or what the gpu lacks."""
    assert (
        "at most three quarters of the L2 cache of NVIDIA H200" in suite.best("rmsnorm", Shape(M=32, N=3584), H200).why
    )
    assert "of a cluster of 2 blocks" in suite.best("softmax", LONG, H200).why
    assert "(sm_75) lacks instructions of sm_80" in suite.best("softmax", LONG, T4).why
    assert suite.best("rmsnorm", LONG, RTX4090).why.startswith("no block of NVIDIA GeForce RTX 4090")


@pytest.mark.parametrize(
    ("operator", "shape", "on", "said"),
    [
        ("rmsnorm", Shape(M=4096, N=65544, dtype="bfloat16"), RTX4090,
         r"n8 can't run 4096x65544-bfloat16 on NVIDIA GeForce RTX 4090 \(sm_89\), nothing was launched: it needs "
         r"thread-block clusters of \d+, which sm_90 and newer have\. No variant runs it\.$"),
        ("softmax", Shape(M=8, N=8, dtype="float16"), T4,
         r"s6 can't run 8x8-float16 on Tesla T4 .*it needs instructions of sm_80 and newer\. No variant runs it\.$"),
        ("rmsnorm", Shape(M=4, N=600000, dtype="float16"), H200, r"n8 can't run 4x600000-float16, .*N <= 524288"),
        ("add_rmsnorm", Shape(M=8, N=8), T4, r"a2 can't run 8x8 on Tesla T4 \(sm_75\).*instructions of sm_80 and newer"),
        ("softmax", Shape(M=400, N=524287, dtype="float16"), RTX5090,
         r"s8 can't run .* on NVIDIA GeForce RTX 5090 .*bytes of dynamic shared memory.*No variant runs it\.$"),
    ],
)  # fmt: skip
def test_a_shape_that_no_variant_runs_on_a_gpu_is_refused_by_name(suite, operator, shape, on, said: str) -> None:
    """The refusal names variant, shape, gpu, what is missing, and that no variant of the operator helps there."""
    with pytest.raises(RefusedError, match=said):
        suite.best(operator, shape, on)


def test_an_operator_without_a_rule(suite: Suite) -> None:
    """There is no best variant of what has no rule: an error with the operators that have one, or none."""
    with pytest.raises(UnknownNameError, match="'gemm'; there are rmsnorm, softmax, add_rmsnorm"):
        suite.best("gemm", LONG, H200)
    with pytest.raises(UnknownNameError, match="'softmax'; there are none"):
        dataclasses.replace(suite, rules={}).best("softmax", LONG, H200)


def test_a_rule_that_names_what_can_not_run_is_an_error(suite: Suite) -> None:
    """A rule is believed only so far as its variant exists, takes the shape, and runs on the gpu."""
    for name, error, said in (
        ("s99", UnknownNameError, "no variant 's99'"),
        ("s4", RefusedError, "s4 can't run 4096x65536, .*N <= 8192"),
        ("s8", RefusedError, r"s8 can't run 4096x65536 on NVIDIA GeForce RTX 4090.*run it there: s1, s2\.$"),
    ):
        wrong = dataclasses.replace(suite, rules={"softmax": lambda shape, on, name=name: (name, "")})
        with pytest.raises(error, match=said):
            wrong.best("softmax", LONG, RTX4090)


def test_what_a_gpu_lacks(suite: Suite) -> None:
    """Newer instructions, clusters, or shared memory; nothing where the variant runs."""
    short = Shape(M=4096, N=3584)
    assert lacking(suite.variant("n6"), short, T4) == "instructions of sm_80 and newer"
    assert lacking(suite.variant("n6"), short, RTX4090) == lacking(suite.variant("n5"), short, T4) == ""
    found = lacking(suite.variant("n8"), LONG, RTX4090)
    assert re.fullmatch(r"thread-block clusters of \d+, which sm_90 and newer have", found)
    assert lacking(suite.variant("n8"), LONG, H200) == lacking(suite.variant("n8"), short, RTX4090) == ""
    odd = Shape(M=400, N=524287)
    assert re.fullmatch(r"\d+ bytes of dynamic shared memory.* 101376", lacking(suite.variant("n8"), odd, RTX5090))
    assert lacking(suite.variant("n8"), odd, H200) == ""


def test_a_refusal_on_a_gpu_names_the_variants_that_run_there(suite: Suite) -> None:
    """With a gpu those that lack something on it are left out, whether a limit is broken or the gpu is too old."""
    wide = Shape(M=2, N=2**16)
    for variant, on, able in (("s8", RTX4090, "s1, s2"), ("s4", RTX4090, "s1, s2"), ("s4", H200, "s1, s2, s8, s9")):
        with pytest.raises(RefusedError, match=f": {able}\\.$"):
            suite.require(suite.variant(variant), wide, on)
    suite.require(suite.variant("s8"), wide)  # on no gpu in particular
    suite.require(suite.variant("s8"), wide, H200)


def test_a_type_that_a_variant_does_not_take(suite: Suite) -> None:
    """A variant for float32 refuses 16 bits with the types it takes and the variants that run it."""
    with pytest.raises(RefusedError) as raised:
        suite.require(suite.variant("s5"), Shape(M=8, N=2048, dtype="float16"))
    said = str(raised.value)
    assert said.startswith("s5 can't run 8x2048-float16, nothing was launched: dtype = float16, allowed is float32 (")
    assert said.endswith("Rungs of softmax that run it: s6, s7, s8, s9.")
    limit = Limit("dtype", "why", one_of=("float32", "bfloat16"))
    assert str(limit) == "float32 or bfloat16"
    assert [limit.holds(Shape(M=1, N=1, dtype=dtype)) for dtype in FLOATS] == [True, False, True]
    with pytest.raises(RefusedError, match=r"dtype = 'float64' is refused.*allowed are float32, float16, bfloat16"):
        Shape(M=1, N=1, dtype="float64")
    assert [str(Shape(M=8, N=1000, dtype=dtype)) for dtype in FLOATS] == ["8x1000", "8x1000-float16", "8x1000-bfloat16"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_fixing_a_variant_again_changes_nothing(suite: Suite, dtype: str) -> None:
    """At a shape and a gpu it has real types and launches, and the same after a second time, anywhere."""
    shape = Shape(M=4096, N=3584, dtype=dtype)
    for variant in suite.variants:
        once = variant.at(shape, H200)
        assert once.at(shape, H200) == once.at(LONG, RTX4090) == once
        assert {a.dtype for a in once.operator.inputs + once.operator.outputs} == {dtype}
        assert {a.dtype for a in once.scratch} <= {"float32"}
        assert once.ledger_bytes(shape) == variant.ledger_bytes(shape)


def test_what_a_launch_is_tuned_to(suite: Suite) -> None:
    """It replaces fields of the launch, which is then tuned no more; a launch that is not tuned stays the same one."""
    launch = Launch("k", ("x",), ("x",), ("y",), tune=lambda shape, on: {"shared": shape.N, "block": (on.sms, 1, 1)})
    assert launch.at(Shape(M=1, N=7), H200) == dataclasses.replace(launch, tune=None, shared=7, block=(132, 1, 1))
    once = suite.variant("n3").at(LONG, H200)
    assert once.launches[0].at(LONG, H200) is once.launches[0]
    loose = dataclasses.replace(once, scratch=(Array("t", ("M",), dtype=ELEMENT),))
    assert loose.at(Shape(M=1, N=7, dtype="float16"), H200).scratch[0].dtype == "float16"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"threads": 128}, r"is \{'threads': 128\}; it replaces some of kernel, source, .*, defines$"),
        ({"tune": None}, r"is \{'tune': None\}; it replaces"),
        (None, "is None; it replaces"),
        ({"block": 128}, "k has block = 128; it is three ints of at least 1"),
        ({"block": (1025, 1, 1)}, "k has a block of 1025 threads, allowed are 1 to 1024"),
        ({"cluster": 6}, "k has cluster = 6, allowed are 1, 2, 4, 8, 16"),
        ({"defines": (("WIDTH", 4),)}, r"k defines \('WIDTH', 4\); a macro is a pair of texts"),
        ({"args": ("x", "y")}, "is .*; it replaces"),
        ({"writes": ()}, "is .*; it replaces"),
        ({"shared": -1}, "k has shared = -1 bytes"),
        ({"shared": "100"}, "k has shared = '100' bytes"),
        ({"unrolled": "3"}, "k has unrolled = '3'"),
        ({"cluster": 8.0}, "k has cluster = 8.0, allowed are"),
        ({"vector": 16.0}, "k has vector = 16.0 bytes, allowed are"),
        ({"block": (True, 1, 1)}, r"k has block = \(True, 1, 1\)"),
        ({"defines": None}, "k has defines = None"),
        ({"defines": [("A", "1")]}, r"k has defines = \[\('A', '1'\)\]; it is a tuple"),
        ({"grid": None}, "k has grid = None; it is a function of the shape"),
        ({"kernel": None}, "a launch has kernel = None and source = ''; both are texts"),
        ({"vector": 12}, "k has vector = 12 bytes, allowed are"),
    ],
    ids=str,
)
def test_a_launch_is_not_tuned_to_what_is_none(made: object, said: str) -> None:
    """What tune returns is held to what a declaration is, and named with the kernel, the shape and the gpu."""
    launch = Launch("k", ("x",), ("x",), ("y",), tune=lambda shape, on: made)
    with pytest.raises(DeclarationError, match=rf"^k: what tune makes for 8x1000 on NVIDIA H200:? {said}"):
        launch.at(Shape(M=8, N=1000), H200)


def test_a_tune_that_raises_is_an_error_of_the_declaration() -> None:
    """Its own error is told with the kernel, the shape and the gpu."""
    launch = Launch("k", ("x",), ("x",), ("y",), tune=lambda shape, on: {"shared": 1 // 0})
    with pytest.raises(DeclarationError, match=r"^k: what tune makes for 8x1000 on NVIDIA H200 is .*ZeroDivisionError"):
        launch.at(Shape(M=8, N=1000), H200)


@pytest.mark.parametrize("rows", [10, 11, 300])
def test_a_row_that_no_shared_memory_holds_is_refused_whatever_the_rows(suite: Suite, rows: int) -> None:
    """Few rows are held in registers only where they could wait in shared memory too."""
    with pytest.raises(RefusedError, match="bytes of dynamic shared memory"):
        suite.best("softmax", Shape(M=rows, N=524287, dtype="float16"), RTX5090)


def test_the_reason_says_where_a_long_row_waits(suite: Suite) -> None:
    """In shared memory, or where few 16-bit rows fit them in registers; of one block or of a cluster."""
    assert (
        "waits in the registers of a cluster of 16 blocks"
        in suite.best("softmax", Shape(M=32, N=152064, dtype="float16"), H200).why
    )
    assert (
        "waits in the shared memory of a cluster of 16 blocks" in suite.best("softmax", Shape(M=32, N=152064), H200).why
    )
    assert "waits in the shared memory of a block" in suite.best("rmsnorm", Shape(M=8192, N=16384), H200).why


def test_a_row_may_fill_the_one_block_of_a_gpu_without_clusters(suite: Suite) -> None:
    """What its shared memory and a few registers hold together runs, in 16 bits the only way."""
    for operator, name in (("rmsnorm", "n8"), ("softmax", "s9")):
        shape = Shape(M=58, N=50000, dtype="float16")
        assert suite.best(operator, shape, gpu("l4")).variant.name == name
        defines = dict(suite.variant(name).at(shape, gpu("l4")).launches[-1].defines)
        assert defines["CLUSTER"] == "1"
