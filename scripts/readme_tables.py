"""Writes the tables of README.md anew, from the declaration and from saved runs.

    python scripts/readme_tables.py [--check]

With ``--check`` nothing is written; exit code 1 if README is out of date. A number in README is a number of the
baseline or of docs/peers_h200.json: whoever saves a new one runs this.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from pytest_roofline import Suite, load
from pytest_roofline.bench.record import Record, reference
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.facts import NOTES
from pytest_roofline.report import predictions as verdict
from pytest_roofline.report.tables import results_table, suite_table
from pytest_roofline.run.case import Case
from pytest_roofline.run.device import NOT_CHECKED
from pytest_roofline.run.plan import Plan

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "docs" / "peers_h200.json"  # of pytest tests/perf/peers --peers-markdown FILE
HEADLINE = {  # the first variant, the float4 one, and the fastest at 8192 rows
    "n1": "RMSNorm, two launches",
    "n4": "in registers, 128-bit accesses",
    "n7": "one barrier, cache hints",
    "s1": "softmax, three launches",
    "s4": "in registers, 128-bit accesses",
    "s7": "one barrier, cache hints",
    "a1": "residual add, then RMSNorm",
    "a2": "both in one launch",
}
OWN = re.compile(r"[a-z]\d+")  # variants beside the best one
BASELINE = max((ROOT / ".benchmarks" / "NVIDIA-H200").glob("*_h200.json"))  # the latest, by its number


def filled(text: str) -> str:
    """README's text with each block between its markers made anew; ValueError if a marker is missing."""
    run = json.loads(BASELINE.read_text(encoding="utf-8"))
    suite = load(ROOT / "kernels" / "suite.py")
    records = [Record.read(bench["extra_info"]) for bench in run["benchmarks"]]
    at_8192 = [record for record in records if record.extents["M"] == 8192]
    first = [record for record in at_8192 if record.variant in HEADLINE and record.dtype == "float32"]
    for name, lines in (
        ("suite", suite_table(suite, plans(suite))),
        ("hardware", [hardware(run)]),
        ("headline", headline(first)),
        ("main results", results_table(at_8192)),
        ("all results", folded(f"{len(records)} benchmarks, {BASELINE.relative_to(ROOT)}", results_table(records))),
        ("predictions", predictions(suite, records)),
        ("notes", ["| note | what it says |", "|---|---|", *(f"| {note} | {says} |" for note, says in NOTES.items())]),
        ("keys", keys()),
        ("peers", peers(json.loads(PEERS.read_text(encoding="utf-8")))),
    ):
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"README.md has no block between '<!-- {name} -->' and '<!-- end of {name} -->'")
        block = "\n".join(lines)
        text = pattern.sub(lambda found, block=block: f"{found[1]}{block}\n{found[2]}", text)
    return text


def keys() -> list[str]:
    """Every key of a record with its unit and meaning."""
    rows = [f"| `{name}` | {unit} | {doc} |" for name, unit, doc in reference()]
    return ["| key | unit | what |", "|---|---|---|", *rows]


def plans(suite: Suite) -> dict[str, Plan]:
    """Each variant at its operator's default shape, on an H200."""
    return {v.name: Plan(Case(v, suite.default(v.operator), suite), gpu_named("h200")) for v in suite}


