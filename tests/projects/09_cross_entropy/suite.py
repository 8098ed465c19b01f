import numpy as np

from pytest_roofline import Array, Launch, Operator, Scalar, Shape, Suite, Variant


def backward(v):
    e = np.exp(v.logits - v.logits.max(axis=1, keepdims=True))
    share = e / e.sum(axis=1, keepdims=True)
    share[np.arange(len(share)), v.labels] -= 1
    return {"logits": share / v.M}


CROSS_ENTROPY = Operator(
    "cross_entropy_backward",
    "logits = (softmax(logits) - one_hot(label)) / M",
    arrays=(
        Array("logits", ("M", "V"), role="inout", low=-4.0, high=4.0, rtol=1e-4, atol=lambda s: 1e-8 / s.M),
        Array("labels", ("M",), dtype="int64", low=0, high="V"),
    ),
    scalars=(Scalar("scale", "float", lambda s: 1 / s.M),),
    reference=backward,
    default=Shape(M=32, V=1024),
)
BLOCK_A_ROW = Variant(
    "block_a_row",
    CROSS_ENTROPY,
    "cross_entropy.cu",
    Launch(
        "cross_entropy",
        args=("logits", "labels", "scale", "V"),
        grid=lambda s: s.M,
        block=256,
        vector={"logits": 4, "labels": 8},
    ),
)
SUITE = Suite((BLOCK_A_ROW,), {"main": (Shape(M=2048, V=4096),)})
