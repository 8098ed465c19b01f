"""Blocks an SM holds, against figures worked out apart from the code under test."""

from __future__ import annotations

import pytest
from specimens import specimens

from pytest_roofline import Suite, Variant
from pytest_roofline.hardware.gpus import GPUS, gpu_named
from pytest_roofline.hardware.occupancy import occupancy
from pytest_roofline.hardware.resources import Resources
from pytest_roofline.run.build import Build


def needs(registers: int, shared: int = 0, barriers: int = 1) -> Resources:
    return Resources("k", "sm_90", registers, 0, 0, 0, shared, 0, barriers)


# Worked by hand; the last columns are blocks and limit. 65536 registers are 4 x 16384, given out by the warp in 256s.
BY_HAND = [
    # gpu, threads, registers, static, dynamic
    ("rtx4090", 256, 40, 32, 0, 6, "threads"),  # 48 warps / 8; registers would allow 12 x 4 / 8 = 6 too
    ("rtx4090", 256, 41, 32, 0, 5, "registers"),  # 48 x 32 = 1536: 10 warps x 4 / 8
    ("rtx4090", 256, 52, 32, 0, 4, "registers"),  # 56 x 32 = 1792: 9 warps x 4 / 8
    ("rtx4090", 256, 64, 32, 0, 4, "registers"),
    ("rtx4090", 256, 65, 32, 0, 3, "registers"),  # 72 x 32 = 2304: 7 warps x 4 / 8
    ("h200", 256, 32, 32, 0, 8, "threads"),
    ("h200", 256, 33, 32, 0, 6, "registers"),  # 40 x 32 = 1280: 12 warps x 4 / 8
    ("h200", 256, 55, 32, 0, 4, "registers"),
    ("h200", 1024, 64, 0, 0, 1, "registers"),
    ("h200", 1024, 32, 0, 0, 2, "threads"),
    ("h200", 96, 168, 0, 0, 4, "registers"),  # 5376 a warp: 3 a sub-partition, 12 warps, 4 blocks of 3
    ("h200", 160, 128, 0, 0, 3, "registers"),  # 4096: 16 warps hold 3 blocks of 5
    ("h200", 32, 16, 0, 0, 32, "blocks"),
    ("l4", 32, 16, 0, 0, 24, "blocks"),
    ("a10", 32, 16, 0, 0, 16, "blocks"),
    ("t4", 32, 16, 0, 0, 16, "blocks"),
    ("t4", 256, 32, 0, 0, 4, "threads"),  # 1024 threads an SM
    ("t4", 128, 32, 20000, 0, 3, "shared memory"),  # no reserve: 20224 in 256s, 65536 / 20224
    ("t4", 32, 16, 6528, 0, 9, "shared memory"),  # 6656 in 256s, 65536 / 6656; in 128s it would be 10
    ("h200", 128, 32, 20000, 0, 11, "shared memory"),  # 20000 + 1024 -> 21120 in 128s, 233472 / 21120
    ("rtx4090", 128, 32, 20000, 0, 4, "shared memory"),  # 102400 / 21120
    ("a100", 128, 32, 0, 20000, 7, "shared memory"),  # 167936 / 21120
    ("h200", 32, 32, 6016, 0, 32, "blocks"),  # 7040 a block: 33.2
    ("h200", 32, 32, 6400, 0, 31, "shared memory"),  # 7424 a block: 31.4
    ("rtx5090", 256, 40, 0, 0, 6, "threads"),
    ("b200", 256, 64, 0, 0, 4, "registers"),
]


