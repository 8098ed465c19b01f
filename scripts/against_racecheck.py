"""Holds the simulator's race check against compute-sanitizer's, over every variant and every mutant, in two builds.

    python scripts/against_racecheck.py [--only NAME] [--workers 8] [--json FILE]

Needs a GPU and compute-sanitizer. For each kernel of each variant, as shipped and broken in each way of tests/mutants,
plain and with volatile shared arrays: does each of the two report a race in it? Races between blocks, which racecheck
does not look for, are left out. Exit code 0 if the two agree everywhere, 1 if they do not, 2 if one could not be run.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pytest_roofline import Shape, Suite, load
from pytest_roofline.devices import Devices
from pytest_roofline.errors import DeviceError, NotCheckedError, SanitizerNotFoundError
from pytest_roofline.hardware.gpus import Gpu
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.device import NOT_CHECKED
from pytest_roofline.run.gpu.child import ChildJob, case_job
from pytest_roofline.run.plan import Plan
from pytest_roofline.sanitize.checks import images_of
from pytest_roofline.sanitize.compute_sanitizer import Sanitizer, Tool, check, find
from pytest_roofline.sanitize.report import FINDINGS, Report
from pytest_roofline.sanitize.simulated import BETWEEN_BLOCKS, Simulator
from pytest_roofline.testing.shapes import nearest

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "tests" / "mutants"
WANTED = Shape(M=8, N=1000)
SPLIT = Shape(M=8, N=60000)  # over a cluster of blocks
Named = tuple[str, Build]


def mutants() -> list[tuple[Any, Shape]]:
    """The mutants of all files of tests/mutants, which is no package, with a shape at which each is to run."""
    sys.path[:0] = [str(MUTANTS), str(ROOT / "tests" / "correctness"), str(ROOT / "tests")]
    found = []
    for path in sorted(MUTANTS.glob("test_*.py")):
        usual = SPLIT if path.stem.endswith("cluster") else WANTED
        all_of = runpy.run_path(str(path)).get("ALL", [])
        found += [one if isinstance(one, tuple) else (one, usual) for one in all_of]
    return found


def cases(suite: Suite, gpu: Gpu, only: str) -> Iterator[Named]:
    """Every variant and every mutant that ``gpu`` can run, in both builds."""
    broken = [(str(one), suite.variant(one.variant), shape, one) for one, shape in mutants()]
    shipped = [(variant.name, variant, shape, None) for variant in suite.variants for shape in (WANTED, SPLIT)]
    for volatile in (False, True):
        for name, variant, wanted, mutant in [*shipped, *broken]:
            shape = nearest(suite, variant, wanted) if wanted == WANTED else wanted
            if only not in name or shape is None or variant.broken_limit(shape):
                continue
            try:
                plan = Plan(Case(variant, shape, suite), gpu)
            except NotCheckedError:  # the GPU lacks what it needs
                continue
            images = images_of(plan, volatile) if mutant is None else mutant.images(suite, gpu, shape, volatile)
            yield f"{name} {shape} {'volatile' if volatile else 'plain'}", Build(plan, images)


def racing(report: Report) -> set[str] | None:
    """Kernels in which the simulator found a race; None if that was not checked."""
    if report.verdict == NOT_CHECKED:
        return None
    return {finding.kernel for finding in report.findings if finding.kind != BETWEEN_BLOCKS}


def really_racing(tool: Tool, job: ChildJob) -> tuple[set[str] | None, Report]:
    """The same of racecheck. It names the device function a race is in, so each kernel is then run by itself."""
    report = check(tool, "racecheck", job)
    if report.verdict != FINDINGS:
        return (None if report.verdict == NOT_CHECKED else set()), report
    names = {*job.launches}
    if len(names) == 1:
        return names, report
    return {name for name in names if check(tool, "racecheck", job, kernel=name).verdict == FINDINGS}, report


def in_words(found: set[str] | None) -> str:
    return NOT_CHECKED if found is None else ", ".join(sorted(found)) or "clean"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", default="", help="cases whose name holds this text")
    made.add_argument("--workers", type=int, default=8, help="sanitizers at a time (%(default)s)")
    made.add_argument("--json", type=Path, help="write the verdicts there")
    return made


def main() -> int:
    options = parser().parse_args()
    suite, devices = load(ROOT / "kernels" / "suite.py"), Devices()
    try:
        device = devices.cuda
        tool = Sanitizer(find(None, os.environ), device.arch, device.index)
    except (DeviceError, SanitizerNotFoundError) as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 2
    if tool.canary("racecheck").verdict != FINDINGS:
        print(f"not checked: {tool.canary('racecheck')}", file=sys.stderr)
        return 2
    print(f"{device.name}, compute-sanitizer {tool.tool.version}")
    named, simulator = list(cases(suite, device.gpu, options.only)), Simulator(devices.fresh_simulator)

    def real(case: Named) -> tuple[set[str] | None, Report]:
        name, build = case
        return really_racing(tool.tool, case_job(suite.file, build, device.index, verify=False, note=name))

    with ThreadPoolExecutor(options.workers) as pool:
        reports = list(pool.map(real, named))
    rows, wrong = [], 0
    for (name, build), (theirs, report) in zip(named, reports, strict=True):
        simulated = simulator.check("racecheck", build)
        ours = racing(simulated)
        same = ours is not None and ours == theirs
        wrong += not same
        told = [in_words(found) for found in (ours, theirs)]
        rows.append({"case": name, "simulated": told[0], "racecheck": told[1], "agree": same})
        print(f"{name:48} {told[0]:28} {told[1]:28} {'' if same else 'DIFFER'}")
        if not same:
            print(simulated, report, sep="\n")
    print(f"{len(rows) - wrong} of {len(rows)} agree")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
