"""Limits name the numbers at which boundary cases lie."""

from __future__ import annotations

import pytest

from pytest_roofline import Limit, Shape
from pytest_roofline.declare.limit import numbers_named
from pytest_roofline.errors import DeclarationError


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        (lambda s: s.N % 256 == 0, {"N": {256}}),
        (lambda s: s.M <= 17, {"M": {17}}),
        (lambda s: s.K % 32 == 0 and s.M < 100, {"K": {32}, "M": {100}}),
        (lambda s: s["N"] > 5 or s["N"] == 3, {"N": {5, 3}}),
        (lambda s: s.N & 7 == 0, {"N": {7}}),
        (lambda s: s.dtype == "float16", {}),
        (lambda s: s.M * s.N <= 8192, {}),
        (lambda s: s.nothing, {}),
    ],
)
def test_numbers_are_noted(condition, named):
    """What an extent is divided by or compared with, by extent; what is computed first is not seen."""
    assert numbers_named(condition, (Shape(M=8, N=4, K=64), Shape(M=1, N=1, K=32))) == named


def test_a_limit_needs_a_condition_and_a_reason():
    """Anything else is an error when it is made; a condition that fails is one when it is asked."""
    with pytest.raises(DeclarationError, match="it is a function of the shape"):
        Limit(True, "always")
    with pytest.raises(DeclarationError, match="say what it is for"):
        Limit(lambda s: True, "")
    assert Limit(lambda s: s.N % 4 == 0, "N % 4 == 0").holds(Shape(N=8))
    assert not Limit(lambda s: s.N % 4 == 0, "N % 4 == 0").holds(Shape(N=9))
    with pytest.raises(DeclarationError, match="limit 'of K' can't be had for Shape"):
        Limit(lambda s: s.K > 1, "of K").holds(Shape(N=8))
