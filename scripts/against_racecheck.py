"""Holds the simulator's race check against compute-sanitizer's, over every variant and every mutant, in two builds.

    python scripts/against_racecheck.py [--only NAME] [--workers 8] [--json FILE]

Needs a GPU and compute-sanitizer. For each kernel of each variant, as shipped and broken in each way of tests/mutants,
plain and with volatile shared arrays: does each of the two report a race in it? Races between blocks, which racecheck
does not look for, are left out. Exit code 0 if the two agree everywhere, 1 if they do not, 2 if one could not be run.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pytest_roofline.plugin.session import Session, Settings
from pytest_roofline.run.check import images_of

from pytest_roofline import Shape, Suite, Variant
from pytest_roofline.build.nvrtc import Image
from pytest_roofline.declare.suite import lacking
from pytest_roofline.errors import DeviceError, SanitizerNotFoundError
from pytest_roofline.hardware.gpus import Gpu
from pytest_roofline.run.device import NOT_CHECKED
from pytest_roofline.run.gpu.child import ChildJob, variant_job
from pytest_roofline.sanitize.compute_sanitizer import Tool, check, nearest_shape
from pytest_roofline.sanitize.report import FINDINGS, Report
from pytest_roofline.sanitize.simulated import BETWEEN_BLOCKS

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "tests" / "mutants"
WANTED = Shape(M=8, N=1000)
SPLIT = Shape(M=8, N=60000)  # over a cluster of blocks
Case = tuple[str, Variant, Shape, Mapping[str, Image]]


def mutants() -> list[tuple[Any, Shape]]:
    """The mutants of all files of tests/mutants, which is no package, with a shape at which each is to run."""
    sys.path[:0] = [str(MUTANTS), str(ROOT / "tests" / "correctness")]
    found = []
    for path in sorted(MUTANTS.glob("test_*.py")):
        usual = SPLIT if path.stem.endswith("cluster") else WANTED
        found += [one if isinstance(one, tuple) else (one, usual) for one in runpy.run_path(str(path))["ALL"]]
    return found


def cases(suite: Suite, gpu: Gpu, only: str) -> Iterator[Case]:
    """Every variant and every mutant that ``gpu`` can run, in both builds."""
    broken = [(str(one), suite.variant(one.variant), shape, one) for one, shape in mutants()]
    shipped = [(variant.name, variant, shape, None) for variant in suite.variants for shape in (WANTED, SPLIT)]
    for volatile in (False, True):
        for name, variant, wanted, mutant in [*shipped, *broken]:
            if only not in name or (wanted == SPLIT and variant.broken_limit(SPLIT)):
                continue
            shape = nearest_shape(variant, wanted) if wanted == WANTED else wanted
            if lacking(variant, shape, gpu):
                continue
            if mutant is None:
                images = images_of(suite, variant.at(shape, gpu), gpu.arch, volatile)
            else:
                images = mutant.images(suite, gpu, shape, volatile)
            yield f"{name} {shape} {'volatile' if volatile else 'plain'}", variant.at(shape, gpu), shape, images


def racing(report: Report) -> set[str] | None:
    """Kernels in which the simulator found a race; None if that was not checked."""
    if report.verdict == NOT_CHECKED:
        return None
    return {finding.kernel for finding in report.findings if finding.kind != BETWEEN_BLOCKS}


def really_racing(tool: Tool, variant: Variant, job: ChildJob) -> tuple[set[str] | None, Report]:
    """The same of racecheck. It names the device function a race is in, so each kernel is then run by itself."""
    report = check(tool, "racecheck", job)
    if report.verdict != FINDINGS:
        return (None if report.verdict == NOT_CHECKED else set()), report
    names = {launch.kernel for launch in variant.launches}
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
    suite = ROOT / "kernels" / "suite.py"
    session = Session(Settings(suite=suite, device="cuda"))
    try:
        session.check_device()
        tool = session.sanitizer
    except (DeviceError, SanitizerNotFoundError) as error:
        print(f"not checked: {error}", file=sys.stderr)
        return 2
    if tool.canary("racecheck").verdict != FINDINGS:
        print(f"not checked: {tool.canary('racecheck')}", file=sys.stderr)
        return 2
    print(session.header())
    named = list(cases(session.suite, session.cuda.gpu, options.only))

    def real(case: Case) -> tuple[set[str] | None, Report]:
        name, variant, shape, images = case
        job = variant_job(suite, variant, shape, images, session.cuda.index, verify=False, note=name)
        return really_racing(tool.tool, variant, job)

    with ThreadPoolExecutor(options.workers) as pool:
        reports = list(pool.map(real, named))
    rows, wrong = [], 0
    for (name, variant, shape, images), (theirs, report) in zip(named, reports, strict=True):
        simulated = session.simulated.check("racecheck", variant, shape, images, session.cuda.gpu)
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
