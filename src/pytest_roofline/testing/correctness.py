"""Right answers at every boundary shape, and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Variant
from ..errors import RefusedError
from ..run.case import Case

Check = Callable[..., Any]


def test_answer(check: Check, case: Case) -> None:
    """The variant's answer is within the tolerance of the float64 reference."""
    found = check(case)
    assert found.of_tolerance <= 1
    assert found.values > 0 or found.not_checked


def test_past_2_32_elements(check: Check, huge_case: Case) -> None:
    """Offsets are 64-bit: past 2^32 elements what some blocks write is right.

    An extent that is passed as a 32-bit int can't be that large: then the refusal names it.
    """
    try:
        found = check(huge_case)
    except RefusedError as error:
        assert "a whole number from" in str(error)  # noqa: PT017 - either is right
        return
    assert found.of_tolerance <= 1
    assert found.values > 0 or found.not_checked


def test_refusal(suite: Suite, refused_case: tuple[Variant, Shape]) -> None:
    """A shape past a limit is refused by name, limit and values, and the variants that run it are named."""
    variant, shape = refused_case
    with pytest.raises(RefusedError, match="nothing was launched") as refused:
        Case(variant, shape, suite)
    text = str(refused.value)
    assert text.startswith(f"{variant.name} can't run {shape}")
    assert shape.words() in text
    able = [one.name for one in suite.able(variant.operator, shape)]
    assert all(name in text for name in able)
    assert able or "No variant runs it" in text
