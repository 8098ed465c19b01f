"""How variants from n5 and s5 on are launched: what each is compiled for at a shape on a GPU, and which to use there.

Every rule is from width, rows, type and GPU alone. The numbers are from sweeps on an H200, of the kind that
scripts/tune.py does; on other GPUs they are a guess.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_roofline import Shape
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.hardware.gpus import Gpu
from pytest_roofline.hardware.limits import MAX_THREADS

from .layout import LONG_CHUNK, VECTOR, WARP, RowLayout, few_rows, in_registers, in_shared, width_of

BLOCK_COLUMNS = 8192  # of a row that the registers of one block hold
CLUSTER_COLUMNS = 2**19  # of a row that the shared memory of a cluster of 16 blocks holds, in vectors of any width
CLUSTER_REGISTER_COLUMNS = 2**18  # of a row of which a cluster of 16 blocks holds three arrays in registers
CLUSTER_ROWS = (2**31 - 1) // 16  # a grid has at most 2^31 - 1 blocks, 16 of them for a row
MOST_BYTES = 128  # of a row that a thread holds in registers
N8_REGISTERS = {"float32": 40, "float16": 45, "bfloat16": 45}  # that a thread of n8 has beside kept vectors
N8_REGISTER_VECTORS = 4  # vectors that a thread of n8 keeps at most
N8_SUM_VECTORS = 4  # vectors in shared memory of which n8 takes the sum at a time
OTHER_REGISTERS = 22  # that a thread of s8 and s9 has beside its part of the row
MOST_BYTES_OF_EACH = 64  # of each of three arrays; half of it in narrow vectors, which spill from sm_100 on
FULL_L2 = 0.75  # share of the L2 cache that x and y may take before anything has to be kept in it
FAR_BEYOND_L2 = 3  # times the L2 cache, from which what is read is kept in it too
HOPELESS = 12  # times the L2 cache, from which what is written is not kept any more
ROOMY_BLOCK = 896  # threads up to which a2 may have any number of warps; beyond, to pad their partials would spill
ALL_THREADS_ROW = 64 * 1024  # bytes of a row up to which n8 gives it 1024 threads
SHORT_SOFTMAX_ROW = 8 * 1024  # bytes of a row up to which s6 and s7 give it few threads


def row_nbytes(shape: Shape) -> int:
    """Bytes of one row of x."""
    return shape.N * dtype_of(shape.dtype).itemsize


def x_nbytes(shape: Shape) -> int:
    """Bytes of x."""
    return shape.M * row_nbytes(shape)


def leaves_room_in_l2(shape: Shape, gpu: Gpu, each_way: int = 1) -> bool:
    """Whether ``each_way`` inputs like x and as many outputs leave a part of the L2 cache to others."""
    return 2 * each_way * x_nbytes(shape) <= FULL_L2 * gpu.l2_bytes


def thread_step(shape: Shape, gpu: Gpu) -> int:
    """What the threads of a block are a multiple of: for few rows a warp for each of the four schedulers of an SM."""
    return 4 * WARP if few_rows(shape, gpu) else WARP


def thread_bytes(shape: Shape, gpu: Gpu, softmax: bool = False) -> int:
    """Bytes of a row for each thread of a block.

    Few rows: 32, in float32 64 where no exponentials are to be taken. 16-bit types: 64. float32: 128 where x and y fit
    the L2 cache, and for short rows of a softmax, so that more rows are under way; else 32.
    """
    if shape.dtype != "float32":
        return 32 if few_rows(shape, gpu) else 64
    if few_rows(shape, gpu):
        return 32 if softmax else 64
    short = softmax and row_nbytes(shape) <= SHORT_SOFTMAX_ROW
    return 128 if short or 2 * x_nbytes(shape) <= gpu.l2_bytes else 32


def for_width(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """n5, s5: as many float4 a thread of a block of 256 as N needs."""
    across = 4 * 256
    vectors = -(-shape.N // across)
    return {"defines": (("VECTORS", str(vectors)), ("FULL", str(shape.N // across))), "unrolled": 4 * vectors}


def in_block(shape: Shape, gpu: Gpu, softmax: bool = False) -> RowLayout:
    """n6, n7, s6, s7: in the registers of one block."""
    return in_registers(shape, thread_bytes(shape, gpu, softmax), MOST_BYTES, thread_step(shape, gpu))


def row(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """n6."""
    return in_block(shape, gpu).launch()


def softmax_row(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """s6."""
    return in_block(shape, gpu, softmax=True).launch()


def cache_policy(shape: Shape, gpu: Gpu, each_way: int = 1) -> dict[str, str]:
    """Cache policies of inputs and outputs: ``each_way`` arrays like x are read and as many written.

    The default up to three quarters of the L2 cache. Up to all of it inputs, which are read once, are not allocated
    in L1. Beyond it outputs are evicted last from L2; where inputs alone take over three times the L2 cache they are
    too; and over twelve times only they are, for next to nothing of an output could stay.
    """
    read = each_way * x_nbytes(shape)
    if 2 * read <= gpu.l2_bytes:
        return {
            "X_CACHE": "DEFAULT" if leaves_room_in_l2(shape, gpu, each_way) else "NO_ALLOCATE",
            "Y_CACHE": "DEFAULT",
        }
    far, hopeless = read > FAR_BEYOND_L2 * gpu.l2_bytes, read > HOPELESS * gpu.l2_bytes
    return {"X_CACHE": "EVICT_LAST" if far else "DEFAULT", "Y_CACHE": "DEFAULT" if hopeless else "EVICT_LAST"}


def long_cache_policy(shape: Shape, gpu: Gpu) -> dict[str, str]:
    """The same of n8, s8 and s9, but x stays in L2 wherever something is asked for: found by measuring."""
    made = cache_policy(shape, gpu)
    return made if leaves_room_in_l2(shape, gpu) else made | {"X_CACHE": "EVICT_LAST"}


def cached_row(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """n7: as n6, with a cache policy."""
    return in_block(shape, gpu).launch(**cache_policy(shape, gpu))


def cached_softmax_row(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """s7: as s6, with a cache policy."""
    return in_block(shape, gpu, softmax=True).launch(**cache_policy(shape, gpu))


def long_layout(shape: Shape, gpu: Gpu, softmax: bool) -> RowLayout:
    """n8, s8, s9: in shared memory, over as many blocks as it takes.

    n8 takes its sum in whole passes where a block holds much of a row, but for whole 16-bit rows, which are faster as
    they are. A 16-bit vector of a softmax that waits in registers is eight floats there, so only one of them does,
    unless all rows are on the GPU at once and registers hold all of them.
    """
    if not softmax:
        middle = (1024, 2) if row_nbytes(shape) <= ALL_THREADS_ROW else (384, 4)
        layout = in_shared(shape, gpu, N8_REGISTER_VECTORS, middle, registers=(VECTOR // 4, N8_REGISTERS[shape.dtype]))
        whole = shape.dtype != "float32" and layout.cluster == 1
        return layout if whole or layout.chunk <= LONG_CHUNK else in_whole_passes(layout)
    if shape.dtype == "float32":
        return in_shared(shape, gpu, 6, (256, 4))
    layout = in_shared(shape, gpu, 1, (512, 3))
    registers = gpu.registers_per_sm // (layout.threads * layout.blocks)
    fits = layout.shared <= gpu.shared_per_block_optin and at_once(shape, gpu, layout)
    held = fits and layout.vectors * layout.width + OTHER_REGISTERS <= registers
    return replace(layout, register_vectors=layout.vectors) if held else layout


def in_whole_passes(layout: RowLayout) -> RowLayout:
    """n8: with so many vectors kept that those left are a multiple of what its sum takes at a time.

    Unless more are kept already, so that blocks fit. A thread has at least 64 registers here, enough for them.
    """
    return replace(
        layout, register_vectors=max(layout.register_vectors, layout.vectors % N8_SUM_VECTORS or N8_SUM_VECTORS)
    )


def at_once(shape: Shape, gpu: Gpu, layout: RowLayout) -> bool:
    """Whether all rows are on the GPU at once."""
    return shape.M * layout.cluster <= gpu.sms * layout.blocks


def long_row(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """n8."""
    layout, made = long_layout(shape, gpu, softmax=False), long_cache_policy(shape, gpu)
    if layout.threads * layout.blocks == gpu.threads_per_sm:  # a full SM has no registers left to say more
        made["Y_CACHE"] = "DEFAULT"
    return layout.launch(**made)


def long_softmax_row(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """s8."""
    return long_layout(shape, gpu, softmax=True).launch(**long_cache_policy(shape, gpu))


def stagger_group(shape: Shape, gpu: Gpu, layout: RowLayout) -> int:
    """s9: rows that begin together, on about half of the SMs, which is enough for DRAM; else all rows."""
    rows = max(1, gpu.sms // (2 * layout.cluster))
    return rows if rows < shape.M and at_once(shape, gpu, layout) else shape.M


def staggered_softmax_row(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """s9: STAGGER_CYCLES are what DRAM at its peak takes for the rows of a group, in cycles of the highest SM clock."""
    layout = long_layout(shape, gpu, softmax=True)
    rows = stagger_group(shape, gpu, layout)
    cycles = round(rows * row_nbytes(shape) / (1e9 * gpu.peak_gbs) * 1e6 * gpu.sm_clock_mhz)
    if rows == shape.M:
        rows, cycles = 1, 0  # all at once, and one build for any number of rows
    stagger = {"STAGGER_GROUP": rows, "STAGGER_CYCLES": cycles}
    return layout.launch(**long_cache_policy(shape, gpu), **stagger)


def added(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """The first launch of a1: no row in registers, so a loop of any length."""
    layout = in_registers(shape, 32, most_bytes=2**40)
    named = {"ELEMENT": layout.dtype, "WIDTH": layout.width, "THREADS": layout.threads}
    return layout.launch() | {"unrolled": None, "defines": tuple((name, str(value)) for name, value in named.items())}


def normed(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """The second launch of a1: the best RMSNorm, n7 or n8."""
    if shape.N <= BLOCK_COLUMNS:
        return {"kernel": "rms_n7", "source": "rmsnorm/n7_cache_policy.cu"} | cached_row(shape, gpu)
    return {"kernel": "rms_n8", "source": "rmsnorm/n8_cluster.cu"} | long_row(shape, gpu)


def fused_layout(shape: Shape, gpu: Gpu) -> RowLayout:
    """a2: in registers, over as many blocks as it takes."""
    narrow = width_of(shape) * dtype_of(shape.dtype).itemsize < VECTOR
    most = MOST_BYTES_OF_EACH // 2 if narrow and gpu.has_clusters else MOST_BYTES_OF_EACH
    each = thread_bytes(shape, gpu)
    layout = in_registers(shape, each, most, thread_step(shape, gpu))
    return layout if layout.threads <= ROOMY_BLOCK else in_registers(shape, each, most, MAX_THREADS)


def fused(shape: Shape, gpu: Gpu) -> dict[str, Any]:
    """a2."""
    return fused_layout(shape, gpu).launch(**cache_policy(shape, gpu, each_way=2))


def best_of(shape: Shape, gpu: Gpu, names: tuple[str, str, str, str], softmax: bool) -> tuple[str, str]:
    """The rule of RMSNorm and softmax, of the variants for few and for many rows, for long ones and for any length."""
    few, many, long, any_length = names
    if gpu.capability < 80 and shape.dtype == "float32":
        return any_length, f"{gpu.name} ({gpu.arch}) lacks instructions of sm_80 that faster variants need"
    if shape.N <= BLOCK_COLUMNS:
        name = few if leaves_room_in_l2(shape, gpu) else many
        takes = "at most" if name == few else "over"
        share = f"x and y take {takes} three quarters of the L2 cache of {gpu.name}"
        return name, f"a row fits the registers of a block, and {share}"
    layout = long_layout(shape, gpu, softmax) if shape.N <= CLUSTER_COLUMNS else None
    holds = layout and layout.shared <= gpu.shared_per_block_optin and (layout.cluster == 1 or gpu.has_clusters)
    holds = holds and shape.M <= CLUSTER_ROWS
    if holds or shape.dtype != "float32":  # 16 bits: nothing else runs it, and a refusal says what it needs
        over = f"a cluster of {layout.cluster} blocks" if layout and layout.cluster > 1 else "a block"
        where = "shared memory" if layout and layout.shared else "registers"
        return long, f"a row is too long for the registers of one block, and waits in the {where} of {over}, read once"
    what = "no cluster of blocks" if gpu.has_clusters else "no block"
    return any_length, f"{what} of {gpu.name} holds a row; this one reads it twice and runs any length"


def best_rmsnorm(shape: Shape, gpu: Gpu) -> tuple[str, str]:
    return best_of(shape, gpu, ("n6", "n7", "n8", "n2"), softmax=False)


def best_softmax(shape: Shape, gpu: Gpu) -> tuple[str, str]:
    name, why = best_of(shape, gpu, ("s6", "s7", "s8", "s2"), softmax=True)
    if name == "s8" and stagger_group(shape, gpu, long_layout(shape, gpu, softmax=True)) < shape.M:
        return "s9", f"{why}; all rows are on the GPU at once, and start staggered"
    return name, why


def best_add_rmsnorm(shape: Shape, gpu: Gpu) -> tuple[str, str]:
    if shape.N > CLUSTER_REGISTER_COLUMNS:
        return "a1", "a row is too long for the registers of a cluster of blocks; RMSNorm reads h again"
    if fused_layout(shape, gpu).cluster == 1 or gpu.has_clusters:
        return "a2", "h stays in registers and is not read again"
    return "a1", f"a row is too long for the registers of a block, and {gpu.name} has no clusters of them"
