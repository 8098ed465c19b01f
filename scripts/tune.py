"""Times a variant in many row layouts over threads, blocks and clusters, and what its rule chose: needs a GPU.

    python scripts/tune.py VARIANT M N [--dtype float32] [--show 8]

This is how the rules of kernels/configs/rules.py were found. Rows in registers are not split over clusters, and s9
keeps the stagger of its rule. All layouts are checked and timed a few times from a cold L2 cache, then the fastest ones
and the rule's own once more, alternately and at many places in memory. Exit code 0, or 2 where the variant is not
configured by a rule or no GPU is there.
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
from pytest_roofline.testing.rows import CLUSTERS, RESERVED, WARP, RowLayout, width_of

from pytest_roofline import Launch, Shape, Variant
from pytest_roofline.bench.placement import Placements
from pytest_roofline.build.ptxas import of_kernel
from pytest_roofline.errors import RooflineError
from pytest_roofline.hardware.dtypes import FLOATS
from pytest_roofline.hardware.gpus import Gpu

ROOT = Path(__file__).parents[1]
THREADS = (64, 96, 128, 192, 224, 256, 384, 448, 512, 768, 1024)
POLICIES = ("DEFAULT", "EVICT_LAST")  # as kernels/common/vector.cuh has them; NO_ALLOCATE too for plain loads
SUM_VECTORS = 4  # vectors that a pass over shared memory takes at a time: a multiple of them leaves no rest
MOST_HELD = 20  # vectors of a thread that are all kept in registers
IDLE = 1.15  # times the vectors of a row that all threads together may hold
FEW, MANY = 5, 31  # samples


def layouts(shape: Shape, gpu: Gpu, in_shared: bool) -> Iterator[RowLayout]:
    """Every way worth trying: not much idle, and what waits in registers fits them."""
    width = width_of(shape)
    groups = shape.N // width
    for cluster, threads in itertools.product(CLUSTERS if gpu.has_clusters else (1,), THREADS):
        vectors = -(-groups // (cluster * threads))
        if threads * vectors * cluster > IDLE * groups + WARP * cluster or (cluster > 1 and not in_shared):
            continue
        one = RowLayout(
            shape.dtype, width, threads, vectors, groups // (cluster * threads), cluster, in_shared=in_shared
        )
        if not in_shared:
            if vectors <= 8:
                yield one
            continue
        for blocks in range(1, 7):
            if threads * blocks > gpu.threads_per_sm:
                break
            made = [replace(one, register_vectors=kept, blocks=blocks) for kept in range(min(7, vectors))]
            fitting = [way for way in made if way.shared + RESERVED <= gpu.shared_per_sm // blocks]
            whole = [way for way in fitting if (vectors - way.register_vectors) % SUM_VECTORS == 0]
            yield from dict.fromkeys([*fitting[:1], *whole])  # what waits in shared memory costs no registers
            if cluster > 1 and vectors <= MOST_HELD:
                yield replace(one, register_vectors=vectors, blocks=blocks)


def ways(variant: Variant, shape: Shape, gpu: Gpu) -> Iterator[tuple[str, Variant]]:
    """The variant as its rule has it, then in every other row layout, with every cache policy that it can take."""
    fixed = variant.at(shape, gpu)
    yield "rule", fixed
    launch = fixed.launches[-1]
    macros = dict(launch.defines)
    stagger = {name: macros[name] for name in ("STAGGER_GROUP", "STAGGER_CYCLES") if name in macros}
    in_shared = "REGISTER_VECTORS" in macros
    loads = POLICIES if in_shared else (*POLICIES, "NO_ALLOCATE")
    hints = [{"X_CACHE": x, "Y_CACHE": y} for x in loads for y in POLICIES]
    for layout in layouts(shape, gpu, in_shared):
        for policies in hints if "X_CACHE" in macros else [{}]:
            made: Launch = replace(launch, **layout.launch(**policies, **stagger))
            yield described(layout, policies), replace(fixed, launches=(*fixed.launches[:-1], made))


def described(layout: RowLayout, policies: dict[str, str]) -> str:
    kept = f", {layout.register_vectors} kept, {layout.blocks} blocks an SM" if layout.in_shared else ""
    told = "".join(f", {name} {value}" for name, value in policies.items())
    return f"{layout.threads} threads x {layout.vectors}, cluster of {layout.cluster}{kept}{told}"


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
            continue  # more than the GPU has of something
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
            print(f"{variant.name} is not configured by a rule", file=sys.stderr)
            return 2
        print(f"{variant.name} {shape}, {session.cuda.name}, L2 cold")
        print("\n".join(tune(session, variant, shape, options.show)))
    except RooflineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
