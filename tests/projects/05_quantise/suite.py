import numpy as np

from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant


def quantise(v):
    most = np.abs(v.x).max(axis=1)
    return {"q": np.rint(v.x * (127 / most)[:, None]), "scale": most / 127}


QUANTISE = Operator(
    "quantise",
    "scale = max |x| / 127, q = round(x / scale)",
    arrays=(
        Array("x", ("M", "N"), low=-4.0, high=4.0),
        Array("q", ("M", "N"), role="output", dtype="int8", atol=1),  # a quotient beside a half goes either way in fp32
        Array("scale", ("M",), role="output", rtol=1e-6),
    ),
    reference=quantise,
    default=Shape(M=64, N=1024),
)
BLOCK_A_ROW = Variant(
    "block_a_row",
    QUANTISE,
    "quantise.cu",
    Launch(
        "quantise",
        args=("x", "q", "scale", "N"),
        grid=lambda s: s.M,
        block=128,
        vector={"x": 4, "q": 1, "scale": 4},
    ),
)
SUITE = Suite((BLOCK_A_ROW,), {"main": (Shape(M=8192, N=1024),)})
