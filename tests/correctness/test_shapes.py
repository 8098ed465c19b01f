"""Every rung at every boundary shape, and every refusal. Generic: works with any declaration."""

from __future__ import annotations

import pytest

from pytest_roofline.errors import RefusedError


def test_answer(check, rung_shape):
    """The rung's answer is within the tolerance of the float64 reference."""
    rung, shape = rung_shape
    found = check(rung, shape)
    assert found.of_tolerance <= 1
    assert found.values > 0


def test_past_2_31_elements(check, huge_shape):
    """Row offsets are 64-bit: the first, the last and random rows of an array past 2^31 elements are right."""
    rung, shape = huge_shape
    assert shape.M * shape.N > 2**31
    assert check(rung, shape).of_tolerance <= 1


def test_refusal(ladder, refused_shape):
    """A shape past a limit is refused by name, limit and value, and the rungs that run it are named."""
    rung, shape = refused_shape
    with pytest.raises(RefusedError, match="nothing was launched") as refused:
        ladder.require(rung, shape)
    text = str(refused.value)
    assert rung.name in text
    assert f"N = {shape.N}" in text
    able = [r.name for r in ladder.family(rung.operator) if r.broken_limit(shape) is None]
    assert all(name in text for name in able)
    assert able or "No rung runs it" in text
