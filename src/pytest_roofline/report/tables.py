"""The plugin's own table, for the terminal: one line a benchmark, its baseline's own values below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..bench.modelled import COUNT, grown
from ..declare.suite import Suite
from ..model.facts import MARKS
from ..model.sol import CEILINGS
from ..run.device import NOT_CHECKED, SIMULATED
from ..sim.observe.traffic import SECTOR

Info = Mapping[str, Any]
DEFAULT_ALIGNMENT = 4
SHOWN = 6  # counters that differ, of a benchmark
CEILINGS_TOLD = "bound by " + ", ".join(f"{name} ({what})" for name, what in CEILINGS.items())
HEAD = (
    "variant",
    "shape",
    "L2",
    "median us",
    "GB/s",
    "MBU %",
    "copy %",
    "floor us",
    "x floor",
    "bound",
    "speed-up",
    "ideal",
    "regs",
    "occ %",
    "fill",
)


def shaped(info: Info, times: str = "x") -> str:
    """Rows and columns, with the type where it is not float32 (or was not yet recorded)."""
    dtype = info.get("dtype", "float32")
    return f"{info['rows']}{times}{info['columns']}" + ("" if dtype == "float32" else f" {dtype}")


def _number(value: Any, digits: int) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else "-"


def _fill(value: Any) -> str:
    """Two digits after the point, or as many as a small grid needs not to read as zero."""
    return "-" if value is None else f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _speedup(info: Info) -> str:
    """With a star where the baseline's own time had help from the L2 cache."""
    starred = info.get("speedup_valid") is False and info["variant"] != info.get("baseline")
    return _number(info.get("speedup"), 2) + ("*" if starred and info.get("speedup") is not None else "")


def _cells(info: Info) -> list[str]:
    copy = info.get("copy_gbs")
    return [
        f"{info['variant']}",
        shaped(info),
        f"{info['state']}",
        _number(info.get("median_us"), 2),
        _number(info.get("gbs"), 0),
        _number(info.get("mbu_percent"), 1),
        _number(100 * info["gbs"] / copy if copy and info.get("gbs") else None, 0),
        _number(info.get("floor_us"), 2),
        _number(info.get("floor_ratio"), 2),
        str(info.get("floor_bound") or "-"),
        _speedup(info),
        _number(info.get("ideal_speedup"), 2),
        _number(info.get("registers"), 0),
        _number(info.get("occupancy_percent"), 0),
        _fill(info.get("grid_fill")),
    ]


def marks_of(info: Info) -> list[str]:
    return [mark for mark in str(info.get("marks") or "").split(", ") if mark]


def table(records: Sequence[tuple[str, Info]], baseline: Mapping[str, Info]) -> list[str]:
    """Lines of the table. ``records`` are (test id, extra_info); ``baseline`` maps test ids to saved extra_info.

    A star on a speed-up says that the baseline variant's own time had help from the L2 cache.
    """
    if not records:
        return []
    if records[0][1].get("evidence") == SIMULATED:
        return modelled_table(records, baseline)
    rows: list[tuple[list[str], str]] = []
    for fullname, info in records:
        rows.append((_cells(info), ", ".join(marks_of(info))))
        if then := baseline.get(fullname):
            rows.append((["  then", *_cells(then)[1:]], ", ".join(marks_of(then))))
    return [*aligned([(list(HEAD), "marks"), *rows]), *legend(records)]


