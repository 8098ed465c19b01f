"""Holds the timer against Nsight Compute: is the reported median what ncu's gpu__time_duration says?

    python scripts/against_ncu.py [--variants n4 s4] [--rows 1 32 2048 8192] [--columns 3584] [--json FILE]

Needs a GPU, ncu on the PATH and the permission to read counters; changes no setting of the GPU. Cold is held
against ``--cache-control all``, warm against ``--cache-control none``. A row agrees within 3 % where ncu says 10 us
or more, within 0.5 us below. Exit code 0 if every row agrees, 1 if one does not, 2 if ncu could not be run.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_roofline.plugin.session import Session, Settings
from pytest_roofline.run.check import Job

from pytest_roofline import Shape, Variant
from pytest_roofline.bench.placement import Placements

ROOT = Path(__file__).parents[1]
CACHE_CONTROL = {"cold": "all", "warm": "none"}
LAUNCHES = 41  # under ncu; the first is thrown away
PRECISION, BUDGET, ROUNDS = 0.001, 0.5, 101
LONG_US, RELATIVE, ABSOLUTE_US = 10.0, 0.03, 0.5


def cases(options: argparse.Namespace, session: Session) -> Iterator[tuple[Variant, Shape]]:
    for name in options.variants:
        variant = session.suite.variant(name)
        if len(variant.launches) != 1:
            print(
                f"{name} has {len(variant.launches)} launches; only single ones are held against ncu", file=sys.stderr
            )
            raise SystemExit(2)
        for rows in options.rows:
            yield variant, Shape(M=rows, N=options.columns)


def ours(session: Session, variant: Variant, shape: Shape, state: str) -> float:
    """Median in us, as a benchmark reports it."""
    job, watch = Job(session.cuda, session.suite, variant, shape), session.stopwatch
    job.run()
    job.verify()
    series = Placements(session.cuda, job)
    watch.fit_blocking(series)
    rounds = watch.rounds(series, state, PRECISION, BUDGET, ROUNDS)
    return statistics.median(watch.sample(series, state) for _ in range(rounds)) * 1e6


def under_ncu(options: argparse.Namespace, session: Session) -> None:
    """What the child does: the same launches in the same order, nothing else."""
    for variant, shape in cases(options, session):
        job = Job(session.cuda, session.suite, variant, shape)
        for _ in range(LAUNCHES):
            job.run()
        session.cuda.synchronize()


def ncu(options: argparse.Namespace, state: str, kernels: list[str]) -> list[float]:
    """Medians in us of each run of ``LAUNCHES`` launches, in order."""
    command = ["ncu", "--clock-control", "none", "--cache-control", CACHE_CONTROL[state]]
    command += ["--metrics", "gpu__time_duration.sum", "--print-units", "base", "--csv"]
    command += ["--kernel-name", f"regex:^({'|'.join(kernels)})$"]
    done = subprocess.run([*command, sys.executable, *sys.argv, "--child"], capture_output=True, text=True, check=False)
    if done.returncode or '"ID"' not in done.stdout:
        print(
            f"ncu failed with exit code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr
        )
        raise SystemExit(2)
    rows = list(csv.DictReader(io.StringIO(done.stdout[done.stdout.index('"ID"') :])))
    values = [float(row["Metric Value"].replace(",", "")) * 1e-3 for row in rows]  # base unit: ns
    if len(values) % LAUNCHES:
        print(f"ncu reported {len(values)} launches, no multiple of {LAUNCHES}", file=sys.stderr)
        raise SystemExit(2)
    return [statistics.median(values[i + 1 : i + LAUNCHES]) for i in range(0, len(values), LAUNCHES)]


def agrees(mine: float, theirs: float) -> bool:
    return abs(mine - theirs) <= (RELATIVE * theirs if theirs >= LONG_US else ABSOLUTE_US)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", nargs="+", default=["n4", "s4"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 32, 2048, 8192])
    parser.add_argument("--columns", type=int, default=3584)
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    session = Session(Settings(suite=ROOT / "kernels" / "suite.py"))
    if options.child:
        under_ncu(options, session)
        return 0
    if shutil.which("ncu") is None:
        print("ncu is not on the PATH; it comes with the CUDA toolkit (Nsight Compute)", file=sys.stderr)
        return 2
    print(session.header())
    found = []
    listed = list(cases(options, session))
    print(f"{'variant':<5} {'shape':>10} {'L2':<5} {'ours us':>9} {'ncu us':>9} {'difference':>16}")
    for state in CACHE_CONTROL:
        theirs = ncu(options, state, sorted({variant.launches[0].kernel for variant, _ in listed}))
        for (variant, shape), value in zip(listed, theirs, strict=True):
            mine = ours(session, variant, shape, state)
            right = agrees(mine, value)
            found.append(
                {"variant": variant.name, "shape": str(shape), "state": state, "ours_us": mine, "ncu_us": value}
            )
            print(
                f"{variant.name:<5} {shape!s:>10} {state:<5} {mine:9.2f} {value:9.2f} {mine - value:+7.2f} us"
                f" {100 * (mine / value - 1):+5.1f} %{'' if right else '  DISAGREES'}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0 if all(agrees(row["ours_us"], row["ncu_us"]) for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
