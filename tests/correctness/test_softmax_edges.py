"""What softmax does at the edges, in every variant. Ids carry the case number of the report they go back to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_roofline import Shape
from pytest_roofline.declare.values import make_inputs
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.run.compare import compare


def shape_of(x: np.ndarray) -> Shape:
    return Shape(M=x.shape[0], N=x.shape[1], dtype=x.dtype.name)


OPERATOR = "softmax"
N = 2048
LONG = 60000
NAN, INF = np.float32("nan"), np.float32("inf")


def ordinary(rows: int, columns: int = N) -> np.ndarray:
    return np.random.default_rng(7).uniform(-3, 3, (rows, columns)).astype(np.float32)


def constant(value: float, columns: int = N) -> np.ndarray:
    return np.full((2, columns), value, np.float32)


def rising(columns: int = 4096) -> np.ndarray:
    """A new maximum at each step: a missing rescale shows here, and can't on constant input."""
    return (np.float32(0.02) * np.arange(columns, dtype=np.float32))[None, :].repeat(2, axis=0)


def peak_in_each(stride: int, rows: int) -> np.ndarray:
    """Row r has its one peak at column r * stride, so that each thread's or warp's slice wins once."""
    x = ordinary(rows)
    x[np.arange(rows), np.arange(rows) * stride] = 30.0
    return x


def ordinary_with(values: dict[int, float], columns: int = N) -> np.ndarray:
    """Three rows; the middle one has ``values`` at their columns, its neighbours must come out untouched."""
    x = ordinary(3, columns)
    for column, value in values.items():
        x[1, column] = value
    return x


def masked(where: slice, columns: int = N) -> np.ndarray:
    x = ordinary(4, columns)
    x[:, where] = -INF
    return x


def one_row_masked(columns: int = N) -> np.ndarray:
    x = ordinary(2, columns)
    x[0] = -INF
    return x


def alternating() -> np.ndarray:
    x = ordinary(2)
    x[:, ::2] += 50.0
    return x


def long_tail() -> np.ndarray:
    return np.array([[0.0, *np.linspace(-80.0, -110.0, 63)]] * 2, np.float32)


