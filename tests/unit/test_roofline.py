"""GB/s, MBU, floor, grid fill, reuse distance and marks, against figures worked by hand."""

from __future__ import annotations

import pytest

from pytest_roofline import Shape
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.hardware.resources import Resources
from pytest_roofline.model.facts import FITS_L2, REUSE, UNFILLED, facts, gbs, ledger_seconds

RTX4090 = gpu_named("rtx4090")
H200 = gpu_named("h200")


def resources(kernel: str, registers: int) -> Resources:
    return Resources(
        kernel=kernel,
        arch="sm_89",
        registers=registers,
        stack_bytes=0,
        spill_stores=0,
        spill_loads=0,
        shared_bytes=32,
        constant_bytes=0,
        barriers=1,
    )


def of(suite, name: str, shape: Shape, on=RTX4090, registers: int = 40):
    variant = suite.variant(name)
    return facts(
        variant, shape, on, {launch.kernel: resources(launch.kernel, registers) for launch in variant.launches}
    )


def test_floor_and_bandwidth(shipped):
    """n4 at 8192 x 3584 moves 234.9 MB; at 1008 GB/s that takes 233.0 us, and in 256 us it is 917.5 GB/s, 91.0 %."""
    variant, shape = shipped.variant("n4"), Shape(M=8192, N=3584)
    assert variant.ledger_bytes(shape) == 8 * 8192 * 3584
    assert ledger_seconds(variant, shape, RTX4090) == pytest.approx(233.0e-6, rel=1e-3)
    rate = gbs(variant.ledger_bytes(shape), 256.0e-6)
    assert rate == pytest.approx(917.5, rel=1e-4)
    assert 100 * rate / RTX4090.peak_gbs == pytest.approx(91.0, abs=0.05)


def test_reuse_within_a_launch(shipped):
    """n2's second read of x on an RTX 4090 with 6 blocks on each of 128 SMs: 11.0 MB lie between, which fits L2."""
    found = of(shipped, "n2", Shape(M=8192, N=3584))
    assert [figure.occupancy.blocks for figure in found.launches] == [6]
    (reuse,) = found.reuses
    assert reuse.distance_bytes == 6 * 128 * 3584 * 4
    assert reuse.distance_bytes / 1e6 == pytest.approx(11.0, abs=0.05)
    assert REUSE in found.marks()


def test_reuse_from_one_launch_to_the_next(shipped):
    """n1 and s1 read x again after 4MN bytes; at 8192 rows that exceeds the L2, at 2048 rows it does not."""
    large = of(shipped, "n1", Shape(M=8192, N=3584))
    assert [r.distance_bytes for r in large.reuses] == [4 * 8192 * 3584]
    assert REUSE not in large.marks()
    small = of(shipped, "s1", Shape(M=2048, N=2048))
    assert [r.distance_bytes for r in small.reuses] == [4 * 2048 * 2048] * 2
    assert REUSE in small.marks()


def test_variants_that_read_once_have_no_reuse(shipped):
    """n3, n4, s3 and s4 read x once, so there is nothing to mark, however small the shape."""
    for name in ("n3", "n4", "s3", "s4"):
        assert of(shipped, name, Shape(M=32, N=2048)).reuses == ()


def test_few_rows_reuse_no_more_than_they_have(shipped):
    """With fewer blocks than fit the gpu, all of x lies between the two reads, not more."""
    (reuse,) = of(shipped, "n2", Shape(M=32, N=3584)).reuses
    assert reuse.distance_bytes == 32 * 3584 * 4


def test_grid_fill_of_each_launch(shipped):
    """At 2048 rows on an RTX 4090 a launch of 40 registers fills the gpu 2.67 times, one of 52 registers 4 times."""
    assert of(shipped, "n1", Shape(M=2048, N=3584), registers=40).grid_fill == pytest.approx(2.67, abs=0.005)
    found = of(shipped, "n3", Shape(M=2048, N=3584), registers=52)
    assert found.grid_fill == pytest.approx(4.0)
    assert UNFILLED not in found.marks()
    assert UNFILLED in of(shipped, "n3", Shape(M=511, N=3584), registers=52).marks()
    assert UNFILLED not in of(shipped, "n3", Shape(M=512, N=3584), registers=52).marks()


def test_footprint_against_l2(shipped):
    """x and y of 2048 x 3584 are 56 MiB: they fit the H200's 60 MiB and the 4090's 72 MiB; 4096 rows fit neither."""
    for on in (H200, RTX4090):
        assert FITS_L2 in of(shipped, "n4", Shape(M=2048, N=3584), on).marks()
        assert FITS_L2 not in of(shipped, "n4", Shape(M=4096, N=3584), on).marks()
