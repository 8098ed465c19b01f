"""The declaration: checked where it is made, loaded by path, held against the files beside it."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_roofline import NULL, Array, Launch, Limit, Operator, Prediction, Scalar, Shape, Suite, Variant, load
from pytest_roofline.declare.loading import undeclared
from pytest_roofline.errors import DeclarationError, RefusedError, UnknownNameError

X, Y = Array("x", ("M", "N")), Array("y", ("M", "N"), role="output", rtol=1e-6)
SCALE = Operator(
    "scale",
    "y = a x",
    arrays=(X, Y),
    scalars=(Scalar("a", "float", 2.0),),
    reference=lambda v: {"y": v.a * v.x},
    default=Shape(M=2, N=8),
)
LAUNCH = Launch("scale", args=("x", "y", "N", "a"), grid=lambda s: s.M, block=256)
VARIANT = Variant("c1", SCALE, "c1.cu", LAUNCH)


def launch(**changes: object) -> Launch:
    return dataclasses.replace(LAUNCH, **changes)


def variant(**changes: object) -> Variant:
    return dataclasses.replace(VARIANT, **changes)


def operator(**changes: object) -> Operator:
    return dataclasses.replace(SCALE, **changes)


def suite(**changes: object) -> Suite:
    return Suite(**{"variants": (VARIANT,), **changes})


def test_a_right_declaration_passes() -> None:
    """One launch needs no tuple, a workload is a tuple of shapes or one by operator, rules are functions."""
    made = suite(
        workloads={"main": (Shape(N=1, M=2),), "more": {"scale": (Shape(M=3, N=4),)}},
        rules={"scale": lambda shape, gpu: ("c1", "there is no other")},
    )
    assert made.variant("c1").launches == (LAUNCH,)
    assert made.shapes(SCALE) == (Shape(M=2, N=1), Shape(M=3, N=4))
    assert [str(shape) for shape in made.workload("main", SCALE)] == ["2x1"]  # extents in the operator's order
    assert made.default(SCALE) == Shape(M=2, N=8)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "array: role": (lambda: Array("x", role="out"), "array 'x' has role 'out', allowed are input, output, inout"),
    "array: dtype": (lambda: Array("x", dtype="half"), "array 'x' has dtype 'half', allowed are element, "),
    "array: dims": (lambda: Array("x", "MN"), "array 'x': dims is 'MN', not a tuple"),
    "array: a dim": (lambda: Array("x", (0,)), "array 'x' has 0 among its dims"),
    "array: name": (lambda: Array("x y"), "'x y'"),
    "array: no range": (lambda: Array("x", low=1.0, high=1.0), "array 'x' has values in [1.0, 1.0), which is empty"),
    "array: one whole number": (lambda: Array("x", dtype="int32"), "all values would be the same"),
    "array: tolerance of an input": (lambda: Array("x", rtol=1e-3), "has rtol = 0.001, but is never compared"),
    "array: tolerance": (lambda: Array("y", role="output", atol=-1.0), "has atol = -1.0; it is finite and at least 0"),
    "array: bound": (lambda: Array("x", high=None), "has high = None; a bound is a number, the name of an extent or"),
    "array: initial": (lambda: Array("x", initial=0), "has initial = 0; an output begins as"),
    "scalar: ctype": (lambda: Scalar("a", "half", 2.0), "scalar 'a' has C type 'half', allowed are float, double, "),
    "scalar: value": (lambda: Scalar("a", "float", "2"), "scalar 'a' is '2'; it is a number or a function"),
    "operator: arrays": (lambda: operator(arrays=X), "operator 'scale': arrays is Array("),
    "operator: what is no array": (lambda: operator(arrays=(X, "y")), "has 'y' among its arrays; each is an Array"),
    "operator: no output": (lambda: operator(arrays=(X,)), "operator 'scale' has no outputs"),
    "operator: reference": (lambda: operator(reference=None), "has reference = None; it is a function"),
    "operator: a name twice": (
        lambda: operator(scalars=(Scalar("x", "float", 1.0),)),
        "arrays, scalars and extents share",
    ),
    "operator: an extent's name": (lambda: operator(scalars=(Scalar("M", "float", 1.0),)), "reserved one: M"),
    "operator: the shape's name": (lambda: operator(extents=("dtype",)), "take a reserved one: dtype"),
    "operator: default": (lambda: operator(default=Shape(M=2, K=8)), "operator 'scale' has extents M, N; the shape "),
    "operator: bound of no extent": (
        lambda: operator(arrays=(dataclasses.replace(X, high="V"), Y)),
        "bounds array 'x' by 'V'; its extents are M, N",
    ),
    "launch: args": (lambda: launch(args="xy"), "launch 'scale': args is 'xy', not a tuple"),
    "launch: an argument": (lambda: launch(args=("x", ["y"])), "has ['y'] among its args; an argument is a name"),
    "launch: no threads": (lambda: launch(block=(0, 1, 1)), "has block = (0, 1, 1); it is one to three whole numbers"),
    "launch: grid": (lambda: launch(grid="M"), "launch 'scale' has grid = 'M'"),
    "launch: bytes of a stranger": (lambda: launch(reads=("x", "w")), "launch 'scale' reads w, which it does not take"),
    "launch: vector": (lambda: launch(vector=12), "has vector = 12 bytes, allowed are 1, 2, 4, 8, 16, 32"),
    "launch: vector of a stranger": (lambda: launch(vector={"w": 4}), "a vector width for 'w', which it does not take"),
    "launch: a macro": (lambda: launch(defines=(("WIDTH", 4),)), "defines ('WIDTH', 4); a macro is a pair of texts"),
    "launch: configure": (lambda: launch(configure="fast"), "has configure = 'fast'; it is a function of a shape"),
    "limit: condition": (lambda: Limit(True, "short"), "the limit 'short' has True for its condition"),
    "prediction": (lambda: Prediction("c1", 1.0, 2.0, "why", quantity="speed"), "a prediction is of 'speed'; what"),
    "variant: operator": (lambda: variant(operator="scale"), "variant 'c1' has operator = 'scale'; it is an Operator"),
    "variant: no launches": (lambda: variant(launches=()), "variant 'c1' has no launches"),
    "variant: launches": (lambda: variant(launches=("scale",)), "has 'scale' among its launches; each is a Launch"),
    "variant: limits": (lambda: variant(limits=Limit(bool, "why")), "variant 'c1': limits is Limit("),
    "variant: source": (lambda: variant(launches=(launch(source="other.cu"),)), "from which no launch is"),
    "variant: dtypes": (lambda: variant(dtypes=("float32", "int8")), "has dtypes = ('float32', 'int8'), allowed are "),
    "variant: no dtypes": (lambda: variant(dtypes=()), "variant 'c1' has dtypes = (), allowed are "),
    "variant: dtypes as a text": (lambda: variant(dtypes="float32"), "variant 'c1': dtypes is 'float32', not a tuple"),
    "variant: alignment": (lambda: variant(alignment=3), "has alignment = 3, allowed are "),
    "variant: compiler": (lambda: variant(compiler="gcc"), "has compiler = 'gcc', allowed are nvrtc"),
    "variant: a name twice": (lambda: variant(scratch=(Array("x", ("M",)),)), "that share names: x"),
    "variant: scratch of no extent": (lambda: variant(scratch=(Array("t", ("K",)),)), "with the unknown extent 'K'"),
    "variant: unknown argument": (
        lambda: variant(launches=(launch(args=("x", "y", "N", "b")),)),
        "variant 'c1' 'scale' takes b; it can take x, y, a, M, N",
    ),
    "variant: bytes of a scalar": (lambda: variant(launches=(launch(reads=("a",)),)), "moves the bytes of a, which is"),
    "variant: output of no launch": (
        lambda: variant(operator=operator(arrays=(X, Y, Array("z", ("M",), role="output")))),
        "variant 'c1' has no launch that takes the output z",
    ),
    "variant: output that is not written": (
        lambda: variant(launches=(launch(writes=()),)),
        "variant 'c1' has no launch whose writes name the output y",
    ),
    "variant: writes an input": (
        lambda: variant(launches=(launch(writes=("x", "y")),)),
        "variant 'c1' writes the input x; give it role=\"inout\"",
    ),
    "suite: empty": (lambda: Suite(()), "the suite has no variants"),
    "suite: variants": (lambda: Suite(VARIANT), "the suite: variants is Variant("),
    "suite: name twice": (lambda: Suite((VARIANT, VARIANT)), "variant names must be unique, doubled: c1"),
    "suite: two operators": (
        lambda: Suite((VARIANT, variant(name="c2", operator=operator(formula="y = 2 x")))),
        "operator name 'scale' stands for two operators",
    ),
    "suite: workload of no operator": (
        lambda: suite(workloads={"main": {"scalr": (Shape(M=1, N=1),)}}),
        "workload 'main' names operators that no variant has: scalr",
    ),
    "suite: workload of other extents": (
        lambda: suite(workloads={"main": (Shape(K=1),)}),
        "workload 'main' has Shape(K=1), whose extents no operator has",
    ),
    "suite: workload of one shape": (lambda: suite(workloads={"s": Shape(M=1, N=4)}), "workload 's' is Shape(M=1"),
    "suite: workload of pairs": (lambda: suite(workloads={"s": ((1, 4),)}), "workload 's' has (1, 4) for a shape"),
    "suite: rule": (lambda: suite(rules={"scalr": lambda s, g: ("c1", "")}), "rules are for operators that no variant"),
    "suite: rule that is a name": (lambda: suite(rules={"scale": "c1"}), "rules are functions of a shape and a GPU"),
    "suite: prediction": (
        lambda: Suite((variant(predictions=(Prediction("n1", 1.0, 2.0, "why"),)),)),
        "variant 'c1' predicts against 'n1'; variants of scale are c1",
    ),
    "suite: prediction for no workload": (
        lambda: Suite((variant(predictions=(Prediction("c1", 1.0, 2.0, "why", workload="longest"),)),)),
        "variant 'c1' predicts for workload 'longest'; there are none",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_declaration_is_an_error_where_it_is_made(case: str) -> None:
    """Each contradiction is an error with its place, what is wrong, and what is allowed."""
    make, said = WRONG[case]
    with pytest.raises(DeclarationError, match=re.escape(said)):
        make()


def test_c92_bounds_by_extents_and_null_pointers() -> None:
    """An index below an extent, bounds that are functions of the shape, and a pointer to nothing can be declared."""
    index = Array("i", ("M",), dtype="int64", high="N")
    assert index.bounds(Shape(M=3, N=7)) == (0, 7)
    assert Array("x", low=lambda s: -s.N, high=1).bounds(Shape(N=7)) == (-7, 1)
    with pytest.raises(DeclarationError, match=r"high = 'many' at Shape\(N=7\); a bound is a finite number"):
        Array("x", high=lambda s: "many").bounds(Shape(N=7))
    assert launch(args=("x", NULL, "y")).args == ("x", None, "y")


def test_c94_a_tolerance_that_accepts_zeros_is_refused() -> None:
    """An operator for which a kernel that writes zeros would pass can't be in a suite; it names the output."""
    loose = operator(arrays=(X, dataclasses.replace(Y, rtol=None, atol=10.0)))
    with pytest.raises(DeclarationError, match=r"operator 'scale': the tolerance of y accepts an answer of zeros at"):
        Suite((variant(operator=loose),))


