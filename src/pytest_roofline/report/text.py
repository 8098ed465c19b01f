"""One case in lines, for the command line: how it is launched, what it took, what it moves."""

from __future__ import annotations

import math

from ..bench.modelled import label
from ..bench.record import Record
from ..declare.suite import Best
from ..model.facts import NOTES
from ..model.sol import SpeedOfLight
from ..run.compare import Accuracy
from ..run.plan import Plan
from ..sim.observe.traffic import SECTOR

Lines = list[str]


def chosen(choice: Best, plan: Plan) -> Lines:
    """The choice and its launches in lines."""
    variant, gpu = choice.variant, choice.gpu
    lines = [
        f"{variant.name}, {variant.title}: {choice.why}",
        f"operator   {variant.operator.name} {choice.shape} on {gpu.name} ({gpu.arch})",
        f"source     {', '.join(plan.sources())}; build {choice.build_key}",
    ]
    for launch in plan.launches:
        cluster = f" in clusters of {launch.cluster}" if launch.cluster > 1 else ""
        defines = " ".join(f"{name}={value}" for name, value in launch.defines)
        lines.append(
            f"launch     {launch.kernel}: {launch.blocks} blocks of {launch.threads} threads{cluster}, {launch.shared} "
            f"bytes of dynamic shared memory" + (f"; {defines}" if defines else "")
        )
    return lines


def counted(sol: SpeedOfLight, accuracy: Accuracy) -> Lines:
    """The counts of each launch in lines."""
    plan = sol.facts.plan
    right = f"right: {accuracy.values} values" if accuracy.values else f"not checked: {accuracy.not_checked}"
    lines = [
        f"{plan.case}, {sol.state} L2: {1e6 * sol.seconds:.2f} us, {label(plan.gpu)}",
        f"simulated  {right}",
    ]
    for launch in sol.launches:
        work, moved = launch.work, launch.dram
        limits = ", ".join(f"{name} {1e6 * seconds:.2f}" for name, seconds in launch.limits.items())
        dram = f"{moved.read} bytes read, {moved.written} written" if moved else "not modelled: accesses have gaps"
        instructions = ", ".join(f"{number} {kind}" for kind, number in sorted(work.issued.items()))
        lines += [
            f"launch     {work.kernel}: {1e6 * launch.seconds:.2f} us, bound by {launch.bound} ({limits} us)",
            f"           DRAM {dram}; {work.special} special-function results",
            f"           instructions of warps: {instructions}",
            f"           counted on {work.executed} of {work.blocks} blocks",
            f"           {'line':<32} {'array':<8} {'requests':>10} {'bytes':>12} {'sectors':>10}  coalescing",
        ]
        for (place, name), counts in sorted(work.lines.items()):
            sectors = counts.sectors * SECTOR
            share = f"{counts.unique_bytes / sectors:.0%}" if sectors else f"{counts.wavefronts} wavefronts"
            row = f"{place:<32} {name:<8} {counts.requests:>10} {counts.bytes:>12} {counts.sectors:>10}  {share}"
            lines.append(f"           {row}")
    return lines


def timed(record: Record, title: str, accuracy: Accuracy) -> Lines:
    """A measured case in lines; ``title`` is the variant's."""
    return [*before(record, title), *after(record, accuracy)]


def before(record: Record, title: str) -> Lines:
    """What was known before the time: bytes moved, footprint, launches."""
    lines = [
        f"{record.variant}, {title}: {record.operator} {record.shape} on {record.gpu}",
        f"moved      {record.bytes_moved} bytes, {record.bytes_per_element:g} an element ({record.moved})",
        f"footprint  {(record.footprint_bytes or 0) / 2**20:.1f} MiB, L2 {(record.l2_bytes or 0) / 2**20:.0f} MiB",
    ]
    for launch in record.launches:
        lines.append(
            f"launch     {launch.kernel}: {launch.registers} registers, {launch.spill_bytes} bytes spilled, "
            f"{launch.blocks_per_sm} blocks an SM ({launch.occupancy_percent:.0f} % occupancy, limited by "
            f"{launch.occupancy_limit}), {launch.waves:.3g} waves"
        )
    return lines


def after(record: Record, accuracy: Accuracy) -> Lines:
    """What the run gave: check, time, bandwidth, notes."""
    median = record.median_us if record.median_us is not None else math.nan
    sol = f", SOL {record.sol_us:.2f} us ({record.sol_percent:.0f} %)" if record.sol_percent else ""
    return [
        f"check      right: {accuracy.values} values, largest error {accuracy.absolute:.2g}, "
        f"{accuracy.of_tolerance:.2g} of the tolerance",
        f"time       {median:.2f} us median, L2 {record.state}, bytes moved at peak {record.at_peak_us:.2f} us{sol}",
        f"bandwidth  {record.gbs:.0f} GB/s, MBU {record.mbu_percent:.1f} % of {record.peak_gbs:.0f} GB/s; "
        f"a copy of the same footprint reaches {record.copy_gbs:.0f} GB/s",
        *(f"note       {note}: {NOTES[note]}" for note in record.notes),
    ]
