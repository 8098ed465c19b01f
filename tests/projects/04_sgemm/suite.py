from pytest_roofline import Array, Launch, Limit, Operator, Scalar, Shape, Suite, Variant, ceil_div

SGEMM = Operator(
    "sgemm",
    "C = alpha A B + beta C",
    arrays=(
        Array("a", ("M", "K"), low=-1.0),
        Array("b", ("K", "N"), low=-1.0),
        Array("c", ("M", "N"), role="inout", low=-1.0, rtol=1e-5, atol=lambda s: 1e-6 + 1e-7 * s.K),
    ),
    scalars=(Scalar("alpha", "float", 1.5), Scalar("beta", "float", 0.5)),
    reference=lambda v: {"c": v.alpha * v.a @ v.b + v.beta * v.c},
    flops=lambda s: 2 * s.M * s.N * s.K,
    default=Shape(M=48, N=80, K=64),
)
TILED = Variant(
    "tiled",
    SGEMM,
    "sgemm.cu",
    Launch(
        "sgemm<16>",
        args=("M", "N", "K", "alpha", "a", "b", "beta", "c"),
        grid=lambda s: (ceil_div(s.N, 16), ceil_div(s.M, 16)),
        block=(16, 16),
    ),
    limits=(Limit(lambda s: s.M <= 65535 * 16, "M <= 1048560: a grid has at most 65535 blocks in y"),),
)
SUITE = Suite((TILED,), {"main": (Shape(M=256, N=256, K=256),)})
