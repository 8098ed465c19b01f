"""Times a variant in many launch configurations of threads, blocks and clusters, and as its rule has it: needs a GPU.

    python scripts/tune.py VARIANT M N [--dtype float32] [--show 8]

This is how the rules of kernels/configs/rules.py were found. Rows in registers are not split over clusters, and s9
keeps its stagger groups. All configurations are checked and timed a few times from a cold L2 cache, then the fastest
ones and the rule's own once more, in turns and at many places in memory. Exit code 0, or 2 where the variant is not
configured for its shape or no GPU is there.
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

from pytest_roofline import Launch, Shape, Variant, load
from pytest_roofline.bench.events import Stopwatch
from pytest_roofline.bench.placement import Placements
from pytest_roofline.devices import Devices
from pytest_roofline.errors import RooflineError, StaticCheckError
from pytest_roofline.hardware.gpus import Gpu
from pytest_roofline.hardware.limits import CLUSTERS, WARP
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.gpu.device import CudaDevice
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run
from pytest_roofline.run.static import check_resources

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "kernels"))
from configs.layout import RESERVED, RowLayout, width_of  # noqa: E402 - beside the shipped suite, in no package

DTYPES = ("float32", "float16", "bfloat16")
THREADS = (64, 96, 128, 192, 224, 256, 384, 448, 512, 768, 1024)
POLICIES = ("DEFAULT", "EVICT_LAST")  # as kernels/common/vector.cuh has them; NO_ALLOCATE too for plain loads
SUM_VECTORS = 4  # vectors that a pass over shared memory takes at a time: a multiple of them leaves no rest
MOST_HELD = 20  # vectors of a thread that are all kept in registers
IDLE = 1.15  # times the vectors of a row that all threads together may hold
FEW, MANY = 5, 31  # samples
ITEMS = 17  # different rows of the inputs, which the host makes quickly


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
    """The variant as its rule has it, then in every other layout, with all that it can ask of the caches."""
    fixed = replace(variant, launches=variant.configured(shape, gpu))
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


def spills(build: Build) -> bool:
    try:
        for launch in build.launches:
            check_resources(launch)
    except StaticCheckError:
        return True
    return False


class Again:
    """A run at its own place, as a series of samples: enough to tell the slow configurations."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __call__(self) -> Any:
        return self.run.run

    def restore(self) -> None: ...


def run_of(device: CudaDevice, variant: Variant, shape: Shape) -> Run:
    return Run(device, Build.of(Plan(Case(variant, shape), device.gpu)), items=ITEMS)


def tune(device: CudaDevice, variant: Variant, shape: Shape, show: int) -> list[str]:
    """The fastest configurations in order, and the rule's, as lines."""
    watch, made = Stopwatch(device), {}
    rough: dict[str, float] = {}
    for name, one in ways(variant, shape, device.gpu):
        try:
            run = run_of(device, one, shape)
        except RooflineError:
            continue  # more than the GPU has of something
        if name != "rule" and spills(run.build):
            continue
        run.run()
        run.verify()
        watch.fit_blocking(Again(run))
        rough[name] = statistics.median(watch.sample(Again(run), "cold") for _ in range(FEW))
        made[name] = one
        del run
        device.release()
    best = list(dict.fromkeys(["rule", *sorted(rough, key=lambda name: rough[name])[:show]]))
    series = {name: Placements(device, run_of(device, made[name], shape)) for name in best}
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
    made.add_argument("--dtype", choices=DTYPES, default="float32")
    made.add_argument("--show", type=int, default=8, help="ways that are timed again (%(default)s)")
    options = made.parse_args()
    suite, devices = load(ROOT / "kernels" / "suite.py"), Devices()
    shape = Shape(M=options.rows, N=options.columns, dtype=options.dtype)
    try:
        devices.require("scripts/tune.py")
        device, variant = devices.cuda, suite.variant(options.variant)
        launches = Plan(Case(variant, shape, suite), device.gpu).launches
        if "THREADS" not in dict(launches[-1].defines):
            print(f"{variant.name} is not configured by a rule", file=sys.stderr)
            return 2
        print(f"{variant.name} {shape}, {device.name}, L2 cold")
        print("\n".join(tune(device, variant, shape, options.show)))
    except RooflineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
