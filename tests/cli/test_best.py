"""Variants are planned for a shape and a GPU, refused where the GPU lacks something, and the best one runs."""

from __future__ import annotations

import dataclasses
import re

import pytest

from pytest_roofline import Launch, Shape, Suite
from pytest_roofline.errors import DeclarationError, RefusedError, UnknownNameError
from pytest_roofline.hardware.gpus import GPUS, Gpu, gpu_named
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import LackingError, Plan

H200, RTX4090, RTX5090, T4 = (gpu_named(name) for name in ("h200", "rtx4090", "rtx5090", "t4"))
TYPES = ("float32", "float16", "bfloat16")
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


def planned(suite: Suite, operator: str, shape: Shape, on: Gpu) -> Plan:
    """The best variant planned for where it is to run; refused where it can't."""
    found = suite.best(operator, shape, on)
    return Plan(Case(found.variant, found.shape, suite), on)


def best(suite: Suite, operator: str, shape: Shape, on: Gpu) -> str:
    try:
        return planned(suite, operator, shape, on).case.variant.name
    except RefusedError:
        return "-"


@pytest.mark.parametrize(("name", "dtype", "operator"), BEST)
def test_the_best_variant_by_shape_and_gpu(suite: Suite, name: str, dtype: str, operator: str) -> None:
    """One block's registers, then shared memory, then clusters of blocks, or a loop where the GPU has none."""
    found = [best(suite, operator, Shape(M=m, N=n, dtype=dtype), gpu_named(name)) for m, n in SHAPES]
    assert " ".join(found) == BEST[name, dtype, operator]


def runs(suite: Suite, variant, shape: Shape, on: Gpu) -> bool:
    try:
        return bool(Plan(Case(variant, shape, suite), on).launches)
    except RefusedError:
        return False


@pytest.mark.parametrize("name", GPUS)
def test_the_best_variant_runs_and_none_is_refused_where_one_runs(suite: Suite, name: str) -> None:
    """On every GPU, at every width and type: what is named runs there, and a refusal means that no variant does."""
    on = gpu_named(name)
    for columns in (1, 1001, 3584, 8193, 16385, 20000, 24001, 32768, 65537, 152064, 262145, 400001, 524287, 524289):
        for dtype in TYPES:
            for operator in suite.operators.values():
                shape = Shape(M=400, N=columns, dtype=dtype)
                able = [variant.name for variant in suite.family(operator) if runs(suite, variant, shape, on)] or ["-"]
                assert best(suite, operator.name, shape, on) in able, (operator.name, str(shape))


def test_the_choice_says_why(suite: Suite) -> None:
    """The reason names what decides: the cache, the cluster, or what the GPU lacks."""
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
         r"thread-block clusters of \d+, which sm_90 and newer have\. No variant runs it$"),
        ("softmax", Shape(M=8, N=8, dtype="float16"), T4,
         r"s6 can't run 8x8-float16 on Tesla T4 .*it needs instructions of sm_80 and newer\. No variant runs it$"),
        ("rmsnorm", Shape(M=4, N=600000, dtype="float16"), H200, r"n8 can't run 4x600000-float16 .*N <= 524288"),
        ("add_rmsnorm", Shape(M=8, N=8), T4,
         r"a2 can't run 8x8 on Tesla T4 \(sm_75\).*instructions of sm_80 and newer\. No variant runs it$"),
        ("softmax", Shape(M=400, N=524287, dtype="float16"), RTX5090,
         r"s8 can't run .* on NVIDIA GeForce RTX 5090 .*bytes of dynamic shared memory.*No variant runs it$"),
    ],
)  # fmt: skip
def test_a_shape_that_no_variant_runs_on_a_gpu_is_refused_by_name(suite, operator, shape, on, said: str) -> None:
    """The refusal names variant, shape, GPU, what is missing, and that no variant of the operator helps there."""
    with pytest.raises(RefusedError, match=said):
        planned(suite, operator, shape, on)


def test_an_operator_without_a_rule(suite: Suite) -> None:
    """There is no best variant of what has no rule: an error with the operators that have one, or none."""
    with pytest.raises(UnknownNameError, match="'gemm'; there are rmsnorm, softmax, add_rmsnorm"):
        suite.best("gemm", LONG, H200)
    with pytest.raises(UnknownNameError, match="'softmax'; rules are for none"):
        dataclasses.replace(suite, rules={}).best("softmax", LONG, H200)