def test_types_and_clusters_that_are_right() -> None:
    """Several types, a cluster by the shape, macros, widths by array and an alignment are accepted."""
    wide = launch(cluster=lambda s: 2, defines=(("WIDTH", "4"),), vector={"x": 16, "y": 4}, unrolled=8)
    made = variant(launches=wide, dtypes=("float32", "float16", "bfloat16"), alignment=16, limits=(Limit(bool, "why"),))
    assert made.launches == (wide,)


def on_disk(folder: Path, *files: str, declared: str = "c1.cu") -> Path:
    """A declaration of one variant in ``folder``, with ``files`` beside it."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    (folder / "suite.py").write_text(DECLARATION.format(title=folder.name, source=declared))
    return folder / "suite.py"


DECLARATION = """
from pytest_roofline import Array, Launch, Operator, Suite, Variant

COPY = Operator(
    "copy", "y = x", (Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")), reference=lambda v: {{"y": v.x}}
)
SUITE = Suite(
    (Variant("c1", COPY, "{source}", Launch("c", ("x", "y", "N"), grid=1, block=32), title="{title}"),),
    exclude=("old/*.cu",),
)
"""


def test_an_entry_without_its_file(tmp_path: Path) -> None:
    """A declared source that is not on disk is an error with its path."""
    with pytest.raises(DeclarationError, match=r"declared, but not there under .*: c1\.cu$"):
        load(on_disk(tmp_path))


def test_a_file_without_an_entry(tmp_path: Path) -> None:
    """A .cu file of no launch is told, wherever it lies below the declaration, and is no error; some are none of it."""
    others = (".venv/lib/k.cu", "lib/site-packages/nvidia/k.cu", ".hidden.cu", "old/c0.cu", "head.cuh")
    found = load(on_disk(tmp_path, "c1.cu", "sub/loose.cu", "loose.cu", *others))
    assert undeclared(found) == ["loose.cu", "sub/loose.cu"]


def test_files_and_entries_of_the_suite_agree(shipped: Suite) -> None:
    """The suite of this project declares exactly the .cu files that lie beside it."""
    files = {path.relative_to(shipped.root).as_posix() for path in shipped.root.rglob("*.cu")}
    assert files == {source for variant in shipped for source in variant.sources()}
    assert files
    assert undeclared(shipped) == []


def test_a_declaration_is_loaded_by_path(tmp_path: Path) -> None:
    """Two declarations of the same file name are loaded side by side, each with its own folder as root."""
    modules = set()
    for folder in (tmp_path / "kernels", tmp_path / "other"):
        folder.mkdir()
        found = load(str(on_disk(folder, "c1.cu")))
        assert (found.root, found.file, found.variant("c1").title) == (folder, folder / "suite.py", folder.name)
        assert found.variant("c1").root == folder
        modules.add(found.operators["copy"].reference.__module__)
    assert len(modules) == 2
    assert modules <= set(sys.modules)
    assert not {"kernels", "suite"} & modules


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "correct roofline_suite in pytest's configuration"),
        ("def", "can't be executed: SyntaxError"),
        ("1 / 0", "can't be executed: ZeroDivisionError: division by zero"),
        ("import no_such_module", "can't be executed: ModuleNotFoundError: .*no_such_module"),
        ("suite = 1", r"must bind SUITE to a pytest_roofline\.Suite, found NoneType"),
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
    (tmp_path / "suite.py").write_text("from pytest_roofline import Shape\nShape(M=0, N=7168)\n")
    with pytest.raises(RefusedError, match="M = 0 is refused"):
        load(tmp_path / "suite.py")


def test_unknown_names_list_those_there_are() -> None:
    """A variant, an operator, or the shapes of a workload that do not exist."""
    made = suite(workloads={"main": (Shape(M=1, N=1),)})
    with pytest.raises(UnknownNameError, match="there is no variant 'c2'; the suite has c1"):
        made.variant("c2")
    with pytest.raises(UnknownNameError, match="there is no operator 'copy'; there are scale"):
        made.operator("copy")
    assert made.workload("none", SCALE) == ()
    assert made.workload("", SCALE) == (Shape(M=1, N=1),)
