"""A declaration that imports what lies beside it, and what its launches may not say of one file."""

from __future__ import annotations

import dataclasses
import sys
import types

import numpy as np
import pytest
from pytest_roofline.run.check import reference

from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant, load
from pytest_roofline.declare.loading import check
from pytest_roofline.declare.suite import ELEMENT
from pytest_roofline.errors import DeclarationError

SUITE = """
from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant
from {name} import TITLE

X, Y = Array("x", ("M", "N")), Array("y", ("M", "N"))
COPY = Operator("copy", "y = x", (X,), (Y,), (), lambda arrays, scalars: {{"y": arrays["x"]}}, Shape(1, 1), 0.0, abs)
SUITE = Suite((Variant("c1", COPY, "c1.cu", TITLE, (Launch("c1", ("x", "y"), ("x",), ("y",)),)),), ())
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
def test_two_ladders_have_each_their_own_neighbour_of_one_name(declared, package):
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


def test_one_file_with_two_sets_of_macros_is_an_error(tmp_path):
    """A file is compiled once for a variant: two launches of it can't have different macros."""
    x, y, z = (Array(name, ("M", "N")) for name in "xyz")
    twice = Operator("twice", "", (x,), (y,), (), lambda arrays, scalars: {"y": arrays["x"]}, Shape(M=1, N=1), 0.0, abs)
    first = Launch("k", ("x", "z"), ("x",), ("z",), defines=(("F", "1"),))
    second = Launch("k", ("z", "y"), ("z",), ("y",), defines=(("F", "2"),))
    (tmp_path / "k.cu").write_text("")
    variant = Variant("k", twice, "k.cu", "", (first, second), scratch=(z,))
    with pytest.raises(DeclarationError, match=r"k\.cu is compiled once"):
        check(Suite((variant,), (), root=tmp_path))
    same = dataclasses.replace(variant, launches=(first, dataclasses.replace(second, defines=first.defines)))
    check(Suite((same,), (), root=tmp_path))


def test_what_is_stored_between_has_the_type_of_the_floating_inputs():
    """An integer input in front does not make integers of what a reference stores and reads again."""
    scale, x, y = Array("i", ("M", "N"), 0, 9, "int32"), Array("x", ("M", "N"), dtype=ELEMENT), Array("y", ("M", "N"))
    seen = []

    def computed(arrays, scalars, stored):
        seen.append(stored(arrays["x"] / 3))
        return {"y": seen[-1]}

    operator = Operator("op", "", (scale, x), (y,), (), computed, Shape(M=1, N=1), 0.0, abs, stores_between=True)
    inputs = {"i": np.ones((1, 2), np.int32), "x": np.ones((1, 2), np.float16)}
    reference(operator, inputs, np.arange(1))
    assert (seen[0] == np.float64(np.float16(1 / 3))).all()
