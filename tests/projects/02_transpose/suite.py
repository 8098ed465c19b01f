from pytest_roofline import Array, Launch, Limit, Operator, Shape, Suite, Variant, ceil_div

TRANSPOSE = Operator(
    "transpose",
    "y = x^T",
    arrays=(Array("x", ("M", "N")), Array("y", ("N", "M"), role="output", rtol=0.0)),
    reference=lambda v: {"y": v.x.T},
    default=Shape(M=96, N=160),
)
TILED = Variant(
    "tiled",
    TRANSPOSE,
    "transpose.cu",
    Launch(
        "transpose",
        args=("x", "y", "M", "N"),
        grid=lambda s: (ceil_div(s.N, 32), ceil_div(s.M, 32)),
        block=(32, 8),
        vector=4,
    ),
    limits=(Limit(lambda s: s.M <= 65535 * 32, "M <= 2097120: a grid has at most 65535 blocks in y"),),
)
SUITE = Suite((TILED,), {"main": (Shape(M=1024, N=1024),)})
