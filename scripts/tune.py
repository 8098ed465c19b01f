"""Times a tuned variant spread over threads, blocks and clusters in many ways, and what its rule chose: needs a GPU.

    python scripts/tune.py VARIANT M N [--dtype float32] [--show 8]

This is how the rules of kernels/spreads.py were found. Rows in registers are not split over clusters, and s9 keeps the
turns of its rule. All ways are checked and timed a few times from a cold L2 cache, then the fastest ones and the rule's
own once more, in turns and at many places in memory. Exit code 0, or 2 where the variant is not tuned or no GPU is there.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_roofline.plugin.session import Session, Settings
from pytest_roofline.run.check import Job
from pytest_roofline.testing.rows import CLUSTERS, RESERVED, WARP, Spread, width_of

from pytest_roofline import Launch, Shape, Variant
from pytest_roofline.bench.placement import Placements
from pytest_roofline.build.ptxas import of_kernel
from pytest_roofline.errors import RooflineError
from pytest_roofline.hardware.dtypes import FLOATS
from pytest_roofline.hardware.gpus import Gpu

ROOT = Path(__file__).parents[1]
THREADS = (64, 96, 128, 192, 224, 256, 384, 448, 512, 768, 1024)
LINES = ("PLAIN", "STAY")  # as kernels/vector.cuh has them; PASS too for loads that are no asynchronous copies
PASS = 4  # vectors that a pass over shared memory takes at a time: a multiple of them leaves no rest
MOST_HELD = 20  # vectors of a thread that are all kept in registers
IDLE = 1.15  # times the vectors of a row that all threads together may hold
FEW, MANY = 5, 31  # samples


def spreads(shape: Shape, gpu: Gpu, staged: bool) -> Iterator[Spread]:
    """Every way worth trying: not much idle, and what waits in registers fits them."""
    width = width_of(shape)
    groups = shape.N // width
    for cluster, threads in itertools.product(CLUSTERS if gpu.has_clusters else (1,), THREADS):
        vectors = -(-groups // (cluster * threads))
        if threads * vectors * cluster > IDLE * groups + WARP * cluster or (cluster > 1 and not staged):
            continue
        one = Spread(shape.dtype, width, threads, vectors, groups // (cluster * threads), cluster, staged=staged)
        if not staged:
            if vectors <= 8:
                yield one
            continue
        for blocks in range(1, 7):
            if threads * blocks > gpu.threads_per_sm:
                break
            made = [replace(one, kept=kept, blocks=blocks) for kept in range(min(7, vectors))]
            fitting = [way for way in made if way.shared + RESERVED <= gpu.shared_per_sm // blocks]
            whole = [way for way in fitting if (vectors - way.kept) % PASS == 0]
            yield from dict.fromkeys([*fitting[:1], *whole])  # what waits in shared memory costs no registers
            if cluster > 1 and vectors <= MOST_HELD:
                yield replace(one, kept=vectors, blocks=blocks)


def ways(variant: Variant, shape: Shape, gpu: Gpu) -> Iterator[tuple[str, Variant]]:
    """The variant as its rule has it, then spread in every other way, with all that it can ask of the caches."""
    fixed = variant.at(shape, gpu)
    yield "rule", fixed
    launch = fixed.launches[-1]
    macros = dict(launch.defines)
    turns = {name: macros[name] for name in ("ROWS_A_TURN", "TURN_CYCLES") if name in macros}
    staged = "KEPT" in macros
    loads = LINES if staged else (*LINES, "PASS")
    hints = [{"X_LINES": x, "Y_LINES": y} for x in loads for y in LINES]
    for spread in spreads(shape, gpu, staged):
        for lines in hints if "X_LINES" in macros else [{}]:
            made: Launch = replace(launch, **spread.launch(**lines, **turns))
            yield described(spread, lines), replace(fixed, launches=(*fixed.launches[:-1], made))


def described(spread: Spread, lines: dict[str, str]) -> str:
    kept = f", {spread.kept} kept, {spread.blocks} blocks an SM" if spread.staged else ""
    told = "".join(f", {name} {value}" for name, value in lines.items())
    return f"{spread.threads} threads x {spread.vectors}, cluster of {spread.cluster}{kept}{told}"


def spills(job: Job) -> bool:
    found = [of_kernel(job.program.images[job.variant.source_of(one)], one.kernel) for one in job.variant.launches]
    return any(one.spill_stores or one.stack_bytes for one in found)


def tune(session: Session, variant: Variant, shape: Shape, show: int) -> list[str]:
    """The fastest ways in order, and the rule's, as lines."""
    watch, jobs = session.stopwatch, {}
    rough: dict[str, float] = {}
    for name, one in ways(variant, shape, session.cuda.gpu):
        try:
            job = Job(session.cuda, session.suite, one, shape, rows=17)
        except RooflineError:
            continue  # more than the gpu has of something
        if name != "rule" and spills(job):
            continue
        job.run()
        job.verify()
        watch.fit_blocking(lambda job=job: job.run)
        rough[name] = statistics.median(watch.sample(lambda job=job: job.run, "cold") for _ in range(FEW))
        jobs[name] = job.variant
        session.cuda.release()
    best = list(dict.fromkeys(["rule", *sorted(rough, key=lambda name: rough[name])[:show]]))
    series: dict[str, Any] = {}
    for name in best:
        series[name] = Placements(session.cuda, Job(session.cuda, session.suite, jobs[name], shape, rows=17))
    times: dict[str, list[float]] = {name: [] for name in best}
    for _, name in itertools.product(range(MANY), best):
        times[name].append(watch.sample(series[name], "cold"))
    ranked = sorted(best, key=lambda name: statistics.median(times[name]))
    return [f"{1e6 * statistics.median(times[name]):9.2f} us  {name}" for name in ranked]


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("variant")
    made.add_argument("rows", type=int)
    made.add_argument("columns", type=int)
    made.add_argument("--dtype", choices=FLOATS, default="float32")
    made.add_argument("--show", type=int, default=8, help="ways that are timed again (%(default)s)")
    options = made.parse_args()
    try:
        session = Session(Settings(suite=ROOT / "kernels" / "suite.py"))
        variant = session.suite.variant(options.variant)
        shape = Shape(M=options.rows, N=options.columns, dtype=options.dtype)
        session.suite.require(variant, shape, session.cuda.gpu)
        if "THREADS" not in dict(variant.at(shape, session.cuda.gpu).launches[-1].defines):
            print(f"{variant.name} is not spread by a rule", file=sys.stderr)
            return 2
        print(f"{variant.name} {shape}, {session.cuda.name}, L2 cold")
        print("\n".join(tune(session, variant, shape, options.show)))
    except RooflineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
