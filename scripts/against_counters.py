"""Holds the model of DRAM traffic against ncu's counters, as the Markdown table of docs/model.md.

    python scripts/against_counters.py [--saved FILE | --save FILE] [--rows 8192 16384 2048 32]

With ``--saved`` (tests/sim/h200_counters.json is one) what was counted is read from there and no GPU is needed; else
every variant runs under ncu, cold and warm. Bytes are read + written over all launches, for each element of the output.
Whether they agree is for tests/sim/test_l2.py to say. Exit code 0, or 2 if nothing could be counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from pytest_roofline import Shape, Suite, load
from pytest_roofline.bench import ncu, telemetry
from pytest_roofline.devices import Devices
from pytest_roofline.errors import RooflineError
from pytest_roofline.hardware.gpus import GPUS
from pytest_roofline.model.l2 import Dram
from pytest_roofline.model.models import Models
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.gpu.child import Counted
from pytest_roofline.run.gpu.device import CudaDevice
from pytest_roofline.run.plan import Plan

ROOT = Path(__file__).parents[1]
STATES = ("cold", "warm")


def measured(suite: Suite, device: CudaDevice, rows: list[int]) -> dict[str, Any]:
    """The counters of every variant that is not configured for its shape, at its default width, by ncu on this GPU."""
    plain = [variant for variant in suite if all(launch.configure is None for launch in variant.launches)]
    shapes = [(variant, suite.default(variant.operator).replace(M=m)) for variant in plain for m in rows]
    builds = [Build.of(Plan(Case(variant, shape, suite), device.gpu)) for variant, shape in shapes]
    cases = [Counted(build, state) for build in builds for state in STATES]
    found = ncu.count(ncu.find(), suite.file, cases, device.index)
    listed = [
        {
            "variant": one.build.plan.case.variant.name,
            **one.build.plan.shape.extents,
            "state": one.state,
            "launches": [dataclasses.asdict(launch) for launch in launches],
        }
        for one, launches in zip(cases, found, strict=True)
    ]
    return {"gpu": device.name, "driver": telemetry.read(device).driver, "cases": listed}


def both(moved: Dram, elements: int) -> str:
    return f"{moved.read / elements:.2f} + {moved.written / elements:.2f}"


def table(suite: Suite, models: Models, saved: dict[str, Any], rows: list[int]) -> list[str]:
    """A line for each variant and shape: model and counters, cold and warm."""
    lines = ["| variant | M x N | cold: model | cold: ncu | warm: model | warm: ncu |", "|---|---|---|---|---|---|"]
    by_case: dict[tuple[int, str, int], list[str]] = {}
    for case in sorted(saved["cases"], key=lambda c: rows.index(c["M"]) if c["M"] in rows else len(rows)):
        if case["M"] in rows:
            variant, shape = suite.variant(case["variant"]), Shape(M=case["M"], N=case["N"])
            found, _ = models.sol(Case(variant, shape, suite), case["state"])
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
    suite, devices = load(ROOT / "kernels" / "suite.py"), Devices()
    try:
        saved = json.loads(options.saved.read_text()) if options.saved else measured(suite, devices.cuda, options.rows)
    except (RooflineError, OSError) as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 2
    if options.save:
        options.save.write_text(json.dumps(saved, indent=1))
    gpu = next((gpu for gpu in GPUS.values() if gpu.name == saved["gpu"]), devices.gpu)
    print(f"{saved['gpu']}, driver {saved['driver']}\n")
    print("\n".join(table(suite, Models(gpu), saved, options.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
