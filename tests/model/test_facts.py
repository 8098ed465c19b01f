"""GB/s, MBU, time at the peak, waves, reuse distance and notes, against figures worked by hand."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.hardware.occupancy import occupancy
from pytest_roofline.model.facts import FITS_L2, NOTES, PART_WAVE, REUSE, Facts, gbs, seconds_at_peak
from pytest_roofline.run.build import Build, BuiltLaunch

RTX4090 = gpu_named("rtx4090")


def with_registers(made: Build, registers: int) -> Build:
    """The build as if its kernels had so many registers a thread, whatever this compiler gives them."""

    def other(launch: BuiltLaunch) -> BuiltLaunch:
        resources = dataclasses.replace(launch.resources, registers=registers, shared_bytes=32)
        fits = occupancy(resources, launch.planned.threads, launch.planned.shared, made.plan.gpu)
        waves = launch.planned.blocks / (made.plan.gpu.sms * fits.blocks)
        return dataclasses.replace(launch, resources=resources, occupancy=fits, waves=waves)

    object.__setattr__(made, "launches", tuple(map(other, made.launches)))
    return made


@pytest.fixture
def facts(build):
    """``facts("n2", M=8192, N=3584)`` of a build of 40 registers a thread."""

    def make(name: str, gpu: str = "rtx4090", registers: int = 40, **extents: int) -> Facts:
        return Facts(with_registers(build(name, gpu, **extents), registers))

    return make


def test_bandwidth_and_time_at_the_peak(facts):
    """n4 at 8192 x 3584 moves 234.9 MB; at 1008 GB/s that takes 233.0 us, and in 256 us it is 917.5 GB/s, 91.0 %."""
    plan = facts("n4", M=8192, N=3584).plan
    assert plan.bytes_moved == 8 * 8192 * 3584
    assert seconds_at_peak(plan) == pytest.approx(233.0e-6, rel=1e-3)
    rate = gbs(plan.bytes_moved, 256.0e-6)
    assert rate == pytest.approx(917.5, rel=1e-4)
    assert 100 * rate / RTX4090.peak_gbs == pytest.approx(91.0, abs=0.05)


def test_reuse_within_a_launch(facts):
    """n2's second read of x on an RTX 4090 with 6 blocks on each of 128 SMs: 11.0 MB lie between, which fits L2."""
    found = facts("n2", M=8192, N=3584)
    assert [launch.occupancy.blocks for launch in found.build.launches] == [6]
    (reuse,) = found.reuses
    assert (reuse.array, reuse.where) == ("x", "within rms_n2")
    assert reuse.distance_bytes == 6 * 128 * 3584 * 4
    assert reuse.distance_bytes / 1e6 == pytest.approx(11.0, abs=0.05)
    assert REUSE in found.notes()


def test_reuse_from_one_launch_to_the_next(facts):
    """n1 and s1 read x again after 4MN bytes; at 8192 rows that exceeds the L2, at 2048 rows it does not."""
    large = facts("n1", M=8192, N=3584)
    assert [r.distance_bytes for r in large.reuses] == [4 * 8192 * 3584]
    assert REUSE not in large.notes()
    small = facts("s1", M=2048, N=2048)
    assert [r.distance_bytes for r in small.reuses] == [4 * 2048 * 2048] * 2
    assert small.reuses[0].where == "sm_s1_max to sm_s1_sum"
    assert REUSE in small.notes()


@pytest.mark.parametrize("name", ["n3", "n4", "s3", "s4"])
def test_variants_that_read_once_have_no_reuse(facts, name):
    """n3, n4, s3 and s4 read x once, so there is nothing to note, however small the shape."""
    assert facts(name, M=32, N=2048).reuses == ()


def test_few_rows_reuse_no_more_than_they_have(facts):
    """With fewer blocks than fit the GPU, all of x lies between the two reads, not more."""
    (reuse,) = facts("n2", M=32, N=3584).reuses
    assert reuse.distance_bytes == 32 * 3584 * 4


def test_waves_of_each_launch(facts):
    """At 2048 rows on an RTX 4090 a launch of 40 registers has 2.67 waves, one of 52 registers 4; under 1 is noted."""
    assert facts("n1", M=2048, N=3584).build.waves == pytest.approx(2.67, abs=0.005)
    found = facts("n3", registers=52, M=2048, N=3584)
    assert found.build.waves == pytest.approx(4.0)
    assert PART_WAVE not in found.notes()
    assert PART_WAVE in facts("n3", registers=52, M=511, N=3584).notes()
    assert PART_WAVE not in facts("n3", registers=52, M=512, N=3584).notes()


@pytest.mark.parametrize("gpu", ["h200", "rtx4090"])
def test_footprint_against_l2(facts, gpu):
    """x and y of 2048 x 3584 are 56 MiB: they fit the H200's 60 MiB and the 4090's 72 MiB; 4096 rows fit neither."""
    assert FITS_L2 in facts("n4", gpu, M=2048, N=3584).notes()
    assert FITS_L2 not in facts("n4", gpu, M=4096, N=3584).notes()


def test_every_note_is_explained(facts):
    """What a note means is said beside it, once for all."""
    assert {*facts("n2", M=32, N=3584).notes()} == {FITS_L2, REUSE, PART_WAVE}
    assert {FITS_L2, REUSE, PART_WAVE} <= {*NOTES}
    assert all(", " not in note for note in NOTES), "notes are kept as a list with commas"
