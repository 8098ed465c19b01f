"""What variants share: limits with their reasons, the launch of one block a row, names of workloads."""

from __future__ import annotations

from functools import partial

from configs import rules
from configs.layout import blocks_a_row

from pytest_roofline import Launch, Limit

FEW, LONG, MANY_LONG = "sweep 32 (decode batch)", "long row", "many long rows"  # workloads that predictions name
BLOCK = 256
PAYLOAD = 32  # floats of a row that a thread of n3, n4, s3 and s4 keeps in registers


LAST_TRIP = 2**31 - 1 - BLOCK
LOOP = Limit(
    lambda s: s.N <= LAST_TRIP,
    f"N <= {LAST_TRIP}: the column counter is a 32-bit int and runs up to one block past the row",
)
REGISTERS = Limit(
    lambda s: s.N <= BLOCK * PAYLOAD,
    f"N <= {BLOCK * PAYLOAD}: the whole row must fit the block's registers, {BLOCK} threads x {PAYLOAD} floats, "
    "which is also why attention kernels work in tiles",
)
FLOAT4 = Limit(lambda s: s.N % 4 == 0, "N % 4 == 0: rows are read and written as float4")
BLOCK_ROW = Limit(
    lambda s: s.N <= rules.BLOCK_COLUMNS, f"N <= {rules.BLOCK_COLUMNS}: the row stays in the registers of one block"
)
CLUSTER_ROW = Limit(
    lambda s: s.N <= rules.CLUSTER_COLUMNS,
    f"N <= {rules.CLUSTER_COLUMNS}: the row must fit the shared memory of a cluster of 16 blocks",
)
CLUSTER_REGISTERS = Limit(
    lambda s: s.N <= rules.CLUSTER_REGISTER_COLUMNS,
    f"N <= {rules.CLUSTER_REGISTER_COLUMNS}: the row stays in the registers of a cluster of 16 blocks",
)
CLUSTER_GRID = Limit(
    lambda s: s.M <= rules.CLUSTER_ROWS,
    f"M <= {rules.CLUSTER_ROWS}: a grid has at most 2^31 - 1 blocks, 16 of them for a row",
)


# One block of 256 threads a row, 4 bytes an access; a configuration replaces what it needs.
by_row = partial(Launch, grid=blocks_a_row(1), block=BLOCK, vector=4)

DTYPES = ("float32", "float16", "bfloat16")
TYPED = {"alignment": 16, "dtypes": DTYPES, "capability": 80}  # of kernels that are built on vector.cuh
