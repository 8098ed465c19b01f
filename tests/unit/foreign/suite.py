"""One kernel outside the shipped suite: its own operator, reference, ledger, block and limit."""

from pytest_roofline import Array, Launch, Limit, Operator, Scalar, Shape, Suite, Variant
from pytest_roofline.declare.suite import Workload

AXPBY = Operator(
    name="axpby",
    formula="z = a x + y",
    inputs=(Array("x", ("M", "N"), -1.0, 1.0), Array("y", ("M", "N"), -1.0, 1.0)),
    outputs=(Array("z", ("M", "N")),),
    scalars=(Scalar("a", "float", 2.5),),
    reference=lambda arrays, scalars: {"z": scalars["a"] * arrays["x"] + arrays["y"]},
    default_shape=Shape(M=64, N=512),
    rtol=1e-6,
    atol=lambda columns: 1e-6,
)
SUITE = Suite(
    variants=(
        Variant(
            "axpby",
            AXPBY,
            "axpby.cu",
            "the plain loop",
            launches=(Launch("axpby", ("a", "x", "y", "z", "N"), reads=("x", "y"), writes=("z",), block=(128, 1, 1)),),
            limits=(Limit("N", "rows are short here", at_most=4096),),
        ),
    ),
    workloads=(Workload("only", {"axpby": (Shape(M=4096, N=4096), Shape(M=1, N=512), Shape(M=1, N=8192))}),),
)
