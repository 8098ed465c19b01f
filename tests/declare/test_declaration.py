"""The declaration: loaded by path, checked against itself and the files beside it."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_roofline import Array, Launch, Limit, Operator, Prediction, Scalar, Shape, Suite, Variant, load
from pytest_roofline.declare.loading import check
from pytest_roofline.declare.suite import ELEMENT, Workload
from pytest_roofline.errors import DeclarationError, RefusedError
from pytest_roofline.hardware.dtypes import FLOATS

X, Y = Array("x", ("M", "N")), Array("y", ("M", "N"))
SCALE = Operator(
    name="scale",
    formula="y = a * x",
    inputs=(X,),
    outputs=(Y,),
    scalars=(Scalar("a", "float", 2.0),),
    reference=lambda arrays, scalars: {"y": scalars["a"] * arrays["x"]},
    default_shape=Shape(M=2, N=8),
    rtol=1e-6,
    atol=lambda columns: 0.0,
)
LAUNCH = Launch("scale", args=("x", "y", "N", "a"), reads=("x",), writes=("y",))
VARIANT = Variant("c1", SCALE, "c1.cu", "plain", launches=(LAUNCH,))


def on_disk(
    folder: Path, *variants: Variant, workloads: tuple[Workload, ...] = (), files: tuple[str, ...] = ("c1.cu",)
) -> Suite:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return Suite(variants, workloads, folder)


def with_launch(**changes: object) -> Variant:
    return dataclasses.replace(VARIANT, launches=(dataclasses.replace(LAUNCH, **changes),))  # type: ignore[arg-type]


def with_operator(**changes: object) -> Variant:
    return dataclasses.replace(VARIANT, operator=dataclasses.replace(SCALE, **changes))  # type: ignore[arg-type]


def test_a_right_declaration_passes(tmp_path: Path) -> None:
    """A declaration that agrees with itself and with its files is accepted."""
    check(on_disk(tmp_path, VARIANT, workloads=(Workload("main", {"scale": (Shape(M=1, N=1),)}),)))


WRONG: dict[str, tuple[Variant, str]] = {
    "no launches": (dataclasses.replace(VARIANT, launches=()), "variant 'c1': has no launches"),
    "source of no launch": (
        with_launch(source="other.cu"),
        "variant 'c1': no launch is from its source c1.cu",
    ),
    "array twice": (
        dataclasses.replace(VARIANT, scratch=(Array("x", ("M",)),)),
        "variant 'c1': arrays, scalars, M and N share names",
    ),
    "ctype": (
        with_operator(scalars=(Scalar("a", "half", 2.0),)),
        "variant 'c1': scalar 'a' has C type 'half', allowed are float, double, int, long long",
    ),
    "unknown argument": (
        with_launch(args=("x", "y", "N", "b", "a")),
        "variant 'c1': scale takes b, which is no array, no scalar, not M and not N",
    ),
    "ledger of a stranger": (
        with_launch(reads=("x", "w")),
        "variant 'c1': the ledger of scale counts w, which it does not take",
    ),
    "ledger of a scalar": (
        with_launch(reads=("x", "a")),
        "variant 'c1': the ledger of scale counts a, which is no array",
    ),
    "no threads": (with_launch(block=(0, 1, 1)), "scale has block = (0, 1, 1); it is three ints of at least 1"),
    "too many threads": (with_launch(block=(32, 33, 1)), "scale has a block of 1056 threads, allowed are 1 to 1024"),
    "output of no launch": (
        with_operator(outputs=(Y, Array("z", ("M",)))),
        "variant 'c1': no launch takes the output z",
    ),
    "limit on nothing": (dataclasses.replace(VARIANT, limits=(Limit("N", "why"),)), "limit on 'N' needs dim M or N"),
    "limit on K": (
        dataclasses.replace(VARIANT, limits=(Limit("K", "why", at_most=3),)),
        "limit on 'K' needs dim M or N and at_most",
    ),
    "limit on a type with a number": (
        dataclasses.replace(VARIANT, limits=(Limit("dtype", "why", at_most=3),)),
        "limit on 'dtype' needs dim M or N and at_most or a positive multiple_of, or dim dtype and one_of float32, ",
    ),
    "limit on a type that is none": (
        dataclasses.replace(VARIANT, limits=(Limit("dtype", "why", one_of=("float32", "half")),)),
        "or dim dtype and one_of float32, float16, bfloat16",
    ),
    "limit on N with types": (
        dataclasses.replace(VARIANT, limits=(Limit("N", "why", at_most=4, one_of=("float32",)),)),
        "limit on 'N' needs dim M or N",
    ),
    "dtypes": (
        dataclasses.replace(VARIANT, dtypes=("float32", "fp8")),
        "variant 'c1': has dtypes = ('float32', 'fp8'), allowed are float32, float16, bfloat16",
    ),
    "no dtypes": (dataclasses.replace(VARIANT, dtypes=()), "variant 'c1': has dtypes = (), allowed are float32"),
    "dtype of an array": (
        with_operator(inputs=(dataclasses.replace(X, dtype="half"),)),
        "variant 'c1': array 'x' has dtype 'half', allowed are element, float32, float16, bfloat16, float64",
    ),
    "cluster": (with_launch(cluster=3), "variant 'c1': scale has cluster = 3, allowed are 1, 2, 4, 8, 16"),
    "a macro that is a number": (
        with_launch(defines=(("WIDTH", 4),)),
        "variant 'c1': scale defines ('WIDTH', 4); a macro is a pair of texts",
    ),
    "multiple of 0": (
        dataclasses.replace(VARIANT, limits=(Limit("N", "why", at_most=3, multiple_of=0),)),
        "limit on 'N' needs dim M or N and at_most or a positive multiple_of",
    ),
    "prediction": (
        dataclasses.replace(VARIANT, predictions=(Prediction("n1", 1.0, 2.0, "why"),)),
        "variant 'c1': predicts against 'n1'; the variants of scale are c1",
    ),
    "prediction of nothing": (
        dataclasses.replace(VARIANT, predictions=(Prediction("", 1.0, 2.0, "why", quantity="speed"),)),
        "variant 'c1': predicts 'speed'; what can be predicted is speedup, dram, mbu",
    ),
    "prediction for no workload": (
        dataclasses.replace(VARIANT, predictions=(Prediction("c1", 1.0, 2.0, "why", workload="longest"),)),
        "variant 'c1': predicts for workload 'longest'; the workloads are ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_variant_is_an_error(tmp_path: Path, case: str) -> None:
    """Each contradiction in a variant is an error with the variant, what is wrong, and what is allowed."""
    variant, said = WRONG[case]
    with pytest.raises(DeclarationError, match=re.escape(said)):
        check(on_disk(tmp_path, variant))


def test_types_and_clusters_that_are_right(tmp_path: Path) -> None:
    """Arrays that follow the shape, several types, a limit on them, a cluster and macros are accepted."""
    launch = dataclasses.replace(LAUNCH, cluster=16, defines=(("WIDTH", "4"),))
    arrays = {"inputs": (dataclasses.replace(X, dtype=ELEMENT),), "outputs": (dataclasses.replace(Y, dtype=ELEMENT),)}
    limits = (Limit("dtype", "why", one_of=("float32", "bfloat16")), Limit("M", "why", at_most=9))
    variant = dataclasses.replace(with_operator(**arrays), launches=(launch,), limits=limits, dtypes=FLOATS)
    check(dataclasses.replace(on_disk(tmp_path, variant), rules={"scale": lambda shape, gpu: ("c1", "why")}))


WRONG_LADDERS: dict[str, tuple[Callable[[Path], Suite], str]] = {
    "empty": (lambda folder: on_disk(folder, files=()), "the suite has no variants"),
    "name twice": (lambda folder: on_disk(folder, VARIANT, VARIANT), "variant names must be unique, doubled: c1"),
    "two operators": (
        lambda folder: on_disk(folder, VARIANT, dataclasses.replace(with_operator(rtol=1.0), name="c2")),
        "operator name 'scale' stands for two different operators",
    ),
    "workload": (
        lambda folder: on_disk(folder, VARIANT, workloads=(Workload("main", {"scalr": (Shape(M=1, N=1),)}),)),
        "workload 'main' names operators that no variant has: scalr",
    ),
    "rule": (
        lambda folder: dataclasses.replace(on_disk(folder, VARIANT), rules={"scalr": lambda shape, gpu: ("c1", "")}),
        "rules are for operators that no variant has: scalr",
    ),
    "rule that is a name": (
        lambda folder: dataclasses.replace(on_disk(folder, VARIANT), rules={"scale": "c1"}),  # type: ignore[dict-item]
        "rules are functions of a shape and a gpu; not so: scale",
    ),
}


@pytest.mark.parametrize("case", WRONG_LADDERS)
def test_a_wrong_suite_is_an_error(tmp_path: Path, case: str) -> None:
    """Each contradiction between variants and workloads is an error that names them."""
    made, said = WRONG_LADDERS[case]
    with pytest.raises(DeclarationError, match=re.escape(said)):
        check(made(tmp_path))


def test_an_entry_without_its_file(tmp_path: Path) -> None:
    """A declared source that is not on disk is an error with its path."""
    with pytest.raises(DeclarationError, match=r"declared, but not there under .*: c1\.cu$"):
        check(on_disk(tmp_path, VARIANT, files=()))


def test_a_file_without_an_entry(tmp_path: Path) -> None:
    """A .cu file that no launch comes from is an error with its path, wherever it lies below the declaration."""
    with pytest.raises(DeclarationError, match=r"without an entry in the declaration.*: sub/loose\.cu$"):
        check(on_disk(tmp_path, VARIANT, files=("c1.cu", "sub/loose.cu")))


def test_files_and_entries_of_the_suite_agree(suite: Suite) -> None:
    """The suite of this project declares exactly the .cu files that lie beside it."""
    files = {path.relative_to(suite.root).as_posix() for path in suite.root.rglob("*.cu")}
    assert files == {source for variant in suite.variants for source in variant.sources()}
    assert files


DECLARATION = """
from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant

