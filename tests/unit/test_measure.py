"""What is recorded of a measurement, and the marks that qualify it."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from pytest_roofline.bench.measure import copy_bytes
from pytest_roofline.run.check import Accuracy, images_of

from pytest_roofline import Shape
from pytest_roofline.bench.record import Measurement, finite
from pytest_roofline.bench.telemetry import Telemetry
from pytest_roofline.build.ptxas import of_image
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.facts import FITS_L2, HOST_LATE, OVER_PEAK, SHORT, THROTTLED, facts

LARGE = Shape(M=8192, N=3584)


@pytest.fixture
def recorded(shipped):
    """``recorded(variant, shape, median, ...)`` is the record of a measurement on an H200 that nobody made."""

    def make(name, shape, median, overhead=1.28e-6, throttle=(), late=0, baseline_time=None, raw=False):
        variant = shipped.variant(name)
        resources = {}
        for image in images_of(shipped, variant, "sm_90").values():
            resources |= of_image(image)
        device = SimpleNamespace(
            evidence="measured", name="NVIDIA H200", arch="sm_90", versions={"driver_cuda": "13.0", "cupy": "14.2.0"}
        )
        found = facts(variant, shape, gpu_named("h200"), resources)
        measurement = Measurement(
            facts=found,
            baseline=shipped.baseline(variant),
            accuracy=Accuracy(absolute=1e-7, of_tolerance=0.01, values=1, rows=1),
            samples=(0.98 * median, median, median, median, 1.02 * median),
            state="cold",
            overhead=overhead,
            late=late,
            copy_gbs=4350.0,
            telemetry=Telemetry("580.159.04", 1980, 3201, 700.0, throttle),
            device=device,
            baseline_time=baseline_time,
        )
        return measurement if raw else measurement.record()

    return make


def marks(info) -> list[str]:
    return info["marks"].split(", ") if info["marks"] else []


def test_figures_follow_from_the_ledger(recorded):
    """n4 at 8192 x 3584 in 55.04 us is 4267 GB/s, 88.6 % of 4814 GB/s; floor, ideal and speed-up go with it."""
    info = recorded("n4", LARGE, 55.04e-6, baseline_time=recorded("n1", LARGE, 89.47e-6, raw=True))
    assert info["ledger_bytes"] == 8 * 8192 * 3584
    assert info["gbs"] == pytest.approx(4267, abs=1)
    assert info["mbu_percent"] == pytest.approx(88.6, abs=0.1)
    assert info["ledger_us"] == pytest.approx(48.79, abs=0.01)
    assert info["speedup"] == pytest.approx(89.47 / 55.04)
    assert info["ideal_speedup"] == 1.5
    assert info["spill_bytes"] == info["stack_bytes"] == 0
    assert marks(info) == []
    assert info["metric_valid"] is True


def test_a_baselines_own_speedup_is_one_and_an_unknown_one_is_null(recorded):
    """The family's first variant has speed-up 1; a variant whose baseline was not timed has none."""
    assert recorded("n1", LARGE, 90e-6)["speedup"] == 1.0
    assert recorded("n4", LARGE, 55e-6)["speedup"] is None


def test_a_speedup_against_a_helped_baseline_is_not_valid(recorded):
    """Where the baseline's second read fits L2, the speed-up against it says so in the record."""
    for rows, valid in ((8192, True), (2048, False)):
        shape = Shape(M=rows, N=3584)
        baseline = recorded("n1", shape, 90e-6, raw=True)
        assert recorded("n4", shape, 55e-6, baseline_time=baseline)["speedup_valid"] is valid


def test_the_error_of_the_median_is_recorded(recorded):
    """The standard error that was reached stands beside the median, in percent of it."""
    assert 0 < recorded("n4", LARGE, 55e-6)["median_error_percent"] < 2


def test_c41_over_the_peak_is_marked(recorded):
    """n2 in 61.4 us is 119 % of the peak: marked, and the metric is not valid."""
    info = recorded("n2", LARGE, 61.41e-6)
    assert info["mbu_percent"] > 100
    assert OVER_PEAK in marks(info)
    assert info["metric_valid"] is False


def test_what_fits_l2_is_no_valid_metric(recorded):
    """n4 at 2048 x 3584 reads and writes 56 MiB, which an L2 of 60 MiB holds: its bandwidth is not DRAM's."""
    info = recorded("n4", Shape(M=2048, N=3584), 15e-6)
    assert marks(info) == [FITS_L2]
    assert info["metric_valid"] is False


def test_c43_a_kernel_below_what_the_timer_resolves_is_marked(recorded):
    """A time of which the events' overhead would be over a tenth is marked as short, a longer one is not."""
    assert SHORT in marks(recorded("n4", Shape(M=1, N=3584), 3.0e-6))
    assert SHORT not in marks(recorded("n4", Shape(M=1, N=3584), 13.0e-6))


def test_throttling_and_a_late_host_are_marked(recorded):
    """A throttle reason and samples in which the device waited each have their mark and their figure."""
    info = recorded("n4", LARGE, 55e-6, throttle=("software power cap",), late=1)
    assert {THROTTLED, HOST_LATE} <= set(marks(info))
    assert info["throttle"] == "software power cap"
    assert info["host_late_percent"] == pytest.approx(20)
    assert recorded("n4", LARGE, 55e-6)["throttle"] == "none"


def test_each_launch_has_its_own_figures(recorded):
    """s1's three launches each have registers, occupancy and grid fill; the plain names hold the worst."""
    info = recorded("s1", Shape(M=2048, N=2048), 20e-6)
    for kernel in ("sm_s1_max", "sm_s1_sum", "sm_s1_div"):
        assert info[f"{kernel}.registers"] <= info["registers"]
        assert info[f"{kernel}.grid_fill"] >= info["grid_fill"]
        assert info[f"{kernel}.occupancy_limit"] == "threads"


def test_c45_numbers_are_finite_python_numbers():
    """NaN and infinity become null with the reason beside it, NumPy scalars Python numbers; the rest stays."""
    info = finite(
        {"a": math.nan, "b": math.inf, "c": np.float32(1.5), "d": np.int64(3), "e": "x", "f": True, "g": None}
    )
    assert info == {
        "a": None,
        "a.reason": "was nan",
        "b": None,
        "b.reason": "was inf",
        "c": 1.5,
        "d": 3,
        "e": "x",
        "f": True,
        "g": None,
    }
    assert type(info["c"]) is float
    assert type(info["d"]) is int
    json.dumps(info, allow_nan=False)


def test_the_copy_moves_what_the_variant_touches(shipped):
    """A copy that reads as much as it writes moves the footprint if it copies half of it."""
    assert 2 * copy_bytes(shipped.variant("n4"), LARGE) == shipped.variant("n4").footprint_bytes(LARGE)
