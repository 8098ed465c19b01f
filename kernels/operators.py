"""The operators: what each computes, on which arrays, with a float64 reference and the tolerance of a right answer."""

from __future__ import annotations

import numpy as np

from pytest_roofline import Array, Operator, Scalar, Shape


def rmsnorm(x: np.ndarray, w: np.ndarray, eps: float) -> np.ndarray:
    """x * rsqrt(mean(x^2) + eps) * w, row by row in float64; x (M, N), w (N,), result (M, N)."""
    mean = np.mean(x * x, axis=1, keepdims=True)
    y: np.ndarray = x * (1.0 / np.sqrt(mean + eps)) * w
    return y


def softmax(x: np.ndarray) -> np.ndarray:
    """exp(x_i - m) / sum_j exp(x_j - m) with m = max(x), row by row in float64; x and result (M, N)."""
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    y: np.ndarray = e / np.sum(e, axis=1, keepdims=True)
    return y


# Relative tolerances of float32 are some times the largest errors seen against float64: 2.3e-7 for a norm, and for a
# softmax 6.7e-6 on rows whose values are far apart, for __expf errs by more units the larger its argument (CUDA
# Programming Guide, "Intrinsic Functions"). A sum of two is rounded once, by 2^-24. What is below the smallest normal
# number may flush to zero. In narrow types one unit in the last place is allowed.
TINY = float(np.finfo(np.float32).tiny)
NORM = {"rtol": 2e-6, "atol": TINY, "ulps": 1.0}
EXPONENTIAL = {"rtol": 2e-5, "atol": TINY, "ulps": 1.0}
SUM = {"rtol": 1e-7, "atol": TINY, "ulps": 1.0}
X = Array("x", ("M", "N"), low=-3.0, high=3.0)
R = Array("r", ("M", "N"), low=-3.0, high=3.0)
W = Array("w", ("N",), low=0.0, high=1.0)
H = Array("h", ("M", "N"), role="output", **SUM)
Y = Array("y", ("M", "N"), role="output", **NORM)
P = Array("y", ("M", "N"), role="output", **EXPONENTIAL)

RMSNORM = Operator(
    "rmsnorm",
    "y = x * rsqrt(mean(x^2) + eps) * w",
    arrays=(X, W, Y),
    scalars=(Scalar("eps", "float", 1e-6),),
    reference=lambda v: {"y": rmsnorm(v.x, v.w, v.eps)},
    default=Shape(M=4096, N=3584),  # hidden size of Qwen2.5-7B
)
SOFTMAX = Operator(
    "softmax",
    "y_i = exp(x_i - max(x)) / sum_j exp(x_j - max(x))",
    arrays=(X, P),
    reference=lambda v: {"y": softmax(v.x)},
    default=Shape(M=4096, N=2048),  # context length
)
# y is of h as it is stored, so as where a model adds in its own type.
ADD_RMSNORM = Operator(
    "add_rmsnorm",
    "h = x + r, y = h * rsqrt(mean(h^2) + eps) * w",
    arrays=(X, R, W, H, Y),
    scalars=(Scalar("eps", "float", 1e-6),),
    reference=lambda v: {"h": v.x + v.r, "y": rmsnorm(v.stored(v.x + v.r), v.w, v.eps)},
    default=Shape(M=4096, N=3584),
)
