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

from pytest_roofline import verdict
from pytest_roofline.declaration import load
from pytest_roofline.device import NOT_CHECKED
from pytest_roofline.ladder import Ladder
from pytest_roofline.report import ladder_table, results_table

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "docs" / "peers_h200.json"  # of pytest tests/perf/peers --peers-markdown FILE
HEADLINE = ("n1", "n4", "n7", "s1", "s4", "s7", "a1", "a2")  # the first, the float4 one, the fastest at 8192 rows
OWN = re.compile(r"[a-z]\d+")  # rungs beside the best one
QUANTITIES = {"speedup": "speed-up over {}", "dram": "DRAM bytes a row, in N", "mbu": "MBU in %"}
BASELINE = max((ROOT / ".benchmarks" / "NVIDIA-H200").glob("*_h200.json"))  # the latest, by its number


def filled(text: str) -> str:
    """README's text with each block between its markers made anew; ValueError if a marker is missing."""
    run = json.loads(BASELINE.read_text(encoding="utf-8"))
    ladder = load(ROOT / "kernels" / "ladder.py")
    at_8192 = [b for b in run["benchmarks"] if b["extra_info"]["rows"] == 8192]
    first = [b for b in at_8192 if b["extra_info"]["rung"] in HEADLINE and b["extra_info"]["dtype"] == "float32"]
    for name, lines in (
        ("ladder", ladder_table(ladder)),
        ("hardware", [hardware(run)]),
        ("headline", results_table({"benchmarks": first})),
        ("main results", results_table({"benchmarks": at_8192})),
        (
            "all results",
            folded(f"{len(run['benchmarks'])} benchmarks, {BASELINE.relative_to(ROOT)}", results_table(run)),
        ),
        ("predictions", predictions(ladder, run)),
        ("peers", peers(json.loads(PEERS.read_text(encoding="utf-8")))),
    ):
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"README.md has no block between '<!-- {name} -->' and '<!-- end of {name} -->'")
        block = "\n".join(lines)
        text = pattern.sub(lambda found, block=block: f"{found[1]}{block}\n{found[2]}", text)
    return text


def folded(title: str, lines: list[str]) -> list[str]:
    """Lines that a reader unfolds."""
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def hardware(run: dict[str, Any]) -> str:
    """The card, the date, the commit and the versions of a saved run, as a sentence."""
    card = run["machine_info"]["roofline"]
    return (
        f"{card['card']}, {run['datetime'][:10]}, commit {run['commit_info']['id'][:7]}, driver {card['driver']}, "
        f"power limit {card['power_limit_w']:.0f} W, {card['compiler']}, CuPy {card['cupy']}, "
        f"peak {card['peak_gbs']:.0f} GB/s, L2 {card['l2_bytes'] / 2**20:.0f} MiB:"
    )


def predictions(ladder: Ladder, run: dict[str, Any]) -> list[str]:
    """Every prediction with its value and verdict in a saved run; not checked where it was not timed."""
    infos = [bench["extra_info"] for bench in run["benchmarks"]]
    found = verdict.verdicts(ladder, infos, {}, run["machine_info"]["roofline"]["l2_bytes"])
    told = {(one.rung, one.shape, one.prediction): one for one in found}
    lines = ["| rung | rows x N | what | predicted | because | measured | verdict |", "|---|---|---|---|---|---|---|"]
    for rung in ladder.rungs:
        for p in rung.predictions:
            for shape in verdict.shapes_of(ladder, rung, p):
                one = told.get((rung.name, shape, p))
                value = "-" if one is None or one.value is None else f"{one.value:.2f}"
                cells = [rung.name, str(shape), QUANTITIES[p.quantity].format(p.than), f"{p.low:g} to {p.high:g}"]
                cells += [p.why, value, one.verdict if one else NOT_CHECKED]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def peers(run: dict[str, Any]) -> list[str]:
    """The comparison: the copy, ours and each peer in us, ours against the fastest peer, and what ours missed."""
    about = dict(run["about"])
    card, date = about.pop("card"), about.pop("date")
    versions = ", ".join(f"{name} {about[name]}" for name in about if name not in ("command", "runs", "L2"))
    names = list(dict.fromkeys(one["name"] for row in run["rows"] for one in row["contenders"]))
    others = [name for name in names if name not in ("copy", "ours")]
    head = ["operator", "rows x N", "rung", "copy", "ours", *others, "ours against the fastest peer"]
    lines = [f"{card}, {date}, {versions}:", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in run["rows"]:
        found = {one["name"]: one for one in row["contenders"]}
        timed = [found[n]["seconds"] for n in others if n in found and found[n]["seconds"] and not OWN.fullmatch(n)]
        cells = [_microseconds(found.get(name)) for name in ("copy", "ours", *others)]
        ahead = f"{min(timed) / found['ours']['seconds']:.2f}" if timed and found["ours"]["seconds"] else "-"
        shape = f"{row['rows']} x {row['columns']}" + ("" if row["dtype"] == "float32" else f" {row['dtype']}")
        lines.append(f"| {row['operator']} | {shape} | {row['rung']} | {' | '.join(cells)} | {ahead} |")
    missed = [f"- {said}" for row in run["rows"] for said in row["complaints"]]
    return [*lines, "", f"{len(missed)} misses at {len(run['rows'])} shapes:", "", *missed] if missed else lines


def _microseconds(one: dict[str, Any] | None) -> str:
    if one is None or one["seconds"] is None:
        return one["state"] if one else "-"
    return f"{1e6 * one['seconds']:.2f}" + ("*" if one["mark"] else "")


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
