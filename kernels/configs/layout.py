"""How a row is laid out over the threads of a block, or of a cluster of blocks: what a launch is compiled for.

The macros are those that common/row.cuh takes. Which layout is the fastest was found by measuring (scripts/tune.py);
the functions here turn that into rules from width, rows, type and GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pytest_roofline import Shape
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.hardware.gpus import Gpu
from pytest_roofline.hardware.limits import CLUSTERS, MAX_THREADS

WARP = 32
VECTOR = 16  # bytes of the widest access
GRANULE = 128  # bytes in which shared memory is given out (cuda_occupancy.h, sm_80 and newer)
RESERVED = 1024  # bytes of shared memory that the driver takes of each block (CUDA Programming Guide, sm_80 and newer)
FEW = 2  # rows for each SM, up to which the time of one row counts, not how many are under way
CHUNK = 128 * 1024  # bytes of a row that a block holds at most: longer rows are split
LONG_CHUNK = 96 * 1024  # bytes of a row in a block, beyond which at most two blocks are wanted on an SM


@dataclass(frozen=True)
class RowLayout:
    """A row as ``vectors`` vectors of ``width`` elements in each of ``threads`` threads of ``cluster`` blocks.

    ``full`` vectors are there in every thread whatever the row's end. Where ``in_shared``, ``register_vectors`` of them
    wait in registers and the rest in shared memory; else all are in registers. ``blocks`` shall fit an SM at once.
    """

    dtype: str
    width: int
    threads: int
    vectors: int
    full: int
    cluster: int = 1
    register_vectors: int = 0
    in_shared: bool = False
    blocks: int = 1

    @property
    def vector_bytes(self) -> int:
        return self.width * dtype_of(self.dtype).itemsize

    @property
    def chunk(self) -> int:
        """Bytes of the row that a block holds."""
        return self.vectors * self.threads * max(4, self.vector_bytes)

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory of a block; a vector there takes at least a word."""
        return (
            (self.vectors - self.register_vectors) * self.threads * max(4, self.vector_bytes) if self.in_shared else 0
        )

    def launch(self, **macros: object) -> dict[str, Any]:
        """What to replace of a launch; ``macros`` are more of them."""
        named = {
            "ELEMENT": self.dtype,
            "WIDTH": self.width,
            "THREADS": self.threads,
            "VECTORS": self.vectors,
            "FULL": self.full,
            "CLUSTER": self.cluster,
            "BLOCKS": self.blocks,
            **({"REGISTER_VECTORS": self.register_vectors} if self.in_shared else {}),
            **macros,
        }
        return {
            "block": (self.threads, 1, 1),
            "grid": blocks_a_row(self.cluster),
            "cluster": self.cluster,
            "vector": self.vector_bytes,
            "unrolled": None if self.in_shared else self.vectors * self.width,
            "shared": self.shared,
            "defines": tuple((name, str(value)) for name, value in named.items()),
        }


@cache
def blocks_a_row(blocks: int) -> Callable[[Shape], tuple[int, int, int]]:
    """The grid of ``blocks`` blocks for each row."""

    def grid(shape: Shape) -> tuple[int, int, int]:
        return (shape.M * blocks, 1, 1)

    return grid


def width_of(shape: Shape) -> int:
    """Elements of the widest vector, up to 16 bytes, that divides N: every row begins at a multiple of it."""
    width = VECTOR // dtype_of(shape.dtype).itemsize
    while shape.N % width:
        width //= 2
    return width


def few_rows(shape: Shape, gpu: Gpu) -> bool:
    """Whether rows are so few that the time of one counts, and not how many are under way."""
    return FEW * gpu.sms >= shape.M


