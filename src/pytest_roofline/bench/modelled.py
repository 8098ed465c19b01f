"""A variant at a shape without a GPU: what was counted in the simulator, and its floor in place of a time.

Also what the two add to a measurement: README, "What is recorded", documents the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..build.nvrtc import compiler
from ..declare.suite import Shape, Suite, Variant
from ..hardware.gpus import Gpu
from ..model.facts import Facts, Reuse, facts_of, ledger_seconds
from ..model.sol import Floor, floor
from ..model.work import Work, count
from ..run.check import Accuracy, images_of
from ..run.device import SIMULATED
from ..sim.observe.traffic import SECTOR, SHARED
from .record import Value, finite

COUNT = "count."  # extra_info keys of exact counters begin with it


def label(gpu: Gpu) -> str:
    """What every place that shows a modelled time says beside it."""
    return f"modelled floor on {gpu.name}, not measured"


@dataclass(frozen=True)
class Model:
    """The floor of a variant, and the largest error of the rows that were computed for it."""

    floor: Floor
    accuracy: Accuracy
    baseline: Variant
    baseline_floor: Floor | None

    def record(self) -> dict[str, Value]:
        """The extra_info of a benchmark whose time is the floor."""
        facts, floor = self.floor.facts, self.floor
        variant, shape, gpu = facts.variant, facts.shape, facts.gpu
        ledger = variant.ledger_bytes(shape)
        speedup = self.baseline_floor.seconds / floor.seconds if self.baseline_floor else None
        info: dict[str, Value] = {
            "evidence": SIMULATED,
            "note": label(gpu),
            "operator": variant.operator.name,
            "variant": variant.name,
            "rows": shape.M,
            "columns": shape.N,
            "dtype": shape.dtype,
            "state": floor.state,
            "median_us": floor.seconds * 1e6,
            "ledger_bytes": ledger,
            "ledger_per_row_n": variant.ledger_per_row(shape),
            "ledger": variant.ledger_words(),
            "peak_gbs": gpu.peak_gbs,
            "peak_source": gpu.source,
            "ledger_us": ledger_seconds(variant, shape, gpu) * 1e6,
            "baseline": self.baseline.name,
            "speedup": 1.0 if variant.name == self.baseline.name else speedup,
            "ideal_speedup": self.baseline.ledger_bytes(shape) / ledger,
            "marks": ", ".join(facts.marks()),
            "max_error": self.accuracy.absolute,
            "max_error_of_tolerance": self.accuracy.of_tolerance,
            "registers": max(one.resources.registers for one in facts.launches),
            "occupancy_percent": 100 * min(one.occupancy.fraction for one in facts.launches),
            "grid_fill": facts.grid_fill,
            "gpu": gpu.name,
            "arch": gpu.arch,
            "compiler": compiler(),
        }
        return finite(info | floor_record(floor))


def floor_record(floor: Floor) -> dict[str, Value]:
    """Floor, modelled DRAM traffic and exact counters, for a modelled and for a measured benchmark."""
    shape, moved = floor.facts.shape, floor.dram
    elements = shape.M * shape.N
    info: dict[str, Value] = {"floor_us": floor.seconds * 1e6, "floor_bound": floor.bound}
    info |= {
        "model_dram_read_bytes": moved.read if moved else None,
        "model_dram_written_bytes": moved.written if moved else None,
        "model_dram_per_row_n": (moved.read + moved.written) / elements if moved else None,
    }
    for launch in floor.launches:
        info[f"{launch.work.kernel}.floor_us"] = launch.seconds * 1e6
        info[f"{launch.work.kernel}.floor_bound"] = launch.bound
        info |= counters(launch.work)
    return info


def counters(work: Work) -> dict[str, Value]:
    """Exact counts of a launch's whole grid, by array and by class of instruction."""
    info: dict[str, Value] = {}
    for name, counts in sorted(work.buffers.items()):
        prefix = f"{COUNT}{work.kernel}.{name}"
        info |= {f"{prefix}.requests": counts.requests, f"{prefix}.bytes": counts.bytes}
        if name == SHARED:
            info[f"{prefix}.wavefronts"] = counts.wavefronts
        else:
            info[f"{prefix}.sectors"] = counts.sectors
            moved = max(1, counts.sectors * SECTOR)
            info[f"{work.kernel}.{name}.coalescing_percent"] = 100 * counts.unique_bytes / moved
    info |= {f"{COUNT}{work.kernel}.issued.{kind}": number for kind, number in sorted(work.issued.items())}
    info[f"{COUNT}{work.kernel}.special_lanes"] = work.special
    return info


def grown(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """Counters that differ from a saved run's, the largest change first: "rms_n3.x.requests 100 -> 200 (+100 %)"."""
    found: list[tuple[float, str]] = []
    for key in {k: None for k in (*then, *now) if k.startswith(COUNT)}:
        a, b = then.get(key, 0), now.get(key, 0)
        if a != b:
            change = (b - a) / a if a else float("inf")
            percent = f"{100 * change:+.0f} %" if a else "new"
            found.append((-abs(change), f"{key.removeprefix(COUNT)} {a} -> {b} ({percent})"))
    return [text for _, text in sorted(found)]


class Models:
    """Floors of a ladder's variants on one gpu, each modelled once, and counted once for both states of the cache."""

    def __init__(self, suite: Suite, gpu: Gpu) -> None:
        self.suite, self.gpu = suite, gpu
        self.found: dict[tuple[str, Shape, str], Floor] = {}
        self.counted: dict[tuple[str, Shape], tuple[Facts, tuple[Work, ...], Accuracy]] = {}

    def floor(self, variant: Variant, shape: Shape, state: str) -> tuple[Floor, Accuracy]:
        """Errors: those of :func:`pytest_roofline.model.work.count`."""
        case, key = (variant.name, shape), (variant.name, shape, state)
        if case not in self.counted:
            self.suite.require(variant, shape, self.gpu)
            fixed = variant.at(shape, self.gpu)
            facts = facts_of(fixed, shape, self.gpu, images_of(self.suite, fixed, self.gpu.arch))
            self.counted[case] = facts, *count(self.suite, variant, shape, self.gpu)
        facts, works, accuracy = self.counted[case]
        if key not in self.found:
            self.found[key] = floor(facts, works, state)
        return self.found[key], accuracy

    def reuses(self) -> dict[tuple[str, Shape], tuple[Reuse, ...]]:
        """The repeated reads of each variant at each shape that was counted."""
        return {case: facts.reuses for case, (facts, *_) in self.counted.items()}

    def model(self, variant: Variant, shape: Shape, state: str) -> Model:
        """The floor beside that of the family's first variant, where that was modelled before."""
        found, accuracy = self.floor(variant, shape, state)
        base = self.suite.baseline(variant)
        return Model(found, accuracy, base, self.found.get((base.name, shape, state)))


class FloorClock:
    """pytest-benchmark's timer where nothing is measured: it stands at 0 until a floor is put in."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def take(self, fixture: Any, seconds: float) -> None:
        """One round of ``fixture`` that lasts ``seconds`` to the bit."""

        def reset() -> None:
            self.now = 0.0

        def pass_by() -> None:
            self.now = seconds

        fixture.pedantic(pass_by, setup=reset, rounds=1)
        self.now = 0.0
