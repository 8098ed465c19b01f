"""The plugin's own tables: one line a benchmark for the terminal, Markdown for README and docs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..bench.record import Record
from ..declare.suite import Suite
from ..model.facts import NOTES
from ..model.sol import CEILINGS
from ..run.device import NOT_CHECKED, SIMULATED
from ..run.plan import Plan
from ..sim.observe.traffic import SECTOR

SHOWN = 6  # counters that differ, of a benchmark
CEILINGS_TOLD = "bound by " + ", ".join(f"{name} ({what})" for name, what in CEILINGS.items())
Named = Sequence[tuple[str, Record]]  # test ids with their records
HEAD = (
    "variant",
    "shape",
    "L2",
    "median us",
    "GB/s",
    "MBU %",
    "copy %",
    "SOL us",
    "SOL %",
    "bound",
    "speed-up",
    "ideal",
    "regs",
    "occ %",
    "waves",
)


def number(value: float | None, digits: int) -> str:
    """A number with so many digits after the point, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def waves(value: float | None) -> str:
    """Two digits after the point, or as many as a small grid needs not to read as zero."""
    return "-" if value is None else f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def speedup(record: Record) -> str:
    """With a star where the baseline's own time had help from the L2 cache."""
    starred = record.speedup_valid is False and record.variant != record.baseline and record.speedup is not None
    return number(record.speedup, 2) + ("*" if starred else "")


def of_copy(record: Record) -> float | None:
    """GB/s as a share of a copy's, in percent."""
    return 100 * record.gbs / record.copy_gbs if record.gbs and record.copy_gbs else None


def cells(record: Record) -> list[str]:
    return [
        record.variant,
        record.shape,
        record.state,
        number(record.median_us, 2),
        number(record.gbs, 0),
        number(record.mbu_percent, 1),
        number(of_copy(record), 0),
        number(record.sol_us, 2),
        number(record.sol_percent, 1),
        str(record.sol_bound or "-") if record.sol_us is not None else "-",
        speedup(record),
        number(record.ideal_speedup, 2),
        number(record.registers, 0),
        number(record.occupancy_percent, 0),
        waves(record.waves),
    ]


def table(records: Named, baseline: Mapping[str, Record]) -> list[str]:
    """Lines of the table; ``baseline`` maps test ids to saved records, shown below their own."""
    if not records:
        return []
    if records[0][1].evidence == SIMULATED:
        return modelled_table(records, baseline)
    rows: list[tuple[Sequence[str], str]] = [(HEAD, "notes")]
    for fullname, record in records:
        rows.append((cells(record), ", ".join(record.notes)))
        if then := baseline.get(fullname):
            rows.append((["  then", *cells(then)[1:]], ", ".join(then.notes)))
    return [*aligned(rows), *legend(records)]


