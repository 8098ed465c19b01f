"""Every variant at every boundary shape, and every refusal. Generic: works with any declaration."""

from __future__ import annotations

import pytest

from pytest_roofline.errors import RefusedError


def test_answer(check, variant_shape):
    """The variant's answer is within the tolerance of the float64 reference."""
    variant, shape = variant_shape
    found = check(variant, shape)
    assert found.of_tolerance <= 1
    assert found.values > 0


def test_past_2_31_elements(check, huge_shape):
    """Row offsets are 64-bit: the first, the last and random rows of an array past 2^31 elements are right."""
    variant, shape = huge_shape
    assert shape.M * shape.N > 2**31
    assert check(variant, shape).of_tolerance <= 1


def test_refusal(suite, refused_shape):
    """A shape past a limit is refused by name, limit and value, and the variants that run it are named."""
    variant, shape = refused_shape
    with pytest.raises(RefusedError, match="nothing was launched") as refused:
        suite.require(variant, shape)
    text = str(refused.value)
    assert variant.name in text
    assert f"N = {shape.N}" in text
    able = [r.name for r in suite.family(variant.operator) if r.broken_limit(shape) is None]
    assert all(name in text for name in able)
    assert able or "No variant runs it" in text
