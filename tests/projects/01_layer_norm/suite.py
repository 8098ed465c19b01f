import numpy as np

from pytest_roofline import Array, Launch, Limit, Operator, Scalar, Shape, Suite, Variant


def layer_norm(v):
    mean = v.x.mean(axis=1)
    rstd = 1 / np.sqrt(v.x.var(axis=1) + v.eps)
    return {"y": (v.x - mean[:, None]) * rstd[:, None] * v.w + v.b, "mean": mean, "rstd": rstd}


LAYER_NORM = Operator(
    "layer_norm",
    "y = (x - mean) * rstd * w + b",
    arrays=(
        Array("x", ("M", "N"), low=-2.0, high=3.0),
        Array("w", ("N",)),
        Array("b", ("N",), low=-1.0),
        Array("y", ("M", "N"), role="output", rtol=1e-4, atol=1e-5),
        Array("mean", ("M",), role="output", atol=1e-5),
        Array("rstd", ("M",), role="output", rtol=1e-5),
    ),
    scalars=(Scalar("eps", "float", 1e-5),),
    reference=layer_norm,
    default=Shape(M=64, N=768),
)
BLOCK_A_ROW = Variant(
    "block_a_row",
    LAYER_NORM,
    "layer_norm.cu",
    Launch(
        "layer_norm",
        args=("x", "w", "b", "y", "mean", "rstd", "N", "eps"),
        grid=lambda s: s.M,
        block=256,
        vector={"x": 16, "w": 16, "b": 16, "y": 16, "mean": 4, "rstd": 4},
    ),
    limits=(Limit(lambda s: s.N % 4 == 0, "N % 4 == 0: rows are read as float4"),),
    alignment=16,
)
SUITE = Suite((BLOCK_A_ROW,), {"main": (Shape(M=8192, N=768),)})
