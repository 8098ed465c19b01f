"""Rounding to 16 bits happens once, and their order counts neighbours."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_roofline.hardware.dtypes import FLOATS, as_stored, dtype_of, is_floating, ordinals

INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80}  # as a bit pattern
PRECISION = {"float16": 11, "bfloat16": 8}  # significant bits
LEAST = {"float16": -14, "bfloat16": -126}  # exponent of the smallest normal number
OVERFLOW = {"float16": 65520.0, "bfloat16": 2.0**128 - 2.0**119}  # from here on the nearest is infinity


def patterns(name: str, *bits: int) -> np.ndarray:
    return np.array(bits, np.uint16).view(dtype_of(name))


def exactly(value: float, name: str) -> float:
    """``value`` rounded once, to nearest even, in exact arithmetic."""
    if value == 0 or abs(value) >= OVERFLOW[name]:
        return math.copysign(math.inf if value else 0.0, value)
    exponent = max(math.frexp(value)[1] - 1, LEAST[name])
    quantum = Fraction(2) ** (exponent - PRECISION[name] + 1)
    return math.copysign(float(round(Fraction(abs(value)) / quantum) * quantum), value)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_midpoint_rounds_to_even_and_a_hair_beside_it_to_the_nearer(name: str, sign: float) -> None:
    """Of all neighbours: halfway goes to the even one, and the next float64 on either side to the one it is nearer."""
    bits = np.arange(INFINITY[name], dtype=np.uint16)
    below = bits[:-1].view(dtype_of(name)).astype(np.float64)
    middle = (below + bits[1:].view(dtype_of(name)).astype(np.float64)) / 2
    wanted = {0.0: bits[:-1], np.inf: bits[1:], np.nan: bits[:-1] + (bits[:-1] & 1)}
    for toward, want in wanted.items():
        values = middle if np.isnan(toward) else np.nextafter(middle, toward)
        got = as_stored(sign * values, dtype_of(name)).view(np.uint16)
        assert np.array_equal(got, want | (0 if sign > 0 else 0x8000))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_cast_through_float32_would_round_twice(name: str) -> None:
    """A hair above halfway goes up and a hair below an odd one's halfway goes down, where a cast errs both times."""
    half = 2.0 ** -PRECISION[name]  # of the distance of 1 from its upper neighbour
    values = np.array([1 + half + 2.0**-40, 1 + 3 * half - 2.0**-40])
    up = np.array([1 + 2 * half, 1 + 2 * half])
    twice = values.astype(np.float32).astype(dtype_of(name)).astype(np.float64)
    for sign in (1, -1):
        assert np.array_equal(as_stored(sign * values, dtype_of(name)).astype(np.float64), sign * up)
    assert not (twice == up).any()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@given(value=st.floats(allow_nan=False))
def test_any_value_rounds_as_in_exact_arithmetic(name: str, value: float) -> None:
    """Any float64, subnormal or huge, becomes what a fraction rounded once is."""
    got = as_stored(np.array([value]), dtype_of(name)).astype(np.float64)[0]
    want = exactly(value, name)
    assert got == want
    assert math.copysign(1, got) == math.copysign(1, want)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_overflow_and_subnormals(name: str) -> None:
    """From halfway past the largest on it is infinity; half the smallest subnormal is 0, all above it is not."""
    edge, tiny = OVERFLOW[name], 2.0 ** (LEAST[name] - PRECISION[name] + 1)
    values = [np.nextafter(edge, 0), edge, 1e300, np.inf, tiny / 2, np.nextafter(tiny / 2, 1), 1e-300]
    want = [INFINITY[name] - 1, *[INFINITY[name]] * 3, 0, 1, 0]
    for sign, bit in ((1, 0), (-1, 0x8000)):
        got = as_stored(sign * np.array(values), dtype_of(name)).view(np.uint16)
        assert got.tolist() == [bits | bit for bits in want]
    assert np.isnan(as_stored(np.array([np.nan]), dtype_of(name)).astype(np.float64)).all()


def test_wider_types_are_a_plain_cast() -> None:
    """float32 and float64 take what NumPy makes of it."""
    values = np.array([1 / 3, 1e300, -1e-60])
    with np.errstate(over="ignore"):
        assert np.array_equal(as_stored(values, np.dtype(np.float32)), values.astype(np.float32))
    assert np.array_equal(as_stored(values, np.dtype(np.float64)), values)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_ordinals_count_all_values_in_order(name: str) -> None:
    """From -inf to inf each value is one above the one before it, and both zeros are 0."""
    bits = np.arange(INFINITY[name] + 1, dtype=np.uint16)
    rising = np.concatenate([(bits[::-1] | 0x8000), bits]).view(dtype_of(name))
    found = ordinals(rising)
    assert (np.diff(rising.astype(np.float64)[found != 0]) > 0).all()
    assert found.tolist() == [*range(-INFINITY[name], 1), *range(INFINITY[name] + 1)]
    strided = np.repeat(patterns(name, 1, 0x8001), 2)[::2]
    assert ordinals(strided).tolist() == [1, -1]


def test_types_by_name() -> None:
    """Every type of a shape is known by its name and floating; integers and bool are not floating."""
    sizes = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
    assert {name: dtype_of(name).itemsize for name in FLOATS} == sizes
    assert all(dtype_of(name).name == name and is_floating(dtype_of(name)) for name in FLOATS)
    assert not any(is_floating(dtype_of(name)) for name in ("int16", "uint8", "bool"))
