"""A row is laid out over threads, vectors and blocks with nothing left out, within what the GPU has."""

from __future__ import annotations

import dataclasses

import pytest
from configs.layout import RowLayout, blocks_a_row, in_registers, in_shared, width_of

from pytest_roofline import Shape
from pytest_roofline.hardware.dtypes import dtype_of
from pytest_roofline.hardware.gpus import GPUS, gpu_named
from pytest_roofline.hardware.limits import CLUSTERS
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import LackingError, Plan
from pytest_roofline.run.sample import units_of

FLOATS = ("float32", "float16", "bfloat16")  # of the shipped kernels

COLUMNS = (*range(1, 66), 127, 128, 255, 257, 1000, 1001, 2048, 3584, 8188, 8191, 8192, 8193, 8999, 9000)
LONG = (12288, 16384, 16385, 22943, 24576, 32768, 40000, 65536, 65537, 98304, 152064, 262143, 262144, 524287, 524288)
ROWS = (1, 32, 177, 400, 4096)
ON = ("rtx4090", "h200", "a100", "rtx5090", "t4")
MIDDLE = ((1024, 2), (384, 4), (384, 3))  # threads and blocks, as the suite asks for
CASES = [(dtype, name) for dtype in FLOATS for name in ON]


def covered(layout: RowLayout, columns: int) -> None:
    """The threads have vectors for all of the row, those called full lie within it, and one more would not."""
    across = layout.threads * layout.cluster  # vectors
    vectors = columns // layout.width
    assert columns % layout.width == 0
    assert across * layout.vectors >= vectors > across * (layout.vectors - 1)
    assert layout.full == vectors // across
    assert layout.vectors - 1 <= layout.full <= layout.vectors
    assert layout.threads % 32 == 0
    assert 32 <= layout.threads <= 1024
    assert layout.cluster in CLUSTERS