def aligned(rows: Sequence[tuple[Sequence[str], str]]) -> list[str]:
    """Lines of cells in columns, the first three to the left, and what stands behind each line."""
    widths = [max(map(len, column)) for column in zip(*(cells for cells, _ in rows), strict=True)]

    def line(cells: Sequence[str], behind: str) -> str:
        padded = [c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return ("  ".join(padded) + ("  " + behind if behind else "")).rstrip()

    return [line(cells, behind) for cells, behind in rows]


MODELLED_HEAD = ("variant", "shape", "L2", "floor us", "bound", "ledger N", "DRAM N", "speed-up", "ideal", "requests")


def modelled_table(records: Sequence[tuple[str, Info]], baseline: Mapping[str, Info]) -> list[str]:
    """Floors in place of times, and the counters that differ from the baseline's."""
    rows: list[tuple[Sequence[str], str]] = [(MODELLED_HEAD, "")]
    differences = []
    for fullname, info in records:
        requests = [
            v for k, v in info.items() if k.startswith(COUNT) and k.endswith(".requests") and ".shared." not in k
        ]
        cells = [f"{info['variant']}", shaped(info), f"{info['state']}"]
        cells += [_number(info.get("floor_us"), 2), str(info.get("floor_bound")), _number(info["ledger_per_row_n"], 1)]
        cells += [_number(info.get("model_dram_per_row_n"), 1), _speedup(info), _number(info.get("ideal_speedup"), 2)]
        rows.append(([*cells, _number(sum(requests), 0)], ""))
        then = baseline.get(fullname)
        if then is not None and (changed := grown(info, then)):
            differences.append(f"{info['variant']} {shaped(info)}: {', '.join(changed[:SHOWN])}")
    lines = [*aligned(rows), f"floor: {records[0][1]['note']}; {CEILINGS_TOLD}"]
    lines.append("answers: checked in the rows of the counted blocks; pytest tests/correctness checks all that matter")
    return lines + [f"counters that differ from the baseline: {line}" for line in differences]


COUNTERS_HEAD = (
    "variant",
    "shape",
    "L2",
    "ledger",
    "model",
    "DRAM",
    "read",
    "written",
    "through L2",
    "ncu us",
    "median us",
)


def counters_table(records: Sequence[tuple[str, Info]]) -> list[str]:
    """Traffic as ncu counted it beside ledger and model, a line a benchmark; bytes as multiples of N a row."""
    rows: list[tuple[Sequence[str], str]] = [(COUNTERS_HEAD, "")]
    for _, info in records:
        if "ncu_us" in info:
            elements = info["rows"] * info["columns"]
            cells = [f"{info['variant']}", shaped(info), f"{info['state']}"]
            cells += [_number(info["ledger_per_row_n"], 1), _number(info.get("model_dram_per_row_n"), 2)]
            cells += [_number(info["dram_per_row_n"], 2), _number(info["dram_read_bytes"] / elements, 2)]
            cells += [_number(info["dram_written_bytes"] / elements, 2)]
            cells += [_number(info["l2_sectors"] * SECTOR / elements, 1), _number(info["ncu_us"], 2)]
            rows.append(([*cells, _number(info["median_us"], 2)], ""))
    told = "by Nsight Compute, --cache-control none --clock-control none; in multiples of N bytes a row"
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
    records: Sequence[tuple[str, Info]],
    baseline: Mapping[str, Info],
    compared: Sequence[str],
    stats: Mapping[str, Sequence[Any]],
) -> list[tuple[str, list[str]]]:
    """Title and lines of each section of the terminal summary, empty ones left out."""
    found = [
        ("roofline", table(records, baseline)),
        ("roofline: counters", counters_table(records)),
        ("roofline gate", list(compared)),
        ("roofline: not checked", not_checked(stats)),
    ]
    return [(title, lines) for title, lines in found if lines]


def suite_table(suite: Suite) -> list[str]:
    """The suite as a Markdown table, for README."""
    lines = [
        "| variant | operator | launches | what it is | ledger a row | limits |",
        "|---|---|---|---|---|---|",
    ]
    for variant in suite.variants:
        launches = ", ".join(f"`{launch.kernel}`" for launch in variant.launches)
        limits = [str(limit) for limit in variant.limits]
        limits += [f"{variant.alignment}-byte aligned"] if variant.alignment > DEFAULT_ALIGNMENT else []
        limits += [", ".join(variant.dtypes)] if variant.dtypes != ("float32",) else []
        limits += [f"sm_{variant.capability} or newer"] if variant.capability else []
        ledger = f"{variant.ledger_per_row(variant.operator.default_shape):g}N bytes"
        name = f"[{variant.name}](kernels/{variant.source})"
        lines.append(
            f"| {name} | {variant.operator.name} | {launches} | {variant.title} | {ledger} | {', '.join(limits) or '-'} |"
        )
    return lines


def results_table(run: Mapping[str, Any]) -> list[str]:
    """A saved run (pytest-benchmark's JSON) as a Markdown table, for README."""
    lines = [
        "| variant | rows x N | median us | floor us (times it) | GB/s | MBU % | % of a copy | speed-up (ideal) | marks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for bench in run["benchmarks"]:
        info = bench["extra_info"]
        copy = _number(100 * info["gbs"] / info["copy_gbs"], 0)
        speedup = f"{_speedup(info)} ({_number(info['ideal_speedup'], 2)})"
        floor = f"{_number(info.get('floor_us'), 2)} ({_number(info.get('floor_ratio'), 2)})"
        cells = [info["variant"], shaped(info, " x "), _number(info["median_us"], 2), floor]
        cells += [_number(info["gbs"], 0), _number(info["mbu_percent"], 1), copy, speedup, info["marks"] or "-"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def legend(records: Sequence[tuple[str, Info]]) -> list[str]:
    """What the columns and the marks in use mean."""
    info = records[0][1]
    lines = [
        f"MBU: ledger bytes over time, of the peak of {info['peak_gbs']:.0f} GB/s ({info['peak_source']}); "
        f"copy: against a device-to-device copy of the same footprint; {info['evidence']}."
    ]
    used = dict.fromkeys(mark for _, i in records for mark in marks_of(i))
    lines += [f"{mark}: {MARKS[mark]}." for mark in MARKS if mark in used]
    if any("*" in _speedup(i) for _, i in records):
        lines.append("*: the variant it is compared with had a second read served by the L2 cache.")
    return lines
