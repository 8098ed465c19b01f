"""What is kept of a measurement: pytest-benchmark's extra_info, documented in README under "What is recorded"."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..build.nvrtc import compiler
from ..declare.suite import Variant
from ..model.facts import HOST_LATE, OVER_PEAK, REUSE, SHORT, THROTTLED, Facts, gbs, ledger_seconds
from ..run.check import Accuracy
from ..run.gpu.device import CudaDevice
from .telemetry import Telemetry
from .timer import standard_error

Value = float | int | str | bool | None
SHORT_OVERHEAD = 0.1  # share of the time from which the events' overhead is marked
LATE_SHARE = 0.05  # share of samples in which the device waited for the host, from which it is marked


@dataclass(frozen=True)
class Measurement:
    """Samples of a variant in seconds, ``overhead`` of the events taken off, and all that qualifies them.

    ``late`` counts samples in which the device waited for the host; ``baseline_time`` is the measurement of the
    family's first variant (``baseline``) at this shape and state, None where it was not timed before.
    """

    facts: Facts
    baseline: Variant
    accuracy: Accuracy
    samples: tuple[float, ...]
    state: str
    overhead: float
    late: int
    copy_gbs: float
    telemetry: Telemetry
    device: CudaDevice
    baseline_time: Measurement | None

    @property
    def median(self) -> float:
        return float(statistics.median(self.samples))

    @property
    def gbs(self) -> float:
        return gbs(self.facts.variant.ledger_bytes(self.facts.shape), self.median)

    @property
    def mbu_percent(self) -> float:
        return 100 * self.gbs / self.facts.gpu.peak_gbs

    @property
    def late_share(self) -> float:
        return self.late / len(self.samples)

    @property
    def speedup(self) -> float | None:
        if self.facts.variant.name == self.baseline.name:
            return 1.0
        return None if self.baseline_time is None else self.baseline_time.median / self.median

    def marks(self) -> list[str]:
        """The marks of :data:`pytest_roofline.model.facts.MARKS` that apply."""
        more = {
            OVER_PEAK: self.mbu_percent > 100,
            THROTTLED: bool(self.telemetry.throttle),
            SHORT: self.overhead > SHORT_OVERHEAD * self.median,
            HOST_LATE: self.late_share > LATE_SHARE,
        }
        return self.facts.marks() + [mark for mark, applies in more.items() if applies]

    def record(self) -> dict[str, Value]:
        """Finite Python numbers, strings and booleans, or None where something could not be read."""
        return finite(self._timing() | self._traffic() | self._qualities() | self._launches() | self._machine())

    def _timing(self) -> dict[str, Value]:
        variant, shape = self.facts.variant, self.facts.shape
        error = standard_error(self.samples)
        return {
            "evidence": self.device.evidence,
            "operator": variant.operator.name,
            "variant": variant.name,
            "rows": shape.M,
            "columns": shape.N,
            "dtype": shape.dtype,
            "state": self.state,
            "median_us": self.median * 1e6,
            "median_error_percent": None if error is None else 100 * error / self.median,
            "event_overhead_us": self.overhead * 1e6,
            "host_late_percent": 100 * self.late_share,
        }

    def _traffic(self) -> dict[str, Value]:
        variant, shape, gpu = self.facts.variant, self.facts.shape, self.facts.gpu
        ledger = variant.ledger_bytes(shape)
        distances = [f"{r.array} {r.where}: {r.distance_bytes / 1e6:.1f} MB" for r in self.facts.reuses]
        return {
            "ledger_bytes": ledger,
            "ledger_per_row_n": variant.ledger_per_row(shape),
            "ledger": variant.ledger_words(),
            "gbs": self.gbs,
            "mbu_percent": self.mbu_percent,
            "peak_gbs": gpu.peak_gbs,
            "peak_source": gpu.source,
            "ledger_us": ledger_seconds(variant, shape, gpu) * 1e6,
            "copy_gbs": self.copy_gbs,
            "copy_percent_of_peak": 100 * self.copy_gbs / gpu.peak_gbs,
            "baseline": self.baseline.name,
            "speedup": self.speedup,
            "speedup_valid": self.baseline_time is None or not self.baseline_time.facts.reuse_fits_l2,
            "ideal_speedup": self.baseline.ledger_bytes(shape) / ledger,
            "footprint_bytes": variant.footprint_bytes(shape),
            "l2_bytes": gpu.l2_bytes,
            "reuse": "; ".join(distances) or None,
        }

    def _qualities(self) -> dict[str, Value]:
        marks = self.marks()
        return {
            "marks": ", ".join(marks),
            "metric_valid": not {OVER_PEAK, REUSE} & {*marks} and not self.facts.fits_l2,
            "max_error": self.accuracy.absolute,
            "max_error_of_tolerance": self.accuracy.of_tolerance,
        }

    def _launches(self) -> dict[str, Value]:
        """The worst of all launches under plain names, and each launch under kernel.name."""
        launches = self.facts.launches
        info: dict[str, Value] = {
            "registers": max(f.resources.registers for f in launches),
            "spill_bytes": max(f.resources.spill_stores + f.resources.spill_loads for f in launches),
            "stack_bytes": max(f.resources.stack_bytes for f in launches),
            "blocks_per_sm": min(f.occupancy.blocks for f in launches),
            "occupancy_percent": 100 * min(f.occupancy.fraction for f in launches),
            "grid_fill": self.facts.grid_fill,
        }
        for figure in launches:
            kernel = figure.launch.kernel
            info |= {
                f"{kernel}.registers": figure.resources.registers,
                f"{kernel}.blocks_per_sm": figure.occupancy.blocks,
                f"{kernel}.occupancy_percent": 100 * figure.occupancy.fraction,
                f"{kernel}.occupancy_limit": figure.occupancy.limited_by,
                f"{kernel}.grid_fill": figure.grid_fill,
            }
        return info

    def _machine(self) -> dict[str, Value]:
        seen = self.telemetry
        return {
            "gpu": self.device.name,
            "arch": self.device.arch,
            "driver": seen.driver,
            "driver_cuda": self.device.versions["driver_cuda"],
            "cupy": self.device.versions["cupy"],
            "compiler": compiler(),
            "sm_clock_mhz": seen.sm_clock_mhz,
            "memory_clock_mhz": seen.memory_clock_mhz,
            "power_limit_w": seen.power_limit_w,
            "throttle": None if seen.throttle is None else ", ".join(seen.throttle) or "none",
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
