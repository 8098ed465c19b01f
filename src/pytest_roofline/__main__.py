"""One rung at one shape, outside pytest: ``python -m pytest_roofline RUNG [M] [N] [ITERS]``.

Timed on a GPU; with ``--traffic`` counted in the simulator, by source line, with or without one.
Exit codes: 0 right, 1 wrong answer, 2 usage, 3 refused by a limit, 4 no device or a CUDA error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .check import Accuracy, Job
from .configuration import declared_in
from .environment import check_cupy
from .errors import DeviceError, RefusedError, RooflineError, WrongAnswerError
from .floor import Floor
from .ladder import Rung, Shape
from .modelled import label
from .record import Measurement
from .roofline import MARKS, ledger_seconds
from .session import Session, Settings
from .sim.traffic import SECTOR

RIGHT, WRONG, USAGE, REFUSED, NO_DEVICE = range(5)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m pytest_roofline",
        description="Run, check and time one rung of the ladder at one shape.",
        epilog="exit codes: 0 right, 1 wrong answer, 2 usage, 3 refused by a limit, 4 no device or a CUDA error",
    )
    made.add_argument("rung", metavar="RUNG", help="a rung of the declaration, such as n3")
    made.add_argument("rows", metavar="M", type=int, nargs="?", help="rows (default: the operator's)")
    made.add_argument("columns", metavar="N", type=int, nargs="?", help="columns (default: the operator's)")
    made.add_argument("samples", metavar="ITERS", type=int, nargs="?", default=11, help="samples (default: 11)")
    made.add_argument("--ladder", type=Path, help="declaration (default: what the pytest configuration here names)")
    made.add_argument("--traffic", action="store_true", help="count what it does and model its floor; needs no GPU")
    made.add_argument("--card", default="rtx4090", help="of --traffic: the card, where there is no GPU (%(default)s)")
    made.add_argument("--state", choices=("cold", "warm"), default="cold", help="L2 before each sample (%(default)s)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; messages of errors go to standard error."""
    options = parser().parse_args(argv)
    try:
        check_cupy()
        ladder = options.ladder or declared_in(Path.cwd())
        session = Session(Settings(ladder=ladder, state=options.state, card=options.card))
        rung = session.ladder.rung(options.rung)
        default = rung.operator.default_shape
        rows = default.M if options.rows is None else options.rows
        columns = default.N if options.columns is None else options.columns
        if rows < 1 or columns < 1 or options.samples < 1:
            print(f"M, N and ITERS must be at least 1, got {rows} {columns} {options.samples}", file=sys.stderr)
            return USAGE
        shape = Shape(rows, columns)
        session.ladder.require(rung, shape)
        if options.traffic:
            print("\n".join(traffic(*session.models.floor(rung, shape, options.state))))
        else:
            print("\n".join(measure(session, rung, shape, options.samples)))
    except WrongAnswerError as error:
        return _fail(error, WRONG)
    except RefusedError as error:
        return _fail(error, REFUSED)
    except DeviceError as error:
        code = _fail(error, NO_DEVICE)
        print(
            "without a GPU: --traffic counts and models here, and pytest tests/correctness simulates", file=sys.stderr
        )
        return code
    except RooflineError as error:
        return _fail(error, USAGE)
    return RIGHT


def _fail(error: RooflineError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


def measure(session: Session, rung: Rung, shape: Shape, samples: int) -> list[str]:
    """Check, time and describe; the lines that are printed."""
    job = Job(session.gpu, session.ladder, rung, shape)
    job.run()
    accuracy = job.verify()
    bench, state = session.bench, session.settings.state
    found = bench.measure(job, accuracy, state, lambda series: bench.take(series, state, samples))
    return [session.header(), *before(found), *after(found)]


def traffic(found: Floor, accuracy: Accuracy) -> list[str]:
    """What each launch does, by source line and array, and its floor."""
    facts = found.facts
    lines = [
        f"{facts.rung.name} {facts.shape}, {found.state} L2: {1e6 * found.seconds:.2f} us, {label(facts.card)}",
        f"simulated  right: {accuracy.values} values of {accuracy.rows} rows",
    ]
    for launch in found.launches:
        work, moved = launch.work, launch.dram
        limits = ", ".join(f"{name} {1e6 * seconds:.2f}" for name, seconds in launch.limits.items())
        dram = f"{moved.read} bytes read, {moved.written} written" if moved else "not modelled: accesses have gaps"
        instructions = ", ".join(f"{number} {kind}" for kind, number in sorted(work.issued.items()))
        lines += [
            f"launch     {work.kernel}: {1e6 * launch.seconds:.2f} us, bound by {launch.bound} ({limits} us)",
            f"           DRAM {dram}; {work.special} special-function results",
            f"           instructions of warps: {instructions}",
            f"           counted on {work.executed} of {work.blocks} blocks",
            f"           {'line':<28} {'array':<8} {'requests':>10} {'bytes':>12} {'sectors':>10}  coalescing",
        ]
        for (place, name), counts in sorted(work.lines.items()):
            moved_bytes = counts.sectors * SECTOR
            share = f"{counts.unique_bytes / moved_bytes:.0%}" if moved_bytes else f"{counts.wavefronts} wavefronts"
            row = f"{place:<28} {name:<8} {counts.requests:>10} {counts.bytes:>12} {counts.sectors:>10}  {share}"
            lines.append(f"           {row}")
    return lines


def before(found: Measurement) -> list[str]:
    """What was known before the time: ledger, footprint, launches."""
    rung, shape, card = found.facts.rung, found.facts.shape, found.facts.card
    lines = [
        f"{rung.name}, {rung.title}: {rung.operator.formula}, {shape.M} rows x {shape.N} columns",
        f"ledger     {rung.ledger_bytes(shape)} bytes, {rung.ledger_per_row(shape):g}N a row ({rung.ledger_words()})",
        f"footprint  {rung.footprint_bytes(shape) / 2**20:.1f} MiB, L2 {card.l2_bytes / 2**20:.0f} MiB",
    ]
    for figure in found.facts.launches:
        lines.append(
            f"launch     {figure.launch.kernel}: {figure.resources.registers} registers, "
            f"{figure.resources.spill_stores + figure.resources.spill_loads} bytes spilled, "
            f"{figure.occupancy.blocks} blocks an SM ({figure.occupancy.fraction:.0%} occupancy, limited by "
            f"{figure.occupancy.limited_by}), grid fills the card {figure.grid_fill:.3g} times"
        )
    return lines


def after(found: Measurement) -> list[str]:
    """What the run gave: check, time, bandwidth, marks."""
    accuracy, samples, peak = found.accuracy, [1e6 * s for s in found.samples], found.facts.card.peak_gbs
    ledger = 1e6 * ledger_seconds(found.facts.rung, found.facts.shape, found.facts.card)
    return [
        f"check      right: {accuracy.values} values of {accuracy.rows} rows, largest error "
        f"{accuracy.absolute:.2g}, {accuracy.of_tolerance:.2g} of the tolerance",
        f"time       {1e6 * found.median:.2f} us median of {len(samples)} ({min(samples):.2f} to {max(samples):.2f}), "
        f"L2 {found.state}, ledger at peak {ledger:.2f} us",
        f"bandwidth  {found.gbs:.0f} GB/s, MBU {found.mbu_percent:.1f} % of {peak:.0f} GB/s; "
        f"a copy of the same footprint reaches {found.copy_gbs:.0f} GB/s",
        *(f"mark       {mark}: {MARKS[mark]}" for mark in found.marks()),
    ]


if __name__ == "__main__":
    sys.exit(main())
