"""A shape near the wanted one that a variant's limits allow."""

from __future__ import annotations

import pytest

from pytest_roofline import Array, Launch, Limit, Operator, Shape, Suite, Variant
from pytest_roofline.testing.shapes import nearest

WANTED = Shape(M=8, N=1000)


def found(*limits: Limit) -> Shape | None:
    x, y = Array("x", ("M", "N")), Array("y", ("M", "N"), role="output")
    operator = Operator("copy", "y = x", (x, y), reference=lambda v: {"y": v.x}, default=Shape(M=16, N=512))
    variant = Variant("r", operator, "r.cu", Launch("k", ("x", "y"), grid=1, block=32), limits=limits)
    return nearest(Suite((variant,)), variant, WANTED)


def test_the_wanted_shape_where_it_is_allowed():
    """Nothing is changed that need not be."""
    assert found() == WANTED
    assert found(Limit(lambda s: s.N % 8 == 0, "N % 8 == 0")) == WANTED


@pytest.mark.parametrize(
    "limits",
    [
        (Limit(lambda s: s.N % 64 == 0, "N % 64 == 0"),),
        (Limit(lambda s: s.N <= 256, "N <= 256"), Limit(lambda s: s.M <= 4, "M <= 4")),
        (Limit(lambda s: s.M <= 1, "M <= 1"), Limit(lambda s: s.N % 256 == 0, "N % 256 == 0")),
        (Limit(lambda s: s.N in (64, 128), "N is 64 or 128"), Limit(lambda s: s.M % 3 == 0, "M % 3 == 0")),
        (Limit(lambda s: s.N > 5000, "N > 5000"),),
    ],
    ids=lambda limits: ", ".join(limit.reason for limit in limits),
)
def test_c73_another_shape_that_the_limits_allow(limits):
    """Multiples, bounds from both sides and single values, of one extent and of several."""
    shape = found(*limits)
    assert shape is not None
    assert all(limit.holds(shape) for limit in limits)


def test_a_multiple_beside_is_taken():
    """Of what is allowed in one extent that lies beside the wanted, the other extent as it was."""
    shape = found(Limit(lambda s: s.N % 64 == 0, "N % 64 == 0"))
    assert shape in (Shape(M=8, N=960), Shape(M=8, N=1024))


def test_none_where_nothing_is_allowed():
    """A limit that no shape keeps gives none, and no error."""
    assert found(Limit(lambda s: s.N < 1, "nothing")) is None
