import numpy as np

from pytest_roofline import Array, Launch, Limit, Operator, Shape, Suite, Variant, ceil_div


def rotary(v):
    first, second = np.split(v.x, 2, axis=-1)
    c, s = v.cos[:, None], v.sin[:, None]  # the same for all heads
    return {"x": np.concatenate([first * c - second * s, second * c + first * s], axis=-1)}


ROTARY = Operator(
    "rotary",
    "x = x turned by its position, pair by pair",
    arrays=(
        Array("x", ("B", "S", "H", "D"), role="inout", low=-1.0, rtol=1e-5, atol=1e-6),
        Array("cos", ("S", lambda s: s.D // 2), low=-1.0),
        Array("sin", ("S", lambda s: s.D // 2), low=-1.0),
    ),
    reference=rotary,
    default=Shape(B=2, S=16, H=4, D=64),
)
PAIR_A_THREAD = Variant(
    "pair_a_thread",
    ROTARY,
    "rotary.cu",
    Launch(
        "rotary",
        args=("x", "cos", "sin", "B", "S", "H", "D"),
        grid=lambda s: ceil_div(s.B * s.S * s.H * (s.D // 2), 256),
        block=256,
        vector=4,
    ),
    limits=(Limit(lambda s: s.D % 2 == 0, "D % 2 == 0: values are turned in pairs"),),
)
SUITE = Suite((PAIR_A_THREAD,), {"main": (Shape(B=2, S=512, H=16, D=128),)})
