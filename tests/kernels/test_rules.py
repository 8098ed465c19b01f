"""How the variants are configured, on an H200 mostly: the rules of kernels/configs/rules.py by rows, width and type."""

from __future__ import annotations

import pytest

from pytest_roofline import Shape, Suite
from pytest_roofline.hardware.gpus import Gpu, gpu_named

H200 = gpu_named("h200")
HELD = [Shape(M=32, N=152064, dtype="float16"), Shape(M=32, N=152064), Shape(M=300, N=30000, dtype="float16")]
HELD += [Shape(M=265, N=40000, dtype="bfloat16"), Shape(M=4096, N=152064, dtype="float16")]


def macros(suite: Suite, name: str, shape: Shape, on: Gpu = H200) -> dict[str, str]:
    return dict(suite.variant(name).configured(shape, on)[-1].defines)


@pytest.mark.parametrize(
    ("shape", "rows", "cycles"),
    [
        (Shape(M=32, N=152064), 4, 1001),  # 4 rows of 608256 bytes at 4814 GB/s take 505 ns of 1980 MHz
        (Shape(M=32, N=152064, dtype="float16"), 4, 500),
        (Shape(M=4, N=152064), 1, 0),  # all are one group
        (Shape(M=4096, N=152064), 1, 0),  # in waves
    ],
    ids=str,
)
def test_the_turns_of_s9(suite: Suite, shape: Shape, rows: int, cycles: int) -> None:
    """As many rows as half of the SMs take, for as long as DRAM takes to read them; none where that is all or waves."""
    found = macros(suite, "s9", shape)
    assert (found["STAGGER_GROUP"], found["STAGGER_CYCLES"]) == (str(rows), str(cycles))
    assert (suite.best("softmax", shape, H200).variant.name == "s9") == (cycles > 0)


@pytest.mark.parametrize(
    ("name", "shape", "threads", "vectors"),
    [
        ("n6", Shape(M=264, N=3584), 256, 4),  # 224 would hold as much, on seven warps
        ("n7", Shape(M=265, N=3584), 128, 7),
        ("n7", Shape(M=8192, N=3584), 448, 2),
        ("n6", Shape(M=1, N=3584, dtype="bfloat16"), 256, 2),
        ("s6", Shape(M=32, N=2048), 256, 2),
        ("s6", Shape(M=1, N=2048, dtype="float16"), 128, 2),
        ("s7", Shape(M=8192, N=2048), 64, 8),
        ("a2", Shape(M=32, N=3584), 256, 4),
        ("a2", Shape(M=2048, N=3584), 224, 4),
        ("a2", Shape(M=500, N=252616, dtype="bfloat16"), 1024, 4),  # 992 would do, and spill
    ],
)
def test_threads_of_a_row_in_registers(suite: Suite, name: str, shape: Shape, threads: int, vectors: int) -> None:
    """By rows, type and operator; up to two rows an SM in whole groups of four warps."""
    found = macros(suite, name, shape)
    assert (found["THREADS"], found["VECTORS"]) == (str(threads), str(vectors))


def test_what_is_held_in_registers_fits_them(suite: Suite) -> None:
    """A 16-bit softmax holds its row where all rows fit the GPU and a thread's part its registers, else one vector."""
    held = {str(shape): macros(suite, "s9", shape) for shape in HELD}
    assert {name: int(one["REGISTER_VECTORS"]) == int(one["VECTORS"]) for name, one in held.items()} == {
        "32x152064-float16": True,
        "32x152064": False,
        "300x30000-float16": False,
        "265x40000-bfloat16": False,
        "4096x152064-float16": False,
    }
    for one in held.values():
        threads, blocks, vectors, width = (int(one[key]) for key in ("THREADS", "BLOCKS", "VECTORS", "WIDTH"))
        assert int(one["REGISTER_VECTORS"]) < vectors or vectors * width < 65536 // (threads * blocks)


@pytest.mark.parametrize(
    ("shape", "on", "vectors", "kept"),
    [
        (Shape(M=4096, N=65536), "h200", 16, 4),  # two would make room for two blocks an SM
        (Shape(M=4096, N=61440), "h200", 15, 3),
        (Shape(M=4096, N=53248), "h200", 13, 1),
        (Shape(M=4096, N=49677), "h200", 49, 1),  # little over 96 KiB a block
        (Shape(M=4096, N=483001), "h200", 59, 4),  # three would not make room for two blocks an SM
        (Shape(M=4096, N=32768), "h200", 8, 4),  # a whole row in a block
        (Shape(M=4096, N=131072, dtype="bfloat16"), "h200", 16, 4),
        (Shape(M=4096, N=65536, dtype="bfloat16"), "h200", 8, 0),  # a whole one of 16 bits
        (Shape(M=4096, N=24576), "b200", 16, 0),  # 96 KiB, and room for all of it
        (Shape(M=4096, N=49152), "h200", 16, 4),  # 96 KiB: as many as it takes for three blocks an SM
        (Shape(M=16384, N=12288), "h200", 12, 1),  # less: the same for five
    ],
    ids=str,
)
def test_vectors_that_n8_keeps(suite: Suite, shape: Shape, on: str, vectors: int, kept: int) -> None:
    """Over 96 KiB a block leaves a multiple of four in shared memory, but of whole 16-bit rows or for want of room."""
    found = macros(suite, "n8", shape, gpu_named(on))
    assert (found["VECTORS"], found["REGISTER_VECTORS"]) == (str(vectors), str(kept))


@pytest.mark.parametrize(
    ("name", "shape", "x", "y"),
    [
        ("n7", Shape(M=32, N=3584), "DEFAULT", "DEFAULT"),
        ("n7", Shape(M=2048, N=3584), "NO_ALLOCATE", "DEFAULT"),
        ("n7", Shape(M=8192, N=3584), "DEFAULT", "EVICT_LAST"),
        ("n7", Shape(M=16384, N=3584), "EVICT_LAST", "EVICT_LAST"),
        ("s7", Shape(M=114688, N=4096), "EVICT_LAST", "DEFAULT"),
        ("s8", Shape(M=32, N=152064), "DEFAULT", "DEFAULT"),
        ("s8", Shape(M=4096, N=32768), "EVICT_LAST", "EVICT_LAST"),
        ("s8", Shape(M=4096, N=152064), "EVICT_LAST", "DEFAULT"),
        ("n8", Shape(M=8192, N=16384), "EVICT_LAST", "DEFAULT"),  # a full SM
        ("a2", Shape(M=2048, N=3584, dtype="bfloat16"), "NO_ALLOCATE", "DEFAULT"),
        ("a2", Shape(M=2048, N=3584), "DEFAULT", "EVICT_LAST"),
        ("a2", Shape(M=8192, N=3584), "EVICT_LAST", "EVICT_LAST"),
    ],
)
def test_what_is_asked_of_the_caches(suite: Suite, name: str, shape: Shape, x: str, y: str) -> None:
    """By the size of the arrays against an L2 cache of 60 MiB."""
    found = macros(suite, name, shape)
    assert (found["X_CACHE"], found["Y_CACHE"]) == (x, y)