def test_a_rule_that_names_what_can_not_run_is_an_error(suite: Suite) -> None:
    """A rule is believed only so far as its variant exists, takes the shape, and runs on the GPU."""
    with pytest.raises(RefusedError, match="no variant of rmsnorm runs 8x8-float64: they are written for float32, flo"):
        suite.best("rmsnorm", Shape(M=8, N=8, dtype="float64"), H200)
    for name, error, said in (
        ("s99", UnknownNameError, "no variant 's99'"),
        ("s4", RefusedError, "s4 can't run 4096x65536 .*N <= 8192"),
        ("s8", LackingError, r"s8 can't run 4096x65536 on NVIDIA GeForce RTX 4090"),
    ):
        wrong = dataclasses.replace(suite, rules={"softmax": lambda shape, on, name=name: (name, "")})
        with pytest.raises(error, match=said):
            planned(wrong, "softmax", LONG, RTX4090)


@pytest.mark.parametrize("rule", [lambda shape, on: "s4", lambda shape, on: ("s4", 1 // 0)])
def test_a_rule_that_is_none_is_an_error_of_the_declaration(suite: Suite, rule) -> None:
    """A rule that raises, or gives no name and reason, is told with the operator."""
    wrong = dataclasses.replace(suite, rules={"softmax": rule})
    with pytest.raises(DeclarationError, match="the rule of softmax"):
        wrong.best("softmax", LONG, H200)


def test_equal_builds_have_equal_keys(suite: Suite) -> None:
    """The build key is that of the image: the same for shapes that run it, another for other macros or another GPU."""
    key = suite.best("softmax", Shape(M=8192, N=2048), H200).build_key
    assert suite.best("softmax", Shape(M=8192, N=2048), gpu="h200").build_key == key
    assert suite.best("softmax", Shape(M=9000, N=2048), H200).build_key == key
    assert suite.best("softmax", Shape(M=8192, N=8192), H200).build_key != key
    assert suite.best("softmax", Shape(M=8192, N=2048), RTX4090).build_key != key


def lacks(suite: Suite, name: str, shape: Shape, on: Gpu) -> str:
    try:
        Plan(Case(suite.variant(name), shape, suite), on)
    except LackingError as error:
        return str(error).partition("it needs ")[2]
    return ""


def test_what_a_gpu_lacks(suite: Suite) -> None:
    """Newer instructions, clusters, or shared memory; nothing where the variant runs."""
    short = Shape(M=4096, N=3584)
    assert lacks(suite, "n6", short, T4).startswith("instructions of sm_80 and newer")
    assert lacks(suite, "n6", short, RTX4090) == lacks(suite, "n5", short, T4) == ""
    found = lacks(suite, "n8", LONG, RTX4090)
    assert re.match(r"thread-block clusters of \d+, which sm_90 and newer have", found)
    assert lacks(suite, "n8", LONG, H200) == lacks(suite, "n8", short, RTX4090) == ""
    odd = Shape(M=400, N=524287)
    assert re.match(r"\d+ bytes of dynamic shared memory.* 101376", lacks(suite, "n8", odd, RTX5090))
    assert lacks(suite, "n8", odd, H200) == ""


def test_a_refusal_names_the_variants_that_run_there(suite: Suite) -> None:
    """Those whose limits allow the shape, and where it was to run on a GPU, those of them that it has enough for."""
    wide = Shape(M=2, N=2**16)
    with pytest.raises(RefusedError, match=r"Variants of softmax that run it: s1, s2, s8, s9$"):
        Case(suite.variant("s4"), wide, suite)
    with pytest.raises(LackingError, match=r"Variants of softmax that run it: s1, s2$"):
        Plan(Case(suite.variant("s8"), wide, suite), RTX4090)
    assert Plan(Case(suite.variant("s8"), wide, suite), H200).launches


def test_a_type_that_a_variant_does_not_take(suite: Suite) -> None:
    """A variant for float32 refuses 16 bits with the types it takes and the variants that run it."""
    with pytest.raises(RefusedError) as raised:
        Case(suite.variant("s5"), Shape(M=8, N=2048, dtype="float16"), suite)
    said = str(raised.value)
    assert said.startswith("s5 can't run 8x2048-float16 (")
    assert "nothing was launched: it is written for elements of float32" in said
    assert said.endswith("Variants of softmax that run it: s6, s7, s8, s9")
    assert [str(Shape(M=8, N=1000, dtype=dtype)) for dtype in TYPES] == ["8x1000", "8x1000-float16", "8x1000-bfloat16"]


@pytest.mark.parametrize("dtype", TYPES)
def test_a_plan_has_the_types_of_its_shape(suite: Suite, dtype: str) -> None:
    """Arrays of the operator have the type of the shape, what a variant keeps for itself float32."""
    shape = Shape(M=4096, N=3584, dtype=dtype)
    for variant in suite:
        if dtype in variant.dtypes:
            plan = Plan(Case(variant, shape, suite), H200)
            scratch = {array.name for array in variant.scratch}
            types = {name: array.dtype.name for name, array in plan.arrays.items()}
            assert {types[name] for name in types.keys() - scratch} == {dtype}
            assert {types[name] for name in scratch} <= {"float32"}
            assert plan == Plan(Case(variant, shape, suite), H200)


def test_what_a_launch_is_configured_to(suite: Suite) -> None:
    """What configure gives replaces fields of the launch; one that is not configured stays the same one."""
    launch = launch_with(lambda shape, on: {"shared": shape.N, "block": (on.sms, 1, 1)})
    made = launch.configured(Shape(M=1, N=7), H200)
    assert made == dataclasses.replace(launch, configure=None, shared=7, block=(132, 1, 1))
    (once,) = suite.variant("n3").launches
    assert once.configured(LONG, H200) is once


def launch_with(configure) -> Launch:
    return Launch("k", ("x", "y"), grid=1, block=32, configure=configure)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"threads": 128}, r"is \{'threads': 128\}; it replaces some of kernel, source, .*, unrolled$"),
        ({"configure": None}, r"is \{'configure': None\}; it replaces"),
        (None, "is None; it replaces"),
        ({"args": ("x", "y")}, "is .*; it replaces"),
        ({"writes": ()}, "is .*; it replaces"),
        ({"block": 0}, "launch 'k' has block = 0; it is one to three whole numbers of at least 1, or a function"),
        ({"block": (True, 1, 1)}, r"launch 'k' has block = \(True, 1, 1\)"),
        ({"block": (1, 1, 1, 1)}, r"launch 'k' has block = \(1, 1, 1, 1\)"),
        ({"grid": None}, "launch 'k' has grid = None"),
        ({"cluster": 0}, "launch 'k' has cluster = 0; it is a whole number of at least 1"),
        ({"cluster": 8.0}, "launch 'k' has cluster = 8.0"),
        ({"defines": (("WIDTH", 4),)}, r"launch 'k' defines \('WIDTH', 4\); a macro is a pair of texts"),
        ({"defines": None}, "launch 'k': defines is None"),
        ({"defines": [("A", "1")]}, r"launch 'k': defines is \[\('A', '1'\)\]"),
        ({"shared": -1}, "launch 'k' has shared = -1; it is a whole number of at least 0"),
        ({"shared": "100"}, "launch 'k' has shared = '100'"),
        ({"unrolled": "3"}, "launch 'k' has unrolled = '3'"),
        ({"vector": 16.0}, "launch 'k' has vector = 16.0 bytes, allowed are"),
        ({"vector": 12}, "launch 'k' has vector = 12 bytes, allowed are"),
        ({"kernel": None}, "a launch has kernel = None, source = ''; both are texts"),
    ],
    ids=str,
)
def test_a_launch_is_not_configured_to_what_is_none(made: object, said: str) -> None:
    """What configure returns is held to what a declaration is, and named with the kernel, the shape and the GPU."""
    launch = launch_with(lambda shape, on: made)
    with pytest.raises(DeclarationError, match=rf"^k: what configure makes for Shape\(.*\) on NVIDIA H200:? {said}"):
        launch.configured(Shape(M=8, N=1000), H200)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"block": (1025, 1, 1)}, "1025"),
        ({"cluster": 6}, "6"),
        ({"grid": lambda s: (0, 1, 1)}, r"grid is \(0, 1, 1\)"),
        ({"shared": lambda s: -s.N}, "shared is -1000"),
    ],
    ids=["block", "cluster", "grid", "shared"],
)
def test_a_configured_launch_that_no_gpu_takes_is_refused(suite: Suite, made: dict, said: str) -> None:
    """Numbers that are none, and a block or cluster that no GPU has, are refused when the case is planned."""
    variant = suite.variant("n3")
    launch = dataclasses.replace(variant.launches[0], configure=lambda shape, on: made)
    wrong = dataclasses.replace(variant, launches=(launch,))
    with pytest.raises((DeclarationError, RefusedError), match=said):
        Plan(Case(wrong, Shape(M=8, N=1000)), H200)


def test_a_configuration_that_raises_is_an_error_of_the_declaration() -> None:
    """Its own error is told with the kernel, the shape and the GPU."""
    launch = launch_with(lambda shape, on: {"shared": 1 // 0})
    with pytest.raises(DeclarationError, match=r"^k: what configure makes for .* on NVIDIA H200.*ZeroDivisionError"):
        launch.configured(Shape(M=8, N=1000), H200)


@pytest.mark.parametrize("rows", [10, 11, 300])
def test_a_row_that_no_shared_memory_holds_is_refused_whatever_the_rows(suite: Suite, rows: int) -> None:
    """Few rows are held in registers only where they could wait in shared memory too."""
    with pytest.raises(RefusedError, match="bytes of dynamic shared memory"):
        planned(suite, "softmax", Shape(M=rows, N=524287, dtype="float16"), RTX5090)


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
        plan = planned(suite, operator, shape, gpu_named("l4"))
        assert plan.case.variant.name == name
        defines = dict(plan.launches[-1].defines)
        assert defines["CLUSTER"] == "1"
