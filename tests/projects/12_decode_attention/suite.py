import numpy as np

from pytest_roofline import Array, Launch, Limit, Operator, Scalar, Shape, Suite, Variant


def attention(v):
    scores = np.einsum("bhd,bshd->bhs", v.q, v.k) / np.sqrt(v.D)
    beyond = np.arange(v.S) >= v.length[:, None, None]
    e = np.exp(np.where(beyond, -np.inf, scores - scores.max(axis=-1, keepdims=True)))
    return {"o": np.einsum("bhs,bshd->bhd", e / e.sum(axis=-1, keepdims=True), v.v)}


ATTENTION = Operator(
    "decode_attention",
    "o = softmax(q k^T / sqrt(D)) v over the first length[b] positions",
    arrays=(
        Array("q", ("B", "H", "D"), low=-1.0),
        Array("k", ("B", "S", "H", "D"), low=-1.0),
        Array("v", ("B", "S", "H", "D"), low=-1.0),
        Array("length", ("B",), dtype="int32", low=1, high=lambda s: s.S + 1),
        Array("o", ("B", "H", "D"), role="output", rtol=1e-4, atol=1e-5),
    ),
    scalars=(Scalar("scale", "float", lambda s: s.D**-0.5),),
    reference=attention,
    flops=lambda s: 4 * s.B * s.H * s.S * s.D,
    default=Shape(B=2, H=4, D=64, S=100),
)
BLOCK_A_HEAD = Variant(
    "block_a_head",
    ATTENTION,
    "decode_attention.cu",
    Launch(
        "decode_attention",
        args=("q", "k", "v", "length", "o", "H", "S", "D", "scale"),
        grid=lambda s: (s.H, s.B),
        block=128,
        vector=4,
    ),
    limits=(
        Limit(lambda s: s.D <= 128, "D <= 128: a thread has one value of the output"),
        Limit(lambda s: s.B <= 65535, "B <= 65535: a grid has at most 65535 blocks in y"),
    ),
)
SUITE = Suite((BLOCK_A_HEAD,), {"main": (Shape(B=4, H=8, D=64, S=256),)})
