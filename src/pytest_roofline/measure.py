"""One rung at one shape: right answer first, then time, then the record that is kept of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import resources as ptxas
from .check import Comparison, Job
from .compile import compiler
from .gpu.device import CudaDevice
from .gpu.telemetry import Telemetry
from .gpu.timer import Series, Stopwatch
from .ladder import Ladder, Rung, Shape
from .roofline import (
    HOST_LATE,
    OVER_PEAK,
    REUSE,
    SHORT,
    THROTTLED,
    Facts,
    facts,
    floor_seconds,
    gbs,
)

Value = float | int | str | bool | None
SHORT_OVERHEAD = 0.1  # share of the time from which the events' overhead is marked
LATE_SHARE = 0.05  # share of samples in which the device waited for the host, from which it is marked


def facts_of(job: Job) -> Facts:
    """Resources, occupancy, grid fill and reuse of the job's launches on its device's card."""
    found: dict[str, ptxas.Resources] = {}
    for image in job.program.images.values():
        found |= ptxas.of_image(image)
    return facts(job.rung, job.shape, job.device.card, found)


def warm_up_launches(samples: int) -> int:
    """None for one sample, one for two, else three."""
    return {1: 0, 2: 1}.get(samples, 3)


class CopyCeiling:
    """GB/s of a device-to-device copy, read and written bytes counted: what the card gives in practice.

    Measured once for each size and state, with the same stopwatch.
    """

    def __init__(self, device: CudaDevice, stopwatch: Stopwatch, samples: int = 15) -> None:
        self.device, self.stopwatch, self.samples = device, stopwatch, samples
        self.known: dict[tuple[int, str], float] = {}

    def gbs(self, nbytes: int, state: str) -> float:
        if (nbytes, state) not in self.known:
            source, target = self.device.empty((nbytes,), "uint8"), self.device.empty((nbytes,), "uint8")

            def copy() -> None:
                target.data.copy_from_device_async(source.data, nbytes)

            times = sorted(self.stopwatch.sample(lambda: copy, state) for _ in range(self.samples))
            self.known[nbytes, state] = gbs(2 * nbytes, times[self.samples // 2])
        return self.known[nbytes, state]


def copy_bytes(rung: Rung, shape: Shape) -> int:
    """Bytes a copy that reads as much as it writes must take to move the rung's footprint."""
    return rung.footprint_bytes(shape) // 2


def record(
    ladder: Ladder,
    found: Facts,
    comparison: Comparison,
    median: float,
    state: str,
    stopwatch: Stopwatch,
    copy_gbs: float,
    telemetry: Telemetry,
    late_share: float,
    baseline_median: float | None,
) -> dict[str, Value]:
    """The extra_info of a benchmark; see README, "What is recorded". ``median`` in seconds.

    Values are finite Python numbers, strings, booleans, or None where something could not be read.
    """
    rung, shape, card = found.rung, found.shape, found.card
    ledger = rung.ledger_bytes(shape)
    rate, base = gbs(ledger, median), ladder.baseline(rung)
    mbu = 100 * rate / card.peak_gbs
    marks = found.marks()
    marks += [OVER_PEAK] if mbu > 100 else []
    marks += [THROTTLED] if telemetry.throttle else []
    marks += [SHORT] if stopwatch.timer.overhead > SHORT_OVERHEAD * median else []
    marks += [HOST_LATE] if late_share > LATE_SHARE else []
    info: dict[str, Value] = {
        "evidence": stopwatch.device.evidence,
        "operator": rung.operator.name,
        "rung": rung.name,
        "rows": shape.M,
        "columns": shape.N,
        "state": state,
        "median_us": median * 1e6,
        "ledger_bytes": ledger,
        "ledger_per_row_n": rung.ledger_per_row(shape),
        "ledger": rung.ledger_words(),
        "gbs": rate,
        "mbu_percent": mbu,
        "peak_gbs": card.peak_gbs,
        "peak_source": card.source,
        "floor_us": floor_seconds(rung, shape, card) * 1e6,
        "copy_gbs": copy_gbs,
        "copy_percent_of_peak": 100 * copy_gbs / card.peak_gbs,
        "baseline": base.name,
        "speedup": None if baseline_median is None else baseline_median / median,
        "ideal_speedup": base.ledger_bytes(shape) / ledger,
        "footprint_bytes": rung.footprint_bytes(shape),
        "l2_bytes": card.l2_bytes,
        "reuse": "; ".join(f"{r.array} {r.where}: {r.distance_bytes / 1e6:.1f} MB" for r in found.reuses) or None,
        "marks": ", ".join(marks),
        "metric_valid": not {OVER_PEAK, REUSE} & {*marks} and not found.fits_l2,
        "max_error": comparison.absolute,
        "max_error_of_tolerance": comparison.of_tolerance,
        "event_overhead_us": stopwatch.timer.overhead * 1e6,
        "host_late_percent": 100 * late_share,
    }
    return info | _launches(found) | _machine(stopwatch.device, telemetry)


def _launches(found: Facts) -> dict[str, Value]:
    """Worst of all launches under plain names, and each launch under kernel.name."""
    info: dict[str, Value] = {
        "registers": max(f.resources.registers for f in found.launches),
        "spill_bytes": max(f.resources.spill_stores + f.resources.spill_loads for f in found.launches),
        "stack_bytes": max(f.resources.stack_bytes for f in found.launches),
        "blocks_per_sm": min(f.occupancy.blocks for f in found.launches),
        "occupancy_percent": 100 * min(f.occupancy.fraction for f in found.launches),
        "grid_fill": found.grid_fill,
    }
    for figure in found.launches:
        kernel = figure.launch.kernel
        info |= {
            f"{kernel}.registers": figure.resources.registers,
            f"{kernel}.blocks_per_sm": figure.occupancy.blocks,
            f"{kernel}.occupancy_percent": 100 * figure.occupancy.fraction,
            f"{kernel}.occupancy_limit": figure.occupancy.limited_by,
            f"{kernel}.grid_fill": figure.grid_fill,
        }
    return info


def _machine(device: CudaDevice, telemetry: Telemetry) -> dict[str, Value]:
    return {
        "gpu": device.name,
        "arch": device.arch,
        "driver": telemetry.driver,
        "driver_cuda": device.versions["driver_cuda"],
        "cupy": device.versions["cupy"],
        "compiler": compiler(),
        "sm_clock_mhz": telemetry.sm_clock_mhz,
        "memory_clock_mhz": telemetry.memory_clock_mhz,
        "power_limit_w": telemetry.power_limit_w,
        "throttle": None if telemetry.throttle is None else ", ".join(telemetry.throttle) or "none",
    }


def finite(info: dict[str, Value]) -> dict[str, Value]:
    """``info`` with every number that is not finite as None and the reason beside it, for JSON has neither.

    NumPy scalars become Python numbers: pytest-benchmark would write them as the string "UNSERIALIZABLE".
    """
    clean: dict[str, Value] = {}
    for key, value in info.items():
        plain: Any = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, float) and not math.isfinite(plain):
            clean[key] = None
            clean[f"{key}.reason"] = f"was {plain!r}"
        else:
            clean[key] = plain
    return clean


def take_samples(stopwatch: Stopwatch, series: Series, state: str, samples: int) -> list[float]:
    """``samples`` durations in seconds after the warm-up that belongs to that number."""
    for _ in range(warm_up_launches(samples)):
        series()()
    return [stopwatch.sample(series, state) for _ in range(samples)]