ROWS = {
    "constant": lambda: constant(1.5),
    "c06-rising": rising,
    "late-peak": lambda: ordinary_with({N - 1: 40.0}),
    "peak-in-each-thread": lambda: peak_in_each(1, 256),
    "peak-in-each-warp": lambda: peak_in_each(32, 64),
    "alternating": alternating,
    "c01-one-row-all-minus-inf": one_row_masked,
    "c14-minus-inf-first-half": lambda: masked(slice(0, N // 2)),
    "c14-minus-inf-group-of-four": lambda: masked(slice(1024, 1028)),
    "c14-minus-inf-one-threads-stride": lambda: masked(slice(5, None, 256)),
    "c14-minus-inf-one-threads-groups": lambda: masked(slice(0, None, 1024)),
    "c14-minus-inf-all-but-the-last": lambda: masked(slice(0, N - 1)),
    "c02-one-plus-inf": lambda: ordinary_with({100: INF}),
    "c02-two-plus-inf": lambda: ordinary_with({100: INF, 1500: INF}),
    "c03-nan-in-the-last-column": lambda: ordinary_with({N - 1: NAN}),
    "c04-constant-minus-2.45e5": lambda: constant(-2.45e5),
    "c04-constant-minus-1e30": lambda: constant(-1e30),
    "c04-constant-minus-3e38": lambda: constant(-3e38),
    "c04-constant-3e38": lambda: constant(3e38),
    "c05-two-of-1e8": lambda: constant(1e8, columns=2),
    "c05-two-at-the-edge-of-exp": lambda: constant(88.72284, columns=2),
    "c05-four-of-1e8": lambda: constant(1e8, columns=4),
    "c07-long-tail": long_tail,
    "c08-uniform-65537": lambda: constant(0.25, columns=65537),
    "c08-uniform-151936": lambda: constant(0.25, columns=151936),
    "c08-uniform-262144": lambda: constant(0.25, columns=262144),
}
# Longer than one block of a small GPU holds: s8 splits these rows over a cluster of blocks.
SPLIT = {
    "c06-rising": lambda: rising(LONG),
    "late-peak": lambda: ordinary_with({LONG - 1: 40.0}, LONG),
    "early-peak": lambda: ordinary_with({0: 40.0}, LONG),
    "c01-one-row-all-minus-inf": lambda: one_row_masked(LONG),
    "c14-minus-inf-first-half": lambda: masked(slice(0, LONG // 2), LONG),
    "c14-minus-inf-one-threads-stride": lambda: masked(slice(5, None, 256), LONG),
    "c14-minus-inf-all-but-the-last": lambda: masked(slice(0, LONG - 1), LONG),
    "c02-one-plus-inf": lambda: ordinary_with({100: INF}, LONG),
    "c03-nan-in-the-last-column": lambda: ordinary_with({LONG - 1: NAN}, LONG),
    "c04-constant-minus-2.45e5": lambda: constant(-2.45e5, LONG),
    "c04-constant-3e38": lambda: constant(3e38, LONG),
}
NARROW = [name for name in ROWS if name[:3] in ("con", "c06", "lat", "alt", "c01", "c14", "c02", "c03")]


def of_type(make: Callable[[], np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    return {"x": make().astype(dtype_of(dtype))}


CASES = {name: lambda make=make: {"x": make()} for name, make in ROWS.items()}
CASES |= {f"split-{name}": lambda make=make: {"x": make()} for name, make in SPLIT.items()}
for one in ("float16", "bfloat16"):
    CASES |= {f"{name}-{one}": partial(of_type, ROWS[name], one) for name in NARROW}
    CASES |= {f"split-{name}-{one}": partial(of_type, SPLIT[name], one) for name in SPLIT if "c04" not in name}
CASES["subnormal-results-float16"] = partial(of_type, lambda: ordinary(2, 152064), "float16")


def test_edge(check, edge):
    """The answer is within the tolerance of the float64 reference, NaN exactly where that has it."""
    case, inputs = edge
    assert check(case, inputs=inputs).of_tolerance <= 1


def test_the_reference_says_what_the_specification_says(suite):
    """The float64 reference itself gives the values that are laid down for the edges."""

    def of(x: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return suite.operators[OPERATOR].reference(SimpleNamespace(x=x.astype(np.float64)))["y"]

    y = of(one_row_masked())
    assert np.isnan(y[0]).all()
    assert np.isclose(y[1].sum(), 1)
    y = of(masked(slice(0, N // 2)))
    assert (y[:, : N // 2] == 0).all()
    assert np.allclose(y.sum(axis=1), 1)
    for values in ({100: INF}, {100: INF, 1500: INF}, {N - 1: NAN}):
        y = of(ordinary_with(values))
        assert np.isnan(y[1]).all()
        assert np.isfinite(y[[0, 2]]).all()
    assert (of(constant(-3e38)) == 4.8828125e-4).all()
    assert (of(constant(1e8, columns=2)) == 0.5).all()
    y = of(rising())
    assert y[0, -1] == pytest.approx(0.0198014, rel=1e-5)
    assert y[0, 0] == pytest.approx(5.35e-38, rel=1e-2)


def test_c08_a_row_sums_to_one(device, suite, variant_outputs):
    """The sum of a uniform row is 1 within a tolerance that grows with its length: N roundings of 2^-24 each."""
    for variant in suite.family(suite.operators[OPERATOR]):
        for columns in (2048, 65537, 262144):
            shape = Shape(M=1, N=columns)
            if not variant.broken_limit(shape):
                y = variant_outputs(variant, shape, {"x": constant(0.25, columns)[:1]})["y"]
                assert abs(float(y.astype(np.float64).sum()) - 1) < 1e-5 + columns * 2.0**-24


def test_c07_flushed_results_are_zero_or_right(device, suite, variant_outputs):
    """Results under the smallest normal float32 are exactly 0 or right to the tolerance; nothing else."""
    x = long_tail()
    shape = shape_of(x)
    want = suite.operators[OPERATOR].reference(SimpleNamespace(x=x.astype(np.float64)))["y"]
    for variant in suite.family(suite.operators[OPERATOR]):
        y = variant_outputs(variant, shape, {"x": x})["y"].astype(np.float64)
        tiny = want < np.finfo(np.float32).tiny
        assert tiny.any()
        assert ((y[tiny] == 0) | np.isclose(y[tiny], want[tiny], rtol=2e-3, atol=0)).all()
        assert np.allclose(y[~tiny], want[~tiny], rtol=2e-3, atol=0)


def test_masked_values_are_exactly_zero(device, suite, variant_outputs):
    """-inf among finite values gives exactly 0, not something small."""
    for where in (slice(0, N // 2), slice(1024, 1028), slice(5, None, 256), slice(0, N - 1)):
        x = masked(where)
        for variant in suite.family(suite.operators[OPERATOR]):
            y = variant_outputs(variant, shape_of(x), {"x": x})["y"]
            assert (y[:, where] == 0).all()
            assert np.allclose(y.sum(axis=1), 1, rtol=1e-5)


def test_inputs_are_what_they_are_meant_to_be(suite):
    """The sum of exp(x - max) of the uniform inputs is 0.166254 N in expectation."""
    x = make_inputs(suite.operators[OPERATOR], Shape(M=64, N=N))["x"].full().astype(np.float64)
    assert x.min() >= -3
    assert x.max() < 3
    sums = np.exp(x - 3).sum(axis=1) / N
    assert sums.mean() == pytest.approx(0.166254, rel=0.01)


def test_a_nan_answer_fails(suite):
    """The checker rejects NaN where the reference is finite, and a finite value where the reference is NaN."""
    (y,) = suite.operators[OPERATOR].outputs
    right, nan = np.full((1, 4), 0.25), np.full((1, 4), np.nan)
    shape = Shape(M=1, N=4)
    assert compare(y, shape, right.astype(np.float32), right).absolute == 0
    for got, want in ((nan, right), (right, nan)):
        with pytest.raises(WrongAnswerError, match="4 of 4 values"):
            compare(y, shape, got.astype(np.float32), want)
