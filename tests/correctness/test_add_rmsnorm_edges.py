"""What the residual add with RMSNorm does at the edges, in every variant. Ids carry the case number."""

from __future__ import annotations

from functools import partial

import numpy as np

from pytest_roofline import Shape
from pytest_roofline.declare.values import Contents, reference
from pytest_roofline.hardware.dtypes import as_stored, dtype_of

OPERATOR = "add_rmsnorm"
N = 3584
LONG = 60000  # beyond the registers of one block: split over a cluster
NAN, INF = np.float32("nan"), np.float32("inf")
HALF_MAX = 65504.0


def uniform(seed: int, columns: int, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, (3, columns)).astype(np.float32)


def rows(x: dict[int, float], r: dict[int, float], columns: int = N, dtype: str = "float32") -> dict[str, np.ndarray]:
    """Three ordinary rows; the middle one has ``x`` and ``r`` at their columns, its neighbours are untouched."""
    arrays = {"x": uniform(7, columns), "r": uniform(8, columns)}
    for name, values in (("x", x), ("r", r)):
        for column, value in values.items():
            arrays[name][1, column] = value
    arrays["w"] = np.random.default_rng(3).random(columns, dtype=np.float32)
    return {name: array.astype(dtype_of(dtype)) for name, array in arrays.items()}


def opposite(dtype: str) -> dict[str, np.ndarray]:
    """The residual takes a whole row away: h is 0, and so is y."""
    inputs = rows({}, {}, dtype=dtype)
    inputs["r"][1] = -inputs["x"][1]
    return inputs


def mixed(dtype: str) -> dict[str, np.ndarray]:
    """C11: the sum of a large and a small value does not fit the type, so that h and its norm see the rounding."""
    inputs = rows({}, {}, dtype=dtype)
    inputs["x"] *= dtype_of(dtype).type(85)
    return inputs


CASES = {}
for one in ("float32", "float16", "bfloat16"):
    CASES |= {
        f"c09-zero-row-{one}": partial(opposite, one),
        f"c11-mixed-{one}": partial(mixed, one),
        f"nan-in-x-{one}": partial(rows, {17: NAN}, {}, dtype=one),
        f"nan-in-r-in-the-last-column-{one}": partial(rows, {}, {N - 1: NAN}, dtype=one),
        f"plus-inf-{one}": partial(rows, {17: INF}, {}, dtype=one),
        f"inf-minus-inf-{one}": partial(rows, {17: INF}, {17: -INF}, dtype=one),
        f"ragged-{one}": partial(rows, {}, {}, 1001, one),
        f"split-{one}": partial(rows, {}, {}, LONG, one),
        f"split-nan-{one}": partial(rows, {}, {LONG - 1: NAN}, LONG, one),
        f"split-minus-inf-{one}": partial(rows, {0: -INF}, {}, LONG, one),
    }
CASES |= {
    "overflow-of-h-float16": partial(rows, {17: HALF_MAX}, {17: HALF_MAX}, dtype="float16"),
    "overflow-by-a-tie-float16": partial(rows, {17: HALF_MAX}, {17: 16.0}, dtype="float16"),
    "just-no-overflow-float16": partial(rows, {17: HALF_MAX}, {17: 15.0}, dtype="float16"),
}


def test_edge(check, edge):
    """h and y are those of the float64 reference, NaN and infinities exactly where that has them."""
    case, inputs = edge
    assert check(case, inputs=inputs).of_tolerance <= 1


def test_the_reference_says_what_the_specification_says(suite):
    """The norm is that of h as it is stored: an h that overflows its type is infinite for the norm too."""

    def of(inputs):
        contents = {name: Contents.of(array) for name, array in inputs.items()}
        columns = inputs["x"].shape[1]
        shape = Shape(M=3, N=columns, dtype=inputs["x"].dtype.name)
        return reference(suite.operators[OPERATOR], shape, contents)

    assert (of(opposite("bfloat16"))["y"][1] == 0).all()
    for make in ("overflow-of-h-float16", "overflow-by-a-tie-float16"):
        y = of(CASES[make]())["y"]
        assert np.isnan(y[1, 17])
        assert (np.delete(y[1], 17) == 0).all()
        assert np.isfinite(y[[0, 2]]).all()
    assert np.isfinite(of(CASES["just-no-overflow-float16"]())["y"]).all()


def test_an_overflow_of_h_is_infinite(suite, variant_outputs):
    """65504 + 65504 is stored as infinity in float16: y is NaN there and 0 in the rest of the row."""
    inputs, shape = CASES["overflow-of-h-float16"](), Shape(M=3, N=N, dtype="float16")
    for variant in suite.family(suite.operators[OPERATOR]):
        found = variant_outputs(variant, shape, inputs)
        assert found["h"][1, 17] == np.inf
        assert np.isnan(found["y"][1, 17])
        assert (np.delete(found["y"][1], 17) == 0).all()


def test_c11_the_norm_is_that_of_the_rounded_h(suite, variant_outputs):
    """Rows of 256 + 1 in bfloat16 beside 2 + 0: y is that of 256, which 257 rounds to, in the ratio to 2 exactly."""
    shape = Shape(M=2, N=1024, dtype="bfloat16")
    x = np.tile(np.float32([256, 2]), (2, 512)).astype(dtype_of("bfloat16"))
    r = np.tile(np.float32([1, 0]), (2, 512)).astype(dtype_of("bfloat16"))
    inputs = {"x": x, "r": r, "w": np.ones(1024, dtype_of("bfloat16"))}
    for variant in suite.family(suite.operators[OPERATOR]):
        found = {name: array.astype(np.float64) for name, array in variant_outputs(variant, shape, inputs).items()}
        assert (found["h"] == np.tile([256.0, 2.0], (2, 512))).all()
        rms = np.sqrt((256.0**2 + 2.0**2) / 2 + 1e-6)
        want = as_stored(np.tile([256.0 / rms, 2.0 / rms], (2, 512)), x.dtype)
        assert (found["y"] == want.astype(np.float64)).all()
