"""The operators: what each computes, on which arrays, with a float64 reference and the tolerance of a right answer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_roofline.declare.suite import ELEMENT, Array, Arrays, Operator, Scalar, Shape, Stored


def rmsnorm_reference(arrays: Arrays, scalars: Mapping[str, float]) -> dict[str, np.ndarray]:
    """y = x * rsqrt(mean(x^2) + eps) * w, row by row in float64; x (M, N), w (N,), y (M, N)."""
    x = arrays["x"]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.mean(x * x, axis=1, keepdims=True)
        return {"y": x * (1.0 / np.sqrt(mean + scalars["eps"])) * arrays["w"]}


def softmax_reference(arrays: Arrays, scalars: Mapping[str, float]) -> dict[str, np.ndarray]:
    """y_i = exp(x_i - m) / sum_j exp(x_j - m) with m = max(x), row by row in float64; x and y (M, N)."""
    x = arrays["x"]
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.max(x, axis=1, keepdims=True))
        return {"y": e / np.sum(e, axis=1, keepdims=True)}


def add_rmsnorm_reference(arrays: Arrays, scalars: Mapping[str, float], stored: Stored) -> dict[str, np.ndarray]:
    """h = x + r, and y = RMSNorm of h as it is stored, so as where a model adds in its own type; x, r, h, y (M, N)."""
    with np.errstate(invalid="ignore"):
        h = arrays["x"] + arrays["r"]
    return {"h": h, "y": rmsnorm_reference({"x": stored(h), "w": arrays["w"]}, scalars)["y"]}


def absolute_tolerance(columns: int) -> float:
    """Floor of the tolerance; 1e-7 alone would let zeros pass on very long rows, whose values are about 1/N."""
    return min(1e-7, 1e-3 / columns)


X = Array("x", ("M", "N"), low=-3.0, high=3.0, dtype=ELEMENT)
R = Array("r", ("M", "N"), low=-3.0, high=3.0, dtype=ELEMENT)
W = Array("w", ("N",), low=0.0, high=1.0, dtype=ELEMENT)
H = Array("h", ("M", "N"), dtype=ELEMENT)
Y = Array("y", ("M", "N"), dtype=ELEMENT)

RMSNORM = Operator(
    name="rmsnorm",
    formula="y = x * rsqrt(mean(x^2) + eps) * w",
    inputs=(X, W),
    outputs=(Y,),
    scalars=(Scalar("eps", "float", 1e-6),),
    reference=rmsnorm_reference,
    default_shape=Shape(4096, 3584),  # hidden size of Qwen2.5-7B
    rtol=2e-3,  # __expf and rsqrtf are why it is loose
    atol=absolute_tolerance,
)
SOFTMAX = Operator(
    name="softmax",
    formula="y_i = exp(x_i - max(x)) / sum_j exp(x_j - max(x))",
    inputs=(X,),
    outputs=(Y,),
    scalars=(),
    reference=softmax_reference,
    default_shape=Shape(4096, 2048),  # context length
    rtol=2e-3,
    atol=absolute_tolerance,
)

ADD_RMSNORM = Operator(
    name="add_rmsnorm",
    formula="h = x + r, y = h * rsqrt(mean(h^2) + eps) * w",
    inputs=(X, R, W),
    outputs=(H, Y),
    scalars=(Scalar("eps", "float", 1e-6),),
    reference=add_rmsnorm_reference,
    default_shape=Shape(4096, 3584),
    rtol=2e-3,
    atol=absolute_tolerance,
    stores_between=True,
)
