"""The table of GPUs and the limits of architectures."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_roofline.errors import UnknownNameError
from pytest_roofline.hardware.gpus import GPUS, LIMITS, Gpu, capability, gpu_named, limits

MIB = 2**20

# Bandwidth in GB/s and L2 in MiB as the vendor states them, apart from the clocks and widths in the table.
STATED = {
    "t4": (320, 4, 40),
    "a100": (2039, 40, 108),
    "a10": (600, 6, 72),
    "l4": (300, 48, 58),
    "rtx4090": (1008, 72, 128),
    "h100": (3352, 50, 132),
    "h200": (4814, 60, 132),
    "b200": (7672, 126.5, 148),
    "rtx5090": (1792, 96, 170),
}


def test_every_gpu_is_stated_here() -> None:
    """A GPU that is added to the table needs its vendor figures in this test."""
    assert set(STATED) == set(GPUS)


@pytest.mark.parametrize("name", STATED)
def test_peak_l2_and_sms_are_the_vendors(name: str) -> None:
    """Clock and bus width give the vendor's bandwidth; L2 and SMs are the vendor's; the source is named."""
    gbs, l2, sms = STATED[name]
    found = gpu_named(name)
    assert found.peak_gbs == pytest.approx(gbs, rel=5e-4)
    assert (found.l2_bytes / MIB, found.sms) == (l2, sms)
    assert found.source.strip()


def test_peak_is_clock_times_two_times_bus_bytes() -> None:
    """The peak follows from clock and bus width alone, 1e9 bytes to the GB: the two worked examples."""
    assert gpu_named("rtx4090").peak_gbs == 1008.096
    assert gpu_named("h200").peak_gbs == pytest.approx(4814.304, abs=1e-9)
    other = dataclasses.replace(gpu_named("h200"), memory_clock_mhz=1000.0, bus_bits=64)
    assert other.peak_gbs == 16.0


def test_a_gpu_takes_its_sm_limits_from_its_architecture() -> None:
    """Threads, blocks, registers and shared memory of a GPU of the table are those of its architecture."""
    for found in GPUS.values():
        of_arch = limits(found.arch)
        for name in (field.name for field in dataclasses.fields(of_arch)):
            assert getattr(found, name) == getattr(of_arch, name), (found.name, name)


def test_limits_leave_the_drivers_reserve() -> None:
    """From sm_80 on a block may have all shared memory of an SM but the 1024 bytes that the driver keeps."""
    for arch, of_arch in LIMITS.items():
        kept = 0 if arch == "sm_75" else 1024
        assert of_arch.shared_per_sm - of_arch.shared_per_block_optin == kept, arch
        assert of_arch.registers_per_sm == 65536


@pytest.mark.parametrize("name", ["H200", "RTX4090"])
def test_a_gpu_is_found_in_capitals_too(name: str) -> None:
    """The case of a GPU's name does not matter."""
    assert isinstance(gpu_named(name), Gpu)


def test_unknown_gpu_lists_the_gpus() -> None:
    """A GPU that is not in the table is an error that gives the name asked for and all names there are."""
    with pytest.raises(UnknownNameError, match="no GPU 'rtx4O90'") as raised:
        gpu_named("rtx4O90")
    for name in GPUS:
        assert name in str(raised.value)


def test_architectures() -> None:
    """A variant has the limits of its number; an unknown or misspelt architecture is an error that lists the known."""
    assert (capability("sm_75"), capability("sm_90a"), capability("sm_120f")) == (75, 90, 120)
    assert limits("sm_90a") == LIMITS["sm_90"]
    with pytest.raises(UnknownNameError, match=r"'sm_90x' is no architecture"):
        capability("sm_90x")
    with pytest.raises(UnknownNameError, match=r"'compute_90' is no architecture.*sm_120"):
        limits("compute_90")
    with pytest.raises(UnknownNameError, match=r"no limits are known for sm_70.*sm_75, sm_80"):
        limits("sm_70")
