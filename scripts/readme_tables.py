"""Writes the tables of README.md anew, from the declaration and from the saved baseline.

    python scripts/readme_tables.py [--check]

With ``--check`` nothing is written; exit code 1 if README is out of date. A number in README is a number of the
baseline: whoever saves a new one runs this.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from pytest_roofline.declaration import load
from pytest_roofline.report import ladder_table, results_table

ROOT = Path(__file__).parents[1]
BASELINE = max((ROOT / ".benchmarks" / "NVIDIA-H200").glob("*_h200.json"))  # the latest, by its number


def filled(text: str) -> str:
    """README's text with each block between its markers made anew; ValueError if a marker is missing."""
    run = json.loads(BASELINE.read_text(encoding="utf-8"))
    main = {"benchmarks": [b for b in run["benchmarks"] if b["extra_info"]["rows"] == 8192]}
    for name, lines in (
        ("ladder", ladder_table(load(ROOT / "kernels" / "ladder.py"))),
        ("hardware", [hardware(run)]),
        ("main results", results_table(main)),
        ("all results", results_table(run)),
    ):
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"README.md has no block between '<!-- {name} -->' and '<!-- end of {name} -->'")
        block = "\n".join(lines)
        text = pattern.sub(lambda found, block=block: f"{found[1]}{block}\n{found[2]}", text)
    return text


def hardware(run: dict[str, Any]) -> str:
    """The card, the date and the versions of a saved run, as a sentence."""
    card = run["machine_info"]["roofline"]
    return (
        f"{card['card']}, {run['datetime'][:10]}, driver {card['driver']}, power limit {card['power_limit_w']:.0f} W, "
        f"{card['compiler']}, CuPy {card['cupy']}, peak {card['peak_gbs']:.0f} GB/s, "
        f"L2 {card['l2_bytes'] / 2**20:.0f} MiB:"
    )


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
