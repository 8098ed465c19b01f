from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant

SUM = Operator(
    "sum",
    "s = sum of x",
    arrays=(Array("x", ("N",)), Array("s", (), role="output", rtol=1e-5)),
    reference=lambda v: {"s": v.x.sum()},
    default=Shape(N=10000),
)
TWO_LAUNCHES = Variant(
    "two_launches",
    SUM,
    "sum.cu",
    (
        Launch("sum_parts", args=("x", "parts", "N"), grid=128, block=256),
        Launch("sum_all", args=("parts", "s"), grid=1, block=128),
    ),
    scratch=(Array("parts", (128,)),),
    alignment=16,
)
SUITE = Suite((TWO_LAUNCHES,), {"main": (Shape(N=2**20),)})
