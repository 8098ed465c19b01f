import numpy as np

from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant, ceil_div

HISTOGRAM = Operator(
    "histogram",
    "h[b] = how often b occurs in x",
    arrays=(
        Array("x", ("N",), dtype="uint8", high=256),
        Array("h", (256,), role="output", dtype="int32", initial=0),
    ),
    reference=lambda v: {"h": np.bincount(v.x, minlength=256)},
    default=Shape(N=10000),
)
SHARED_BINS = Variant(
    "shared_bins",
    HISTOGRAM,
    "histogram.cu",
    Launch(
        "histogram",
        args=("x", "h", "N"),
        grid=lambda s: min(ceil_div(s.N, 256), 264),
        block=256,
        vector={"x": 1, "h": 4},
    ),
)
SUITE = Suite((SHARED_BINS,), {"main": (Shape(N=2**20),)})
