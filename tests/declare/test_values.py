"""Contents of inputs, references on a part of them, and the extents that are independent."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_roofline import Array, Operator, Scalar, Shape
from pytest_roofline.declare import values
from pytest_roofline.declare.values import (
    Contents,
    independent,
    indices_of,
    make_inputs,
    next_prime,
    reference,
    trial,
)
from pytest_roofline.errors import DeclarationError


def operator(arrays, reference, name="op", **more) -> Operator:
    return Operator(name, "as the reference has it", arrays=arrays, reference=reference, **more)


SOFTMAX = operator(
    (Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")),
    lambda v: {"y": np.exp(v.x) / np.exp(v.x).sum(axis=1, keepdims=True)},
)
SGEMM = operator(
    (Array("a", ("M", "K")), Array("b", ("K", "N")), Array("c", ("M", "N"), role="inout")),
    lambda v: {"c": v.alpha * v.a @ v.b + v.beta * v.c},
    scalars=(Scalar("alpha", "float", 1.0), Scalar("beta", "float", 0.5)),
)
TRANSPOSE = operator((Array("x", ("M", "N")), Array("y", ("N", "M"), role="output")), lambda v: {"y": v.x.T})
SUM = operator((Array("x", ("N",)), Array("s", (), role="output")), lambda v: {"s": v.x.sum()})
GATHER = operator(
    (
        Array("table", ("V", "N")),
        Array("ids", ("B", "S"), dtype="int64", low=0, high="V"),
        Array("y", ("B", "S", "N"), role="output"),
    ),
    lambda v: {"y": v.table[v.ids]},
)
MEAN_OVER_M = operator(
    (Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")), lambda v: {"y": v.x - v.x.mean(axis=0)}
)
POSITIONS = operator(
    (Array("x", ("S", "D")), Array("y", ("S", "D"), role="output")),
    lambda v: {"y": v.x + np.arange(len(v.x))[:, None]},
)
SCALED = operator((Array("x", ("M",)), Array("y", ("M",), role="output")), lambda v: {"y": v.x / v.M})
HISTOGRAM = operator(
    (Array("x", ("N",), dtype="uint8", high=256), Array("h", (256,), role="output", dtype="int32", initial=0)),
    lambda v: {"h": np.bincount(v.x, minlength=256)},
)
GROUPS = operator(
    (Array("x", ("M", "N")), Array("s", ("M", lambda s: s.N // 32), role="output")),
    lambda v: {"s": np.abs(v.x).reshape(len(v.x), -1, 32).max(axis=2)},
)


@pytest.mark.parametrize(
    ("of", "free"),
    [
        (SOFTMAX, ("M",)),
        (SGEMM, ("M", "N")),
        (TRANSPOSE, ("M", "N")),
        (SUM, ()),
        (GATHER, ("N", "B", "S")),
        (MEAN_OVER_M, ("N",)),
        (POSITIONS, ("D",)),
        (SCALED, ("M",)),
        (HISTOGRAM, ()),
        (GROUPS, ("M",)),
    ],
    ids=["softmax", "sgemm", "transpose", "sum", "gather", "mean", "positions", "scaled", "histogram", "groups"],
)
def test_independent_extents_are_found_by_the_reference(of, free):
    """Those along which the outputs at some indices need the inputs at these alone; positions and means depend."""
    assert independent(of) == free


def test_a_part_of_the_reference_is_the_part_of_the_whole():
    """At picked rows and columns of a matrix product the reference gives what it gives there for all."""
    shape = Shape(M=7, K=5, N=9)
    inputs = make_inputs(SGEMM, shape)
    picked = {"M": np.array([1, 6]), "N": np.array([0, 4, 8])}
    part = reference(SGEMM, shape, inputs, picked=picked)["c"]
    np.testing.assert_allclose(part, reference(SGEMM, shape, inputs)["c"][np.ix_(picked["M"], picked["N"])], rtol=1e-12)


def test_inputs_stay_within_their_bounds():
    """Uniform in [low, high), whole numbers for integers, an extent as bound, and the same for the same seed."""
    shape = Shape(V=5, N=3, B=40, S=50)
    made = make_inputs(GATHER, shape)
    ids = made["ids"].full()
    assert ids.dtype == np.int64
    assert ids.shape == (40, 50)
    assert set(ids.ravel().tolist()) == {0, 1, 2, 3, 4}
    assert (make_inputs(GATHER, shape)["ids"].full() == ids).all()
    assert (make_inputs(GATHER, shape, seed=1)["ids"].full() != ids).any()
    values = made["table"].full()
    assert 0 <= values.min() < values.max() < 1


def test_made_contents_must_have_the_declared_shape():
    """``make`` gives sorted or permuted inputs; another shape is an error that names the array and both shapes."""
    arrays = (Array("x", ("N",), make=lambda s, rng: np.sort(rng.random(s.N))), Array("y", ("N",), role="output"))
    good = operator(arrays, lambda v: {"y": v.x})
    x = make_inputs(good, Shape(N=100))["x"].full()
    assert (np.diff(x) >= 0).all()
    assert x.dtype == np.float32
    arrays = (Array("x", ("N",), make=lambda s, rng: rng.random(s.N + 1)), arrays[1])
    with pytest.raises(DeclarationError, match=r"array 'x' .* make returned \(101,\), wanted an array of \(100,\)"):
        make_inputs(operator(arrays, lambda v: {"y": v.x}), Shape(N=100))


@pytest.mark.parametrize(
    ("of", "shape"), [(SOFTMAX, Shape(M=2**20, N=300)), (SCALED, Shape(M=2**28))], ids=["rows", "flat"]
)
def test_large_inputs_repeat_after_a_prime_number_of_items(of, shape):
    """Beyond 2^27 elements the host holds a part; an offset off by 2^32 bytes or elements meets other values."""
    x = make_inputs(of, shape)["x"]
    item = math.prod(x.shape[1:])
    items, rest = divmod(x.tile.size, item)
    assert rest == 0
    assert x.tile.size < 2**22
    assert items == next_prime(items)
    for off in (2**31, 2**32, 2**30):  # elements, and bytes of float32
        assert off // item % items or off % item, "an offset that wraps lands on the same values"
    assert len(np.unique(x.tile)) > x.tile.size // 2


@pytest.mark.parametrize(
    ("of", "array", "shape"),
    [(SGEMM, "b", Shape(M=8, K=64, N=2**17)), (SOFTMAX, "x", Shape(M=4, N=2**21 + 1))],
    ids=["no items", "large items"],
)
def test_large_inputs_without_small_items_repeat_too(monkeypatch, of, array, shape):
    """b of a matrix product begins with K, along which it is summed; a row may be larger than the host should hold."""
    monkeypatch.setattr(values, "TILE_ABOVE", 2**21)
    contents = make_inputs(of, shape)[array]
    size = contents.tile.size
    assert 2**20 <= size < 2**21
    assert size == next_prime(size)
    flat = np.array([0, 5, size + 5, 2**32 - 1])
    assert contents.at(flat).tolist() == contents.tile[[0, 5, 5, (2**32 - 1) % size]].tolist()


def test_contents_are_taken_at_indices():
    """``take`` gives the product of indices and ``at`` flat ones, repeated or not."""
    contents = Contents(np.arange(7, dtype=np.float32), (4, 5))
    full = np.resize(np.arange(7), 20).reshape(4, 5)
    assert (contents.full() == full).all()
    rows, columns = np.array([0, 3]), np.array([1, 2, 4])
    assert (contents.take((rows, columns)) == full[np.ix_(rows, columns)]).all()
    assert (contents.at(np.array([0, 8, 19])) == full.ravel()[[0, 8, 19]]).all()
    assert Contents.of(np.float32(3.0).reshape(())).take(()).shape == ()


@pytest.mark.parametrize(
    ("give", "told"),
    [
        (lambda v: {"z": v.x}, "must return all of y; it returned z"),
        (lambda v: {"y": v.x[:-1]}, r"its reference returns y of \(\d+, \d+\), declared is"),
        (lambda v: {"y": v.nothing}, "fails at .*the reference has no 'nothing'; there are"),
        (lambda v: None, "it returned NoneType|returns y of"),
    ],
)
def test_a_reference_that_can_not_be_right_is_told(give, told):
    """Missing outputs, other shapes and exceptions are errors of the declaration, with the operator's name."""
    with pytest.raises(DeclarationError, match=told):
        trial(operator(SOFTMAX.arrays, give))


