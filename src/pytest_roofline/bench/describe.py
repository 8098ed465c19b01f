"""The parts of a record that a measured and a modelled benchmark share."""

from __future__ import annotations

from typing import Any

from ..build.nvrtc import compiler
from ..declare.suite import Suite
from ..model.facts import Facts, seconds_at_peak
from ..model.sol import LaunchSol, SpeedOfLight
from ..run.build import Build, BuiltLaunch
from ..run.compare import Accuracy
from ..run.plan import Plan
from ..sim.observe.traffic import SECTOR, SHARED
from .record import LaunchRecord, Record


def described(build: Build, state: str, accuracy: Accuracy) -> Record:
    """What is known of a build without a time."""
    plan, facts = build.plan, Facts(build)
    distances = [f"{r.array} {r.where}: {r.distance_bytes / 1e6:.1f} MB" for r in facts.reuses]
    return Record(
        operator=plan.case.variant.operator.name,
        variant=plan.case.variant.name,
        shape=str(plan.shape),
        extents=plan.shape.extents,
        dtype=plan.shape.dtype,
        state=state,
        bytes_moved=plan.bytes_moved,
        bytes_per_element=plan.bytes_moved / plan.elements,
        moved=plan.moved_words(),
        peak_gbs=plan.gpu.peak_gbs,
        peak_source=plan.gpu.source,
        at_peak_us=seconds_at_peak(plan) * 1e6,
        footprint_bytes=plan.footprint,
        l2_bytes=plan.gpu.l2_bytes,
        reuse="; ".join(distances) or None,
        notes=tuple(facts.notes()),
        max_error=accuracy.absolute if accuracy.values else None,
        max_error_of_tolerance=accuracy.of_tolerance if accuracy.values else None,
        not_checked=accuracy.not_checked or None,
        registers=max(one.resources.registers for one in build.launches),
        spill_bytes=max(one.resources.spill_stores + one.resources.spill_loads for one in build.launches),
        stack_bytes=max(one.resources.stack_bytes for one in build.launches),
        blocks_per_sm=min(one.occupancy.blocks for one in build.launches),
        occupancy_percent=100 * min(one.occupancy.fraction for one in build.launches),
        waves=build.waves,
        gpu=plan.gpu.name,
        arch=plan.gpu.arch,
        compiler=compiler(),
        launches=tuple(_launch(one) for one in build.launches),
    )


def _launch(built: BuiltLaunch) -> LaunchRecord:
    resources = built.resources
    return LaunchRecord(
        kernel=built.planned.kernel,
        registers=resources.registers,
        spill_bytes=resources.spill_stores + resources.spill_loads,
        stack_bytes=resources.stack_bytes,
        shared_bytes=resources.shared_bytes + built.planned.shared,
        blocks_per_sm=built.occupancy.blocks,
        occupancy_percent=100 * built.occupancy.fraction,
        occupancy_limit=built.occupancy.limited_by,
        waves=built.waves,
    )


def with_sol(record: Record, plan: Plan, sol: SpeedOfLight) -> Record:
    """The record with speed of light, modelled DRAM traffic and exact counters."""
    moved = sol.dram
    launches = tuple(_with_sol(one, of) for one, of in zip(record.launches, sol.launches, strict=True))
    return record.replace(
        sol_us=sol.seconds * 1e6,
        sol_bound=sol.bound,
        model_dram_read_bytes=moved.read if moved else None,
        model_dram_written_bytes=moved.written if moved else None,
        model_dram_per_element=(moved.read + moved.written) / plan.elements if moved else None,
        launches=launches,
    )


def _with_sol(record: LaunchRecord, of: LaunchSol) -> LaunchRecord:
    work = of.work
    counters: dict[str, int] = {}
    coalescing: dict[str, float] = {}
    for name, counts in sorted(work.buffers.items()):
        counters |= {f"{name}.requests": counts.requests, f"{name}.bytes": counts.bytes}
        if name == SHARED:
            counters[f"{name}.wavefronts"] = counts.wavefronts
        else:
            counters[f"{name}.sectors"] = counts.sectors
            coalescing[name] = 100 * counts.unique_bytes / max(1, counts.sectors * SECTOR)
    counters |= {f"issued.{kind}": number for kind, number in sorted(work.issued.items())}
    counters["special_lanes"] = work.special
    values: dict[str, Any] = {"sol_us": of.seconds * 1e6, "sol_bound": of.bound}
    return LaunchRecord(**{**vars(record), **values, "coalescing_percent": coalescing, "counters": counters})


def with_baseline(record: Record, suite: Suite | None, plan: Plan, baseline: Plan | None) -> Record:
    """The record with the operator's first variant; ``baseline`` is its plan where it runs the shape."""
    if suite is None:
        return record
    ideal = baseline.bytes_moved / plan.bytes_moved if baseline else None
    return record.replace(baseline=suite.baseline(plan.case.variant).name, ideal_speedup=ideal)
