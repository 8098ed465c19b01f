"""One rung at one shape, outside pytest: ``python -m pytest_roofline RUNG [M] [N] [ITERS]``.

Exit codes: 0 right, 1 wrong answer, 2 usage, 3 refused by a limit, 4 no device or a CUDA error.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from .check import Job
from .errors import DeviceError, RefusedError, RooflineError, WrongAnswerError
from .gpu import telemetry
from .gpu.placement import Placements
from .ladder import Rung, Shape
from .measure import copy_bytes, facts_of, record, take_samples
from .report import marks_of
from .roofline import MARKS
from .session import Session, Settings

RIGHT, WRONG, USAGE, REFUSED, NO_DEVICE = range(5)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m pytest_roofline",
        description="Run, check and time one rung of the ladder at one shape.",
        epilog="exit codes: 0 right, 1 wrong answer, 2 usage, 3 refused by a limit, 4 no device or a CUDA error",
    )
    made.add_argument("rung", metavar="RUNG", help="n1 ... n4, s1 ... s4")
    made.add_argument("rows", metavar="M", type=int, nargs="?", help="rows (default: the operator's)")
    made.add_argument("columns", metavar="N", type=int, nargs="?", help="columns (default: the operator's)")
    made.add_argument("samples", metavar="ITERS", type=int, nargs="?", default=11, help="samples (default: 11)")
    made.add_argument("--ladder", type=Path, default=Path("kernels/ladder.py"), help="declaration (%(default)s)")
    made.add_argument("--state", choices=("cold", "warm"), default="cold", help="L2 before each sample (%(default)s)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; messages of errors go to standard error."""
    options = parser().parse_args(argv)
    try:
        session = Session(Settings(ladder=options.ladder, state=options.state))
        rung = session.ladder.rung(options.rung)
        default = rung.operator.default_shape
        rows = default.M if options.rows is None else options.rows
        columns = default.N if options.columns is None else options.columns
        if rows < 1 or columns < 1 or options.samples < 1:
            print(f"M, N and ITERS must be at least 1, got {rows} {columns} {options.samples}", file=sys.stderr)
            return USAGE
        shape = Shape(rows, columns)
        session.ladder.require(rung, shape)
        print("\n".join(measure(session, rung, shape, options.samples)))
    except WrongAnswerError as error:
        return _fail(error, WRONG)
    except RefusedError as error:
        return _fail(error, REFUSED)
    except DeviceError as error:
        return _fail(error, NO_DEVICE)
    except RooflineError as error:
        return _fail(error, USAGE)
    return RIGHT


def _fail(error: RooflineError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


def measure(session: Session, rung: Rung, shape: Shape, samples: int) -> list[str]:
    """Check, time and describe; the lines that are printed."""
    state, watch = session.settings.state, session.stopwatch
    job = Job(session.device, session.ladder, rung, shape)
    job.run()
    comparison = job.verify()
    facts = facts_of(job)
    copy_gbs = session.copies.gbs(copy_bytes(rung, shape), state)
    times = take_samples(watch, Placements(session.device, job), state, samples)
    median = statistics.median(times)
    seen = telemetry.read(session.device)
    info = record(
        session.ladder, facts, comparison, median, state, watch, copy_gbs, seen, watch.timer.late / samples, None
    )
    lines = [
        session.header(),
        f"{rung.name}, {rung.title}: {rung.operator.formula}, {shape.M} rows x {shape.N} columns",
        f"ledger     {info['ledger_bytes']} bytes, {info['ledger_per_row_n']:g}N a row ({info['ledger']})",
        f"footprint  {facts.rung.footprint_bytes(shape) / 2**20:.1f} MiB, L2 {facts.card.l2_bytes / 2**20:.0f} MiB",
    ]
    for figure in facts.launches:
        lines.append(
            f"launch     {figure.launch.kernel}: {figure.resources.registers} registers, "
            f"{figure.resources.spill_stores + figure.resources.spill_loads} bytes spilled, "
            f"{figure.occupancy.blocks} blocks an SM ({figure.occupancy.fraction:.0%} occupancy, limited by "
            f"{figure.occupancy.limited_by}), grid fills the card {figure.grid_fill:.2f} times"
        )
    lines += [
        f"check      right: {comparison.values} values of {comparison.rows} rows, largest error "
        f"{comparison.absolute:.2g}, {comparison.of_tolerance:.2f} of the tolerance",
        f"time       {median * 1e6:.2f} us median of {samples} ({min(times) * 1e6:.2f} to {max(times) * 1e6:.2f}), "
        f"L2 {state}, floor {info['floor_us']:.2f} us at peak",
        f"bandwidth  {info['gbs']:.0f} GB/s, MBU {info['mbu_percent']:.1f} % of {info['peak_gbs']:.0f} GB/s; "
        f"a copy of the same footprint reaches {copy_gbs:.0f} GB/s",
    ]
    return lines + [f"mark       {mark}: {MARKS[mark]}" for mark in marks_of(info)]


if __name__ == "__main__":
    sys.exit(main())
