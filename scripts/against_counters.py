"""Holds the model of DRAM traffic against ncu's counters, as the Markdown table of docs/model.md.

    python scripts/against_counters.py [--saved FILE | --save FILE] [--rows 8192 16384 2048 32]

With ``--saved`` (tests/sim/h200_counters.json is one) what was counted is read from there and no GPU is needed; else
every variant runs under ncu, cold and warm. Bytes are read + written over all launches, in N a row. Whether
they agree is for tests/sim/test_l2.py to say. Exit code 0, or 2 if nothing could be counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from pytest_roofline.plugin.session import Session, Settings
from pytest_roofline.run.check import images_of

from pytest_roofline import Shape
from pytest_roofline.bench import ncu as counters
from pytest_roofline.bench.modelled import Models
from pytest_roofline.errors import RooflineError
from pytest_roofline.hardware.gpus import GPUS
from pytest_roofline.model.l2 import Dram
from pytest_roofline.run.gpu.child import Counted

ROOT = Path(__file__).parents[1]
STATES = ("cold", "warm")


def measured(session: Session, rows: list[int]) -> dict[str, Any]:
    """The counters by ncu of every variant that is not compiled for its shape, at its default width."""
    suite = session.suite
    plain = [variant for variant in suite.variants if all(launch.tune is None for launch in variant.launches)]
    shapes = {variant.name: [Shape(M=m, N=variant.operator.default_shape.N) for m in rows] for variant in plain}
    cases = [
        Counted(variant, shape, state, images_of(suite, variant, session.cuda.arch))
        for variant in plain
        for shape in shapes[variant.name]
        for state in STATES
    ]
    found = counters.count(counters.find(), suite.root / "suite.py", cases, session.cuda.index)
    listed = [
        {
            "variant": c.variant.name,
            "M": c.shape.M,
            "N": c.shape.N,
            "state": c.state,
            "launches": [dataclasses.asdict(o) for o in one],
        }
        for c, one in zip(cases, found, strict=True)
    ]
    return {"gpu": session.cuda.name, "driver": session.telemetry.driver, "cases": listed}


def both(moved: Dram, elements: int) -> str:
    return f"{moved.read / elements:.2f} + {moved.written / elements:.2f}"


def table(models: Models, saved: dict[str, Any], rows: list[int]) -> list[str]:
    """A line for each variant and shape: model and counters, cold and warm."""
    lines = ["| variant | rows x N | cold: model | cold: ncu | warm: model | warm: ncu |", "|---|---|---|---|---|---|"]
    by_case: dict[tuple[int, str, int], list[str]] = {}
    for case in sorted(saved["cases"], key=lambda c: rows.index(c["M"]) if c["M"] in rows else len(rows)):
        if case["M"] in rows:
            variant, shape = models.suite.variant(case["variant"]), Shape(M=case["M"], N=case["N"])
            found, _ = models.floor(variant, shape, case["state"])
            counted = Dram(*(int(sum(one[k] for one in case["launches"])) for k in ("dram_read", "dram_written")))
            cells = by_case.setdefault((case["M"], case["variant"], case["N"]), [])
            cells += [both(found.dram or Dram(0, 0), shape.M * shape.N), both(counted, shape.M * shape.N)]
    return lines + [f"| {variant} | {m} x {n} | {' | '.join(cells)} |" for (m, variant, n), cells in by_case.items()]


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--saved", type=Path, help="counters that an earlier run saved")
    made.add_argument("--save", type=Path, help="write the counters there")
    made.add_argument("--rows", nargs="+", type=int, default=[8192, 16384, 2048, 32])
    options = made.parse_args()
    session = Session(Settings(suite=ROOT / "kernels" / "suite.py"))
    try:
        saved = json.loads(options.saved.read_text()) if options.saved else measured(session, options.rows)
    except (RooflineError, OSError) as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 2
    if options.save:
        options.save.write_text(json.dumps(saved, indent=1))
    gpu = next((gpu for gpu in GPUS.values() if gpu.name == saved["gpu"]), session.gpu)
    print(f"{saved['gpu']}, driver {saved['driver']}\n")
    print("\n".join(table(Models(session.suite, gpu), saved, options.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
