"""One kernel outside the shipped suite: its own operator, reference, block and limit."""

from pytest_roofline import Array, Launch, Limit, Operator, Scalar, Shape, Suite, Variant

AXPBY = Operator(
    "axpby",
    "z = a x + y",
    arrays=(
        Array("x", ("M", "N"), low=-1.0, high=1.0),
        Array("y", ("M", "N"), low=-1.0, high=1.0),
        Array("z", ("M", "N"), role="output", rtol=1e-6, atol=1e-6),
    ),
    scalars=(Scalar("a", "float", 2.5),),
    reference=lambda v: v.a * v.x + v.y,
    default=Shape(M=64, N=512),
)
LAUNCH = Launch("axpby", args=("a", "x", "y", "z", "N"), grid=lambda s: s.M, block=128, vector=4)
SHORT = Limit(lambda s: s.N <= 4096, "N <= 4096: rows are short here")
SUITE = Suite(
    (Variant("axpby", AXPBY, "axpby.cu", LAUNCH, title="the plain loop", limits=(SHORT,)),),
    {"only": (Shape(M=4096, N=4096), Shape(M=1, N=512), Shape(M=1, N=8192))},
)
