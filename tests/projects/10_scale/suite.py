from pytest_roofline import Array, Launch, Operator, Scalar, Shape, Suite, Variant, ceil_div

SCALE = Operator(
    "scale",
    "y = factor x",
    arrays=(Array("x", ("N",), low=-1.0), Array("y", ("N",), role="output")),
    scalars=(Scalar("factor", "float", 1.5),),
    reference=lambda v: {"y": v.factor * v.x},
    default=Shape(N=10000),
)
OF_256 = Variant(
    "of_256",
    SCALE,
    "scale.cu",
    Launch(
        "ns::scale<256, float>",
        args=("x", "y", "factor", "N"),
        grid=lambda s: ceil_div(s.N, 256),
        block=256,
        vector=4,
        unrolled=1,
    ),
)
SUITE = Suite((OF_256,), {"main": (Shape(N=2**24),)})