def test_a_single_output_needs_no_mapping():
    """The reference of an operator with one output may return the array alone."""
    plain = operator(SOFTMAX.arrays, lambda v: 2 * v.x)
    shape = Shape(M=2, N=3)
    inputs = make_inputs(plain, shape)
    assert (reference(plain, shape, inputs)["y"] == 2 * inputs["x"].full().astype(np.float64)).all()


def test_what_is_stored_between_is_rounded():
    """``v.stored`` is what a kernel reads back that stored in the type of the shape."""
    seen = {}
    arrays = (Array("x", ("N",)), Array("y", ("N",), role="output"))

    def look(v):
        seen["stored"] = v.stored(v.x + 1e-3)
        return {"y": v.x}

    shape = Shape(N=64, dtype="float16")
    inputs = make_inputs(operator(arrays, look), shape)
    reference(operator(arrays, look), shape, inputs)
    want = (inputs["x"].full().astype(np.float64) + 1e-3).astype(np.float16).astype(np.float64)
    assert (seen["stored"] == want).all()


def test_indices_of_an_array_follow_its_dims():
    """Named dims that are picked have their indices, all others every index."""
    picked = {"M": np.array([2, 5])}
    rows, columns = indices_of(SOFTMAX.arrays[0], Shape(M=8, N=3), picked)
    assert rows.tolist() == [2, 5]
    assert columns.tolist() == [0, 1, 2]