@pytest.mark.parametrize(("dtype", "widest"), [("float32", 4), ("float16", 8), ("bfloat16", 8)])
def test_a_vector_is_the_widest_that_divides_the_row(dtype: str, widest: int) -> None:
    """Up to 16 bytes: 4 floats or 8 of 16 bits, half as many for each factor of two that N lacks."""
    for columns in (*range(1, 18), 1000, 1001, 1002, 1004, 152064, 524287):
        wanted = next(width for width in (8, 4, 2, 1) if width <= widest and columns % width == 0)
        assert width_of(Shape(M=3, N=columns, dtype=dtype)) == wanted


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("step", [32, 128, 1024])
@pytest.mark.parametrize(("thread_bytes", "most"), [(32, 128), (64, 128), (128, 128), (32, 64), (128, 64)])
def test_a_row_in_registers_is_covered(dtype: str, thread_bytes: int, most: int, step: int) -> None:
    """Of every width, in as few blocks as hold it with so many bytes a thread, and whole steps of threads."""
    for columns in (*COLUMNS, *LONG):
        layout = in_registers(Shape(M=8, N=columns, dtype=dtype), thread_bytes, most, step)
        covered(layout, columns)
        assert layout.threads % step == 0
        held = layout.vectors * max(4, layout.vector_bytes)
        assert held <= most or layout.cluster == CLUSTERS[-1]
        if layout.cluster > 1:
            half = -(-columns // (layout.width * layout.cluster // 2))
            assert -(-half // 1024) * max(4, layout.vector_bytes) > most
        assert (layout.shared, layout.in_shared) == (0, False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_thread_holds_what_it_is_asked_to(dtype: str) -> None:
    """3584 columns with 32 bytes a thread take 448 threads in float32 and half of them in 16 bits."""
    threads = in_registers(Shape(M=8, N=3584, dtype=dtype), 32, 128).threads
    assert threads == 3584 * dtype_of(dtype).itemsize // 32


@pytest.mark.parametrize(("dtype", "name"), CASES)
def test_a_row_in_shared_memory_is_covered_within_the_gpus_limits(dtype: str, name: str) -> None:
    """Of every width and few or many rows: what a block and an SM take fits, and one vector at least is there."""
    on = gpu_named(name)
    for columns in (*COLUMNS, *LONG):
        for rows in ROWS:
            for kept in (0, 1, 4):
                for middle in MIDDLE:
                    layout = in_shared(Shape(M=rows, N=columns, dtype=dtype), on, kept, middle)
                    covered(layout, columns)
                    assert layout.in_shared
                    assert 0 <= layout.register_vectors <= min(kept, layout.vectors - 1)
                    size = max(4, layout.vector_bytes)
                    assert layout.shared == (layout.vectors - layout.register_vectors) * layout.threads * size
                    if (layout.cluster == 1 or on.has_clusters) and columns < 2**18:
                        fits(layout, on)


def fits(layout: RowLayout, on) -> None:
    """With room for the partial results of all warps, the kilobyte that the driver takes of each block, in 128s."""
    padded = next(2**n for n in range(10) if 32 * 2**n >= layout.cluster * layout.threads)
    taken = layout.shared + 8 * padded
    assert taken <= on.shared_per_block_optin
    assert layout.blocks * -(-(taken + 1024) // 128) * 128 <= on.shared_per_sm
    assert 1 <= layout.blocks * layout.threads <= on.threads_per_sm


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["h100", "h200", "b200"])
def test_a_cluster_of_the_data_centre_gpus_holds_what_the_limit_says(name: str, dtype: str) -> None:
    """524288 columns fit 16 blocks of any of them, whatever their type and however odd the row."""
    for columns in (524288, 524287, 500000, 400001, 297215):  # the last has 192 warps in MIDDLE[1], padded to 256
        for middle in MIDDLE:
            layout = in_shared(Shape(M=8, N=columns, dtype=dtype), gpu_named(name), 4, middle)
            covered(layout, columns)
            fits(layout, gpu_named(name))


def test_few_rows_are_split_and_many_are_not() -> None:
    """Eight rows of 64 KiB go over more blocks than 4096 do; a GPU without clusters never splits what fits."""
    few, many = (in_shared(Shape(M=rows, N=16384), gpu_named("h200"), 4, MIDDLE[1]).cluster for rows in (8, 4096))
    assert few > many == 1
    assert in_shared(Shape(M=8, N=16384), gpu_named("rtx4090"), 4, MIDDLE[1]).cluster == 1
    assert (
        in_shared(Shape(M=8, N=8193), gpu_named("h200"), 0, MIDDLE[1]).cluster <= 2
    )  # parts of under 32 KiB are not worth it


def test_a_vector_at_least_is_in_shared_memory_however_little_there_is() -> None:
    """Rather than keep the whole row in registers, fewer blocks are wanted, down to what does not fit at all."""
    for kilobytes in (5, 9, 16):
        small = dataclasses.replace(gpu_named("h200"), shared_per_sm=kilobytes * 1024, shared_per_block_optin=4500)
        for columns in (1024, 2048, 4096):
            layout = in_shared(Shape(M=4096, N=columns), small, 4, MIDDLE[1])
            assert layout.register_vectors <= layout.vectors - 1
            assert layout.shared > 0


def test_what_no_block_holds_asks_for_too_much() -> None:
    """Without clusters a row of 256 KiB comes out as one all the same, and what no cluster holds as the largest one."""
    layout = in_shared(Shape(M=8, N=65536), gpu_named("rtx4090"), 0, MIDDLE[1])
    assert layout.cluster > 1
    beyond = in_shared(Shape(M=8, N=2**21), gpu_named("h200"), 0, MIDDLE[1])
    assert beyond.cluster == CLUSTERS[-1]
    assert beyond.shared > gpu_named("h200").shared_per_block_optin


def test_macros_are_text_and_say_what_the_launch_is() -> None:
    """Each field is a macro by name; REGISTER_VECTORS is there where the row is in shared memory."""
    layout = RowLayout("bfloat16", 8, 96, 5, 4, cluster=2, register_vectors=1, blocks=3)
    named = (
        "ELEMENT=bfloat16 WIDTH=8 THREADS=96 VECTORS=5 FULL=4 CLUSTER=2 BLOCKS=3 X_CACHE=EVICT_LAST STAGGER_CYCLES=7"
    )
    made = layout.launch(X_CACHE="EVICT_LAST", STAGGER_CYCLES=7)
    assert " ".join(f"{name}={value}" for name, value in made["defines"]) == named
    assert (made["block"], made["cluster"], made["vector"]) == ((96, 1, 1), 2, 16)
    assert (made["unrolled"], made["shared"]) == (40, 0)
    shared = dataclasses.replace(layout, in_shared=True).launch()
    assert ("REGISTER_VECTORS", "1") in shared["defines"]
    assert (shared["unrolled"], shared["shared"]) == (None, 4 * 96 * 16)
    assert all(isinstance(value, str) for _, value in (*made["defines"], *shared["defines"]))


def test_a_narrow_vector_takes_a_word_of_shared_memory() -> None:
    """One element of 16 bits lies in 4 bytes there, and is accessed by 2."""
    layout = RowLayout("float16", 1, 64, 3, 2, in_shared=True)
    assert (layout.vector_bytes, layout.shared, layout.chunk) == (2, 3 * 64 * 4, 3 * 64 * 4)


def test_the_grid_is_of_whole_clusters() -> None:
    """So many blocks side by side for each row; equal grids are one function."""
    made = RowLayout("float32", 4, 64, 1, 1, cluster=4).launch()
    assert made["grid"](Shape(M=70000, N=8)) == (280000, 1, 1)
    assert blocks_a_row(4) is made["grid"]


@pytest.mark.parametrize("name", GPUS)
def test_every_launch_of_the_suite_is_covered(shipped, name: str) -> None:
    """The macros of each launch of each variant that runs on a GPU lay the row out over its block and grid."""
    on, seen = gpu_named(name), 0
    for variant in shipped:
        for columns in (1, 1000, 1001, 3584, 8191, 8192, 8193, 65536, 152064, 262143):
            for dtype in variant.dtypes:
                for rows in (1, 4096):
                    shape = Shape(M=rows, N=columns, dtype=dtype)
                    if variant.broken_limit(shape):
                        continue
                    try:
                        plan = Plan(Case(variant, shape), on)
                    except LackingError:
                        continue
                    seen += layout_of(plan)
    assert seen > 20 or on.capability < 80


def layout_of(plan: Plan) -> int:
    """Check the launches that say how a row is laid out; how many did."""
    seen = 0
    for launch in plan.launches:
        macros = dict(launch.defines)
        if "CLUSTER" not in macros or "VECTORS" not in macros:
            continue  # a loop of any length, or float4 alone
        numbers = [int(macros[name]) for name in ("WIDTH", "THREADS", "VECTORS", "FULL", "CLUSTER")]
        covered(RowLayout(plan.shape.dtype, *numbers), plan.shape.N)
        assert (launch.block[0], launch.cluster) == (numbers[1], numbers[4])
        assert {*launch.vector.values()} == {numbers[0] * dtype_of(macros["ELEMENT"]).itemsize}
        assert units_of(plan) == plan.shape.M
        seen += 1
    return seen
