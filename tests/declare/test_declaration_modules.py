"""A declaration that imports what lies beside it, and what its launches may not say of one file."""

from __future__ import annotations

import dataclasses
import sys
import types

import numpy as np
import pytest

from pytest_roofline import Array, Launch, Operator, Shape, Variant, load
from pytest_roofline.declare.values import Contents, reference
from pytest_roofline.errors import DeclarationError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan

SUITE = """
from pytest_roofline import Array, Launch, Operator, Suite, Variant
from {name} import TITLE

X, Y = Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")
COPY = Operator("copy", "y = x", (X, Y), reference=lambda v: {{"y": v.x}})
SUITE = Suite((Variant("c1", COPY, "c1.cu", Launch("c1", ("x", "y"), grid=1, block=32), title=TITLE),))
"""


@pytest.fixture
def declared(tmp_path):
    """``declared(folder, name, package)``: a declaration whose title is its folder's, from a module beside it."""

    def make(folder, name, package=False):
        root = tmp_path / folder
        root.mkdir()
        (root / "c1.cu").write_text("")
        beside = root / name / "__init__.py" if package else root / f"{name}.py"
        beside.parent.mkdir(exist_ok=True)
        beside.write_text(f"TITLE = {folder!r}\n")
        (root / "suite.py").write_text(SUITE.format(name=name))
        return root / "suite.py"

    return make


@pytest.mark.parametrize("package", [False, True])
def test_two_suites_have_each_their_own_neighbour_of_one_name(declared, package):
    """A module or package beside a declaration is that declaration's, and none is left loaded."""
    paths = [declared(folder, "neighbour", package) for folder in ("first", "second")]
    before = list(sys.path)
    assert [load(path).variants[0].title for path in paths] == ["first", "second"]
    assert "neighbour" not in sys.modules
    assert sys.path == before


def test_a_loaded_module_of_that_name_is_put_back(declared, monkeypatch):
    """What somebody else loaded under the same name is neither taken nor lost."""
    other = types.ModuleType("neighbour")
    monkeypatch.setitem(sys.modules, "neighbour", other)
    assert load(declared("first", "neighbour")).variants[0].title == "first"
    assert sys.modules["neighbour"] is other


def test_an_error_of_a_neighbour_is_the_declarations(declared):
    """A module beside it that fails is told with the declaration's path, and nothing of it is left loaded."""
    path = declared("first", "neighbour")
    (path.parent / "neighbour.py").write_text("1 / 0\n")
    with pytest.raises(DeclarationError, match=r"suite\.py can't be executed: ZeroDivisionError"):
        load(path)
    assert "neighbour" not in sys.modules


def test_one_file_with_two_sets_of_macros_is_an_error():
    """A file is compiled once for a variant: two launches of it can't have different macros."""
    x, y, z = Array("x", ("M", "N")), Array("y", ("M", "N"), role="output"), Array("z", ("M", "N"))
    twice = Operator("twice", "y = x", (x, y), reference=lambda v: {"y": v.x})
    first = Launch("k", ("x", "z"), grid=1, block=32, reads=("x",), writes=("z",), defines=(("F", "1"),))
    second = dataclasses.replace(first, args=("z", "y"), reads=("z",), writes=("y",), defines=(("F", "2"),))
    variant = Variant("k", twice, "k.cu", (first, second), scratch=(z,))
    shape = Shape(M=1, N=1)
    with pytest.raises(DeclarationError, match=r"k\.cu is compiled once"):
        Plan(Case(variant, shape), gpu_named("h200"))
    same = dataclasses.replace(variant, launches=(first, dataclasses.replace(second, defines=first.defines)))
    assert len(Plan(Case(same, shape), gpu_named("h200")).launches) == 2


def test_what_is_stored_between_has_the_type_of_the_shape():
    """A reference that stores and reads again sees what the type of the elements keeps, whatever its inputs are."""
    arrays = (
        Array("i", ("M", "N"), dtype="int32", high=9),
        Array("x", ("M", "N")),
        Array("y", ("M", "N"), role="output"),
    )
    seen = []

    def computed(v):
        seen.append((v.stored(v.x / 3), v.stored(v.i / 3, "float32")))
        return {"y": seen[-1][0]}

    operator = Operator("op", "y = x / 3", arrays, reference=computed)
    inputs = {"i": Contents(np.ones(1, np.int32), (1, 2)), "x": Contents(np.ones(1, np.float16), (1, 2))}
    reference(operator, Shape(M=1, N=2, dtype="float16"), inputs)
    assert (seen[-1][0] == np.float64(np.float16(1 / 3))).all()
    assert (seen[-1][1] == np.float64(np.float32(1 / 3))).all()
