from pytest_roofline import Array, Launch, Operator, Shape, Suite, Variant

GATHER = Operator(
    "gather",
    "y[b, s] = table[ids[b, s]]",
    arrays=(
        Array("table", ("V", "N")),
        Array("ids", ("B", "S"), dtype="int64", low=0, high="V"),
        Array("y", ("B", "S", "N"), role="output", rtol=0.0),
    ),
    reference=lambda v: {"y": v.table[v.ids]},
    default=Shape(V=1000, N=256, B=4, S=16),
)
BLOCK_A_ROW = Variant(
    "block_a_row",
    GATHER,
    "gather.cu",
    Launch(
        "gather",
        args=("table", "ids", "y", "N"),
        grid=lambda s: s.B * s.S,
        block=128,
        vector={"table": 4, "ids": 8, "y": 4},
    ),
)
SUITE = Suite((BLOCK_A_ROW,), {"main": (Shape(V=4096, N=1024, B=4, S=256),)})
