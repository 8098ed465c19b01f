import numpy as np

from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant, ceil_div

SILU_MUL = Operator(
    "silu_mul",
    "x = x / (1 + exp(-x)) * y",
    arrays=(
        Array("x", ("N",), role="inout", low=-8.0, high=8.0, rtol=1e-5, atol=1e-6),
        Array("y", ("N",), low=-1.0),
    ),
    reference=lambda v: {"x": v.x / (1 + np.exp(-v.x)) * v.y},
    default=Shape(N=10000),
)
ONE_EACH = Variant(
    "one_each",
    SILU_MUL,
    "silu_mul.cu",
    Launch("silu_mul", args=("x", "y", "N"), grid=lambda s: ceil_div(s.N, 256), block=256, vector=4, unrolled=1),
)
SUITE = Suite((ONE_EACH,), {"main": (Shape(N=2**24),)})