OPERATOR = Operator("copy", "y = x", (Array("x", ("M", "N")),), (Array("y", ("M", "N")),), (),
                    lambda arrays, scalars: {"y": arrays["x"]}, Shape(1, 1), 0.0, lambda columns: 0.0)
SUITE = Suite((Variant("c1", OPERATOR, "c1.cu", "plain", (Launch("c", ("x", "y", "N"), ("x",), ("y",)),)),), ())
"""


def test_a_declaration_is_loaded_by_path(tmp_path: Path) -> None:
    """Two declarations of the same file name are loaded side by side, each with its own folder as root."""
    modules = set()
    for folder in (tmp_path / "kernels", tmp_path / "other"):
        on_disk(folder)
        (folder / "suite.py").write_text(DECLARATION.replace("plain", folder.name))
        found = load(folder / "suite.py")
        assert (found.root, found.variant("c1").title) == (folder, folder.name)
        modules.add(found.operators["copy"].reference.__module__)
    assert len(modules) == 2
    assert modules <= set(sys.modules)
    assert not {"kernels", "suite"} & modules


def test_a_declaration_that_is_loaded_is_checked(tmp_path: Path) -> None:
    """Loading a declaration whose .cu file is missing is an error."""
    (tmp_path / "suite.py").write_text(DECLARATION)
    with pytest.raises(DeclarationError, match=r"declared, but not there under .*: c1\.cu$"):
        load(tmp_path / "suite.py")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no suite declaration at .*; correct roofline_suite in pytest's configuration"),
        ("def", "can't be executed: SyntaxError"),
        ("1 / 0", "can't be executed: ZeroDivisionError: division by zero"),
        ("import no_such_module", "can't be executed: ModuleNotFoundError: .*no_such_module"),
        ("suite = 1", r"must bind SUITE to a pytest_roofline\.suite\.Suite, found NoneType"),
        ("SUITE = []", "found list"),
    ],
)
def test_a_file_that_is_no_declaration(tmp_path: Path, text: str | None, said: str) -> None:
    """A file that is missing, fails, or binds no Suite is an error with its path and the cause."""
    path = tmp_path / "suite.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DeclarationError, match=said) as raised:
        load(path)
    assert str(path) in str(raised.value)


def test_a_refusal_inside_a_declaration_stays_what_it_is(tmp_path: Path) -> None:
    """An impossible shape in a declaration is reported as that and not as a file that can't be executed."""
    (tmp_path / "suite.py").write_text("from pytest_roofline.declare.suite import Shape\nShape(0, 7168)\n")
    with pytest.raises(RefusedError, match="M = 0 is refused"):
        load(tmp_path / "suite.py")