def in_registers(
    shape: Shape, thread_bytes: int, most_bytes: int, thread_step: int = WARP, cluster: int = 1
) -> RowLayout:
    """A row in registers, about ``thread_bytes`` of it a thread, in blocks of a multiple of ``thread_step`` threads.

    Where a block has not threads enough they hold more, and beyond ``most_bytes`` the row is split over a cluster.
    """
    width, thread_bytes = width_of(shape), min(thread_bytes, most_bytes)
    size = max(4, width * dtype_of(shape.dtype).itemsize)  # a vector takes at least a register
    groups = -(-shape.N // (width * cluster))
    threads = min(MAX_THREADS, -(-groups * size // thread_bytes // thread_step) * thread_step)
    vectors = -(-groups // threads)
    if vectors * size > most_bytes and cluster < CLUSTERS[-1]:
        return in_registers(shape, thread_bytes, most_bytes, thread_step, 2 * cluster)
    return RowLayout(shape.dtype, width, threads, vectors, shape.N // (width * cluster * threads), cluster)


def in_shared(
    shape: Shape, gpu: Gpu, most_register_vectors: int, middle: tuple[int, int], registers: tuple[int, int] = (0, 0)
) -> RowLayout:
    """A row in shared memory, split over a cluster where it is too long, or where rows are too few for the GPU.

    ``most_register_vectors`` of a thread may wait in registers instead, where one more block fits an SM for it.
    ``middle`` is the number of threads and the blocks wanted on an SM where a block holds 48 to 96 KiB of the row. A
    vector in registers takes the first of ``registers`` of a thread, which has the second beside them. What no cluster
    holds comes out as the largest one: the launch is refused.
    """
    layouts = [_in_cluster(shape, gpu, most_register_vectors, middle, registers, cluster) for cluster in CLUSTERS]
    if not gpu.has_clusters:  # a whole row has to fit, however tightly
        return layouts[0] if layouts[0].blocks else replace(layouts[-1], blocks=1)
    fitting = [one for one in layouts if one.blocks and one.chunk <= CHUNK]
    if not fitting:
        return replace(layouts[-1], blocks=1)
    # Few rows: blocks enough for the GPU, unless a part of a row is too small to be worth it.
    enough = [one for one in fitting if shape.M * one.cluster > FEW * gpu.sms or one.chunk < CHUNK // 4]
    return enough[0] if enough else fitting[-1]


def _in_cluster(
    shape: Shape,
    gpu: Gpu,
    most_register_vectors: int,
    middle: tuple[int, int],
    registers: tuple[int, int],
    cluster: int,
) -> RowLayout:
    """A row in the shared memory of so many blocks; ``blocks`` is 0 where it does not fit."""
    width = width_of(shape)
    groups = shape.N // width
    size = max(4, width * dtype_of(shape.dtype).itemsize)
    chunk = -(-groups // cluster)
    threads, wanted = middle
    if chunk * size <= 48 * 1024:
        threads, wanted = 128 if few_rows(shape, gpu) else 256, 5
    elif chunk * size > LONG_CHUNK:
        threads, wanted = (MAX_THREADS, 1) if cluster == 1 else (512, 2)
    if gpu.capability != 90:  # measured on sm_90 alone; elsewhere so many threads leave too few registers
        threads, wanted = min(threads, 512), max(1, wanted // 2)
    threads = min(threads, -(-chunk // WARP) * WARP)
    vectors = -(-chunk // threads)
    layout = RowLayout(shape.dtype, width, threads, vectors, groups // (cluster * threads), cluster, in_shared=True)
    warps = threads // WARP * cluster
    partials = 8 * 2 ** (warps - 1).bit_length()  # two floats for each warp, padded to a power of two as in row.cuh
    each, beside = registers
    for blocks in range(wanted, 0, -1):
        share = gpu.shared_per_sm // blocks // GRANULE * GRANULE
        fits = min(share - RESERVED, gpu.shared_per_block_optin) - partials
        for kept in range(min(most_register_vectors, vectors - 1) + 1):
            held = kept == 0 or kept * each + beside <= gpu.registers_per_sm // (blocks * threads)
            if held and (vectors - kept) * threads * size <= fits:
                return replace(layout, register_vectors=kept, blocks=blocks)
    return replace(layout, blocks=0)