def headline(records: list[Record]) -> list[str]:
    """The ends of each family in words, for a reader who knows no column yet; measured records alone."""
    head = "| kernel | rows x columns | us | GB/s | of the peak bandwidth | of a copy's | times as fast as the first |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for record in records:
        if record.gbs is None or record.copy_gbs is None:
            raise ValueError(f"{record.case} was not measured; the headline is of measured times")
        cells = [f"{record.variant}: {HEADLINE[record.variant]}", " x ".join(map(str, record.extents.values()))]
        cells += [f"{record.median_us:.1f}", f"{record.gbs:.0f}", f"{record.mbu_percent:.0f} %"]
        cells += [f"{100 * record.gbs / record.copy_gbs:.0f} %", f"{record.speedup:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def folded(title: str, lines: list[str]) -> list[str]:
    """Lines that a reader unfolds."""
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def hardware(run: dict[str, Any]) -> str:
    """The GPU, the date, the commit and the versions of a saved run, as a sentence."""
    gpu = run["machine_info"]["roofline"]
    return (
        f"{gpu['gpu']}, {run['datetime'][:10]}, commit {run['commit_info']['id'][:7]}, driver {gpu['driver']}, "
        f"power limit {gpu['power_limit_w']:.0f} W, {gpu['compiler']}, CuPy {gpu['cupy']}, "
        f"peak {gpu['peak_gbs']:.0f} GB/s, L2 {gpu['l2_bytes'] / 2**20:.0f} MiB:"
    )


def predictions(suite: Suite, records: list[Record]) -> list[str]:
    """Every prediction with its value and verdict in a saved run; not checked where it was not timed."""
    l2_bytes = next((record.l2_bytes for record in records if record.l2_bytes), 0)
    found = verdict.verdicts(suite, records, {}, l2_bytes)
    told = {(one.variant, one.shape, one.prediction): one for one in found}
    lines = ["| variant | shape | what | predicted | because | measured | verdict |", "|---|---|---|---|---|---|---|"]
    for variant in suite:
        for p in variant.predictions:
            for shape in suite.workload(p.workload, variant.operator):
                one = told.get((variant.name, shape, p))
                value = "-" if one is None or one.value is None else f"{one.value:.2f}"
                cells = [variant.name, str(shape), verdict.what(p), f"{p.low:g} to {p.high:g}"]
                cells += [p.why, value, one.verdict if one else NOT_CHECKED]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def peers(run: dict[str, Any]) -> list[str]:
    """The comparison: the copy, ours and each peer in us, ours against the fastest peer, and what ours missed."""
    about = dict(run["about"])
    gpu, date = about.pop("gpu"), about.pop("date")
    versions = ", ".join(f"{name} {about[name]}" for name in about if name not in ("command", "runs", "L2"))
    names = list(dict.fromkeys(one["name"] for row in run["rows"] for one in row["contenders"]))
    others = [name for name in names if name not in ("copy", "ours")]
    head = ["operator", "rows x N", "variant", "copy", "ours", *others, "ours against the fastest peer"]
    lines = [f"{gpu}, {date}, {versions}:", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in run["rows"]:
        found = {one["name"]: one for one in row["contenders"]}
        timed = [found[n]["seconds"] for n in others if n in found and found[n]["seconds"] and not OWN.fullmatch(n)]
        cells = [_microseconds(found.get(name)) for name in ("copy", "ours", *others)]
        ahead = f"{min(timed) / found['ours']['seconds']:.2f}" if timed and found["ours"]["seconds"] else "-"
        lines.append(f"| {row['operator']} | {_shape(row)} | {row['variant']} | {' | '.join(cells)} | {ahead} |")
    missed = [f"- {said}" for row in run["rows"] for said in row["complaints"]]
    if missed:
        lines += ["", f"{len(missed)} misses at {len(run['rows'])} shapes:", "", *missed]
    return [*lines, "", "Without a time:", "", *without_time(run)]


def without_time(run: dict[str, Any]) -> list[str]:
    """Why a peer has none, each reason once with its shapes; absent packages and operators too."""
    at: dict[str, list[str]] = {}
    for row in run["rows"]:
        for one in row["contenders"]:
            if one["seconds"] is None:
                reason = one["reason"].partition(";")[0]
                at.setdefault(f"{one['name']} {one['state']}: {reason}", []).append(row["case"])
    return [f"- {reason} ({', '.join(cases)})" for reason, cases in at.items()]


def _shape(row: dict[str, Any]) -> str:
    size = f"{row['rows']} x {row['columns']}"
    return size if row["dtype"] == "float32" else f"{size} {row['dtype']}"


def _microseconds(one: dict[str, Any] | None) -> str:
    if one is None or one["seconds"] is None:
        return one["state"] if one else "-"
    return f"{1e6 * one['seconds']:.2f}" + ("*" if one["note"] else "")


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    new = filled(text)
    if "--check" in sys.argv[1:]:
        print("README.md is up to date" if new == text else "README.md is out of date: run scripts/readme_tables.py")
        return int(new != text)
    readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
