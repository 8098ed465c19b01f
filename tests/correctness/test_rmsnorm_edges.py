"""What RMSNorm does at the edges, in every variant. Ids carry the case number of the report they go back to."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_roofline import Shape
from pytest_roofline.declare.values import make_inputs
from pytest_roofline.hardware.dtypes import dtype_of

OPERATOR = "rmsnorm"
N = 3584
LONG = 60000
NAN, INF = np.float32("nan"), np.float32("inf")


def weight(columns: int) -> np.ndarray:
    return np.random.default_rng(3).random(columns, dtype=np.float32)


def ordinary(rows: int = 3, columns: int = N) -> np.ndarray:
    return np.random.default_rng(7).uniform(-3, 3, (rows, columns)).astype(np.float32)


def constant(value: float, columns: int = N) -> np.ndarray:
    return np.full((2, columns), value, np.float32)


def ordinary_with(values: dict[int, float], columns: int = N) -> np.ndarray:
    x = ordinary(columns=columns)
    for column, value in values.items():
        x[1, column] = value
    return x


def zero_row() -> np.ndarray:
    x = ordinary()
    x[1] = 0
    return x


ROWS = {
    "constant": lambda: constant(1.5),
    "constant-negative": lambda: constant(-2.0),
    "c09-small": lambda: constant(1e-3),
    "c09-zero-row": zero_row,
    "nan": lambda: ordinary_with({17: NAN}),
    "plus-inf": lambda: ordinary_with({17: INF}),
    "minus-inf-in-the-last-column": lambda: ordinary_with({N - 1: -INF}),
    "one-large-value": lambda: ordinary_with({N - 1: 1e4}),
    "rising": lambda: np.linspace(0, 10, N, dtype=np.float32)[None, :].repeat(2, axis=0),
    "c13-ragged-width": lambda: ordinary(columns=1004),
    "just-below-overflow": lambda: constant(3.0e17),
}
# Longer than one block of a small GPU holds: n8 splits these rows over a cluster of blocks.
SPLIT = {
    "split-nan": lambda: ordinary_with({17: NAN}, LONG),
    "split-plus-inf": lambda: ordinary_with({17: INF}, LONG),
    "split-minus-inf-in-the-last-column": lambda: ordinary_with({LONG - 1: -INF}, LONG),
    "split-one-large-value": lambda: ordinary_with({LONG - 1: 1e4}, LONG),
    "split-zero": lambda: constant(0.0, LONG),
}
NARROW = [name for name in ROWS if name != "just-below-overflow"]


def of_type(make: Callable[[], np.ndarray], dtype: str = "float32") -> dict[str, np.ndarray]:
    x = make()
    return {"x": x.astype(dtype_of(dtype)), "w": weight(x.shape[1]).astype(dtype_of(dtype))}


CASES = {name: partial(of_type, make) for name, make in (ROWS | SPLIT).items()}
for one in ("float16", "bfloat16"):
    CASES |= {f"{name}-{one}": partial(of_type, (ROWS | SPLIT)[name], one) for name in (*NARROW, *SPLIT)}


def test_edge(check, edge):
    """The answer is within the tolerance of the float64 reference, NaN exactly where that has it."""
    case, inputs = edge
    assert check(case, inputs=inputs).of_tolerance <= 1


def test_the_reference_says_what_the_specification_says(suite):
    """The float64 reference itself gives the values that are laid down for the edges."""

    def of(x: np.ndarray) -> np.ndarray:
        seen = SimpleNamespace(x=x.astype(np.float64), w=np.ones(x.shape[1]), eps=1e-6)
        with np.errstate(invalid="ignore"):
            return suite.operators[OPERATOR].reference(seen)["y"]

    assert np.allclose(of(constant(1e-3)), 0.707107, rtol=1e-6)
    assert (of(zero_row())[1] == 0).all()
    assert np.isnan(of(ordinary_with({17: NAN}))[1]).all()
    y = of(ordinary_with({17: INF}))[1]
    assert np.isnan(y[17])
    assert (np.delete(y, 17) == 0).all()
    c = 1.5
    assert np.allclose(of(constant(c)), c / math.sqrt(c * c + 1e-6))


def test_c23_eps_reaches_the_kernel_as_a_float(device, suite, variant_outputs):
    """eps given as a Python float is 1e-6 in the kernel: rows of 1e-3 show it, and so does a larger eps."""
    x, w = constant(1e-3), np.ones(N, np.float32)
    for variant in suite.family(suite.operators[OPERATOR]):
        y = variant_outputs(variant, Shape(M=x.shape[0], N=x.shape[1]), {"x": x, "w": w})["y"]
        assert np.allclose(y, 0.707107, rtol=2e-3)
        y = variant_outputs(variant, Shape(M=x.shape[0], N=x.shape[1]), {"x": x, "w": w}, {"eps": 3e-6})["y"]
        assert np.allclose(y, 0.5, rtol=2e-3)


def test_the_sum_of_squares_overflows_where_the_docs_say(device, suite, variant_outputs):
    """Beyond a row RMS of sqrt(FLT_MAX / N) the sum is infinite and the row comes out as 0; below it is right."""
    bound = math.sqrt(float(np.finfo(np.float32).max) / N)
    assert bound == pytest.approx(3.1e17, rel=0.01)
    w = np.ones(N, np.float32)
    for variant in suite.family(suite.operators[OPERATOR]):
        below = variant_outputs(variant, Shape(M=2, N=N), {"x": constant(0.98 * bound), "w": w})["y"]
        above = variant_outputs(variant, Shape(M=2, N=N), {"x": constant(1.02 * bound), "w": w})["y"]
        assert np.allclose(below, 1, rtol=2e-3)
        assert (above == 0).all()


def test_inputs_are_what_they_are_meant_to_be(suite):
    """The scale of the uniform inputs is sqrt(3)/3 = 0.577 in expectation, the weights lie in [0, 1)."""
    inputs = make_inputs(suite.operators[OPERATOR], Shape(M=64, N=N))
    x = inputs["x"].full().astype(np.float64)
    assert (1 / np.sqrt((x * x).mean(axis=1))).mean() == pytest.approx(math.sqrt(3) / 3, rel=0.01)
    assert inputs["w"].full().min() >= 0
    assert inputs["w"].full().max() < 1
    again = make_inputs(suite.operators[OPERATOR], Shape(M=64, N=N))
    assert np.array_equal(inputs["x"].full(), again["x"].full())
