"""Shapes: named extents, equal whatever their order, immutable, short in print."""

from __future__ import annotations

import copy
import pickle

import pytest

from pytest_roofline import Shape
from pytest_roofline.errors import RefusedError


def test_extents_are_read_by_name():
    """``shape.M`` and ``shape["M"]`` are the extent; another name is an AttributeError that says which shape it was."""
    shape = Shape(B=2, H=8, S=128, D=64, dtype="bfloat16")
    assert (shape.B, shape["H"], shape.S, shape.D, shape.dtype) == (2, 8, 128, 64, "bfloat16")
    assert shape.extents == {"B": 2, "H": 8, "S": 128, "D": 64}
    with pytest.raises(AttributeError, match=r"Shape\(M=3\) has no extent 'N'"):
        _ = Shape(M=3).N


def test_it_prints_short():
    """Extents in the order given, the dtype where it is not float32; ``repr`` is what made it."""
    assert str(Shape(M=8, N=1000)) == "8x1000"
    assert str(Shape(N=1000, M=8, dtype="float16")) == "1000x8-float16"
    assert str(Shape()) == "scalar"
    assert repr(Shape(M=8, dtype="float64")) == "Shape(M=8, dtype='float64')"


def test_order_does_not_tell_shapes_apart():
    """Equal extents and types are one shape, as keys too; another type is another shape."""
    assert Shape(M=1, N=2) == Shape(N=2, M=1)
    assert hash(Shape(M=1, N=2)) == hash(Shape(N=2, M=1))
    assert len({Shape(M=1, N=2), Shape(N=2, M=1), Shape(M=2, N=1), Shape(M=1, N=2, dtype="float16")}) == 3
    assert Shape(M=1) != "1"


def test_it_survives_pickling_and_copying():
    """Workers of pytest-xdist and deep copies get the same shape."""
    shape = Shape(M=8, N=1000, dtype="float16")
    assert pickle.loads(pickle.dumps(shape)) == copy.deepcopy(shape) == shape


def test_it_does_not_change():
    """Setting an extent is an error that names the way to another shape."""
    shape = Shape(M=8)
    with pytest.raises(AttributeError, match=r"replace\(M="):
        shape.M = 9
    assert shape.replace(M=9) == Shape(M=9)
    assert shape.replace(dtype="float16") == Shape(M=8, dtype="float16")


@pytest.mark.parametrize(
    ("extents", "told"),
    [
        ({"M": 0}, "M = 0 is refused, nothing was launched: an extent is 1 to 2"),
        ({"M": -1}, "M = -1 is refused"),
        ({"M": 2**63}, "is refused"),
        ({"M": True}, "M is a Python int"),
        ({"M": 8.0}, "M is a Python int"),
        ({"M": 8, "dtype": "int8"}, "dtype = 'int8' is refused"),
    ],
)
def test_what_is_no_size_is_refused(extents, told):
    """Zero, negative, too large, boolean or fractional extents and types that are not floating."""
    with pytest.raises(RefusedError, match=told):
        Shape(**extents)