@pytest.mark.parametrize(("name", "threads", "registers", "static", "dynamic", "blocks", "limit"), BY_HAND)
def test_blocks_worked_by_hand(
    name: str, threads: int, registers: int, static: int, dynamic: int, blocks: int, limit: str
) -> None:
    """Blocks, warps, share of the warp slots and the limiting resource are those worked out by hand."""
    found = occupancy(needs(registers, static), threads, dynamic, gpu_named(name))
    warps = blocks * -(-threads // 32)
    assert (found.blocks, found.warps, found.limited_by, found.why) == (blocks, warps, limit, "")
    assert found.fraction == pytest.approx(warps * 32 / gpu_named(name).threads_per_sm)


@pytest.mark.parametrize("name", GPUS)
def test_registers_follow_the_formula_of_the_specification(name: str) -> None:
    """For 65536 registers and 256 threads, blocks are floor(32 / ceil(registers / 8)), capped by threads and blocks."""
    most = min(GPUS[name].threads_per_sm // 256, GPUS[name].blocks_per_sm)
    for registers in range(16, 256):
        assert occupancy(needs(registers), 256, 0, GPUS[name]).blocks == min(32 // -(-registers // 8), most), registers


@pytest.mark.parametrize(
    ("name", "barriers", "blocks", "limit"),
    [("h200", 16, 4, "barriers"), ("rtx5090", 16, 1, "barriers"), ("rtx4090", 16, 6, "threads")],
)
def test_barriers_limit_from_hopper_on(name: str, barriers: int, blocks: int, limit: str) -> None:
    """An SM has 64 named barriers on sm_90 and 24 on sm_120; before sm_90 they do not count."""
    found = occupancy(needs(32, barriers=barriers), 256, 0, gpu_named(name))
    assert (found.blocks, found.limited_by) == (blocks, limit)


@pytest.mark.parametrize(
    ("name", "threads", "registers", "dynamic", "limit", "said"),
    [
        ("h200", 1025, 32, 0, "threads", "1025 threads a block; NVIDIA H200 allows 1 to 1024"),
        ("h200", 0, 32, 0, "threads", "0 threads a block"),
        ("h200", 1024, 65, 0, "registers", "65 registers a thread, 73728 for a block of 1024 threads"),
        ("h200", 544, 128, 0, "registers", "81920 for a block"),  # 17 warps count as 20
        ("h200", 32, 256, 0, "registers", "255 a thread"),
        ("rtx4090", 256, 32, 101_377, "shared memory", "allows 0 to 101376"),
        ("h200", 256, 32, -1, "shared memory", "-1 dynamic bytes"),
    ],
)
def test_a_block_that_can_not_run(name: str, threads: int, registers: int, dynamic: int, limit: str, said: str) -> None:
    """0 blocks stand for an impossible launch, with the resource, what was asked and what the GPU has."""
    found = occupancy(needs(registers), threads, dynamic, gpu_named(name))
    assert (found.blocks, found.warps, found.fraction, found.limited_by) == (0, 0, 0.0, limit)
    assert said in found.why


@pytest.mark.parametrize(("blocks", "fill"), [(6, 2.67), (4, 4.00)])
def test_grid_fill_of_2048_rows_on_an_rtx_4090(blocks: int, fill: float) -> None:
    """2048 rows fill 128 SMs with 6 blocks each 2.67 times, and with 4 blocks each 4.00 times."""
    registers = {6: 40, 4: 52}[blocks]  # of the reference implementation's n1, first launch, and n3
    found = occupancy(needs(registers, 32), 256, 0, gpu_named("rtx4090"))
    assert round(2048 / (gpu_named("rtx4090").sms * found.blocks), 2) == fill


def test_every_launch_fits_every_gpu(suite: Suite, variant: Variant) -> None:
    """Each kernel of the suite, as compiled for it, can run on each GPU of the table."""
    for target in GPUS.values():
        for plan in specimens(suite, variant, target):
            for launch in Build.of(plan).launches:
                assert launch.occupancy.blocks >= 1, (launch.planned.kernel, target.name, plan.shape)


def test_the_driver_agrees(cuda_device, suite, variant):
    """On a GPU the occupancy computed from ptxas's report and the GPU's limits is the driver's own answer."""
    for plan in specimens(suite, variant, cuda_device.gpu):
        for launch in Build.of(plan).launches:
            planned = launch.planned
            kernel = cuda_device.load(launch.image, planned.kernel)
            cuda_device.allow_shared(kernel, planned.shared)
            said = cuda_device.driver_occupancy(kernel, planned.threads, planned.shared)
            assert launch.occupancy.blocks == said > 0