def test_a_missing_comma_is_named(tmp_path: Path) -> None:
    """One thing where a tuple of one was meant is an error with the field, not a traceback."""
    shape = Shape(M=1, N=4)
    good = on_disk(tmp_path, with_launch())
    one = good.variants[0]
    cases = {
        "the suite: workloads": dataclasses.replace(good, workloads=Workload("s", {})),
        "workload 's', scale": dataclasses.replace(good, workloads=(Workload("s", {"scale": shape}),)),
        "limits": dataclasses.replace(good, variants=(dataclasses.replace(one, limits=Limit("N", "why", at_most=4)),)),
        "dtypes": dataclasses.replace(good, variants=(dataclasses.replace(one, dtypes="float32"),)),
        "one_of": dataclasses.replace(
            good, variants=(dataclasses.replace(one, limits=(Limit("dtype", "why", one_of="float32"),)),)
        ),
        "defines": dataclasses.replace(good, variants=(with_launch(defines="WIDTH"),)),
        "scratch": dataclasses.replace(good, variants=(dataclasses.replace(one, scratch=Array("t", ("M",))),)),
    }
    for said, suite in cases.items():
        with pytest.raises(DeclarationError, match=f"{said}.* is .*, not a tuple"):
            check(suite)


def test_an_integer_input_of_one_value_is_an_error(tmp_path: Path) -> None:
    """An integer input whose range holds one whole number would be constant, and a kernel that ignores it right."""
    x = dataclasses.replace(SCALE.inputs[0], dtype="int32")
    with pytest.raises(DeclarationError, match="all values would be the same"):
        check(on_disk(tmp_path, with_operator(inputs=(x, *SCALE.inputs[1:]))))
    wide = dataclasses.replace(x, low=-5.0, high=5.0)
    check(on_disk(tmp_path, with_operator(inputs=(wide, *SCALE.inputs[1:]))))