def aligned(rows: Sequence[tuple[Sequence[str], str]]) -> list[str]:
    """Lines of cells in columns, the first three to the left, and what stands behind each line."""
    widths = [max(map(len, column)) for column in zip(*(row for row, _ in rows), strict=True)]

    def line(row: Sequence[str], behind: str) -> str:
        padded = [c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        return ("  ".join(padded) + ("  " + behind if behind else "")).rstrip()

    return [line(row, behind) for row, behind in rows]


MODELLED_HEAD = (
    "variant",
    "shape",
    "L2",
    "SOL us",
    "bound",
    "moved B/el",
    "DRAM B/el",
    "speed-up",
    "ideal",
    "requests",
)


def modelled_table(records: Named, baseline: Mapping[str, Record]) -> list[str]:
    """Speeds of light in place of times, and the counters that differ from the baseline's."""
    rows: list[tuple[Sequence[str], str]] = [(MODELLED_HEAD, "")]
    differences, unchecked = [], []
    for fullname, record in records:
        requests = [n for k, n in record.counters().items() if k.endswith(".requests") and ".shared." not in k]
        row = [record.variant, record.shape, record.state, number(record.sol_us, 2), str(record.sol_bound)]
        row += [number(record.bytes_per_element, 1), number(record.model_dram_per_element, 1), speedup(record)]
        rows.append(([*row, number(record.ideal_speedup, 2), str(sum(requests))], ""))
        then = baseline.get(fullname)
        if then is not None and (changed := grown(record.counters(), then.counters())):
            differences.append(f"{record.case}: {', '.join(changed[:SHOWN])}")
        unchecked += [f"{record.case}: {record.not_checked}"] if record.not_checked else []
    lines = [*aligned(rows), f"SOL: {records[0][1].label}; {CEILINGS_TOLD}"]
    lines.append("B/el: bytes for each element of the largest output, requested and by the model of the L2 cache")
    lines.append("answers: checked where the counted blocks wrote; test_answer checks every boundary")
    lines += [f"answer not checked: {line}" for line in unchecked]
    return lines + [f"counters that differ from the baseline: {line}" for line in differences]


def grown(now: Mapping[str, int], then: Mapping[str, int]) -> list[str]:
    """Counters that differ, the largest change first: "rms_n3.x.requests 100 -> 200 (+100 %)"."""
    found: list[tuple[float, str]] = []
    for key in dict.fromkeys((*then, *now)):
        a, b = then.get(key, 0), now.get(key, 0)
        if a != b:
            change = (b - a) / a if a else float("inf")
            percent = f"{100 * change:+.0f} %" if a else "new"
            found.append((-abs(change), f"{key} {a} -> {b} ({percent})"))
    return [text for _, text in sorted(found)]


COUNTERS_HEAD = (
    "variant",
    "shape",
    "L2",
    "moved",
    "model",
    "DRAM",
    "read",
    "written",
    "through L2",
    "ncu us",
    "median us",
)


def counters_table(records: Named) -> list[str]:
    """Traffic as ncu counted it beside bytes moved and model, in bytes for each element of the largest output."""
    rows: list[tuple[Sequence[str], str]] = [(COUNTERS_HEAD, "")]
    for _, record in records:
        if record.ncu_us is None:
            continue
        elements = record.elements
        row = [record.variant, record.shape, record.state, number(record.bytes_per_element, 1)]
        row += [number(record.model_dram_per_element, 2), number(record.dram_per_element, 2)]
        row += [number((record.dram_read_bytes or 0) / elements, 2)]
        row += [number((record.dram_written_bytes or 0) / elements, 2)]
        row += [number((record.l2_sectors or 0) * SECTOR / elements, 1), number(record.ncu_us, 2)]
        rows.append(([*row, number(record.median_us, 2)], ""))
    told = "by Nsight Compute, --cache-control none --clock-control none; bytes for each element of the largest output"
    return [*aligned(rows), told] if len(rows) > 1 else []


def not_checked(stats: Mapping[str, Sequence[Any]]) -> list[str]:
    """One line for each reason for which tests were not checked, with their number by folder."""
    reasons: dict[str, Counter[str]] = {}
    for skipped in stats.get("skipped", ()):
        reason = str(skipped.longrepr[2] if isinstance(skipped.longrepr, tuple) else skipped.longrepr)
        if reason.removeprefix("Skipped: ").startswith(f"{NOT_CHECKED}: "):
            folder = skipped.nodeid.split("::")[0].rsplit("/", 1)[0]
            reasons.setdefault(reason.split(f"{NOT_CHECKED}: ", 1)[-1], Counter())[folder] += 1
    return [
        f"{sum(folders.values())} tests ({', '.join(f'{n} in {f}' for f, n in sorted(folders.items()))}): {why}"
        for why, folders in reasons.items()
    ]


def sections(
    records: Named, baseline: Mapping[str, Record], compared: Sequence[str], stats: Mapping[str, Sequence[Any]]
) -> list[tuple[str, list[str]]]:
    """Title and lines of each section of the terminal summary, empty ones left out."""
    found = [
        ("roofline", table(records, baseline)),
        ("roofline: counters", counters_table(records)),
        ("roofline gate", list(compared)),
        ("roofline: not checked", not_checked(stats)),
    ]
    return [(title, lines) for title, lines in found if lines]


def legend(records: Named) -> list[str]:
    """What the columns and the notes in use mean."""
    first = records[0][1]
    lines = [
        f"MBU: bytes moved over time, of the peak of {number(first.peak_gbs, 0)} GB/s ({first.peak_source}); "
        f"copy: against a device-to-device copy of the same footprint; SOL: the model's least time; {first.evidence}."
    ]
    used = {note for _, record in records for note in record.notes}
    lines += [f"{note}: {told}." for note, told in NOTES.items() if note in used]
    if any("*" in speedup(record) for _, record in records):
        lines.append("*: the variant it is compared with had a second read served by the L2 cache.")
    return lines


def suite_table(suite: Suite, plans: Mapping[str, Plan]) -> list[str]:
    """The suite as a Markdown table; ``plans`` has each variant at its operator's default shape."""
    lines = ["| variant | operator | launches | what it is | bytes moved | limits |", "|---|---|---|---|---|---|"]
    for variant in suite:
        plan = plans[variant.name]
        launches = ", ".join(f"`{launch.kernel}`" for launch in plan.launches)
        limits = [limit.reason for limit in variant.limits]
        limits += [f"{variant.alignment}-byte aligned"] if variant.alignment else []
        limits += [", ".join(variant.dtypes)] if variant.dtypes != ("float32",) else []
        limits += [f"sm_{variant.capability} or newer"] if variant.capability else []
        moved = f"{plan.bytes_moved / plan.elements:g} an element"
        name = f"[{variant.name}](kernels/{variant.source})"
        row = [name, variant.operator.name, launches, variant.title, moved, "; ".join(limits) or "-"]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def results_table(records: Sequence[Record]) -> list[str]:
    """The records of a saved run as a Markdown table."""
    lines = [
        "| variant | shape | median us | SOL us (%) | GB/s | MBU % | % of a copy | speed-up (ideal) | notes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for record in records:
        gained = f"{speedup(record)} ({number(record.ideal_speedup, 2)})"
        sol = f"{number(record.sol_us, 2)} ({number(record.sol_percent, 0)})"
        row = [record.variant, record.shape, number(record.median_us, 2), sol, number(record.gbs, 0)]
        row += [number(record.mbu_percent, 1), number(of_copy(record), 0), gained, ", ".join(record.notes) or "-"]
        lines.append(f"| {' | '.join(row)} |")
    return lines
