"""One variant at one shape, outside pytest: ``python -m pytest_roofline VARIANT [M] [N] [ITERS]``, and which to use:
``python -m pytest_roofline best OPERATOR [M] [N]``.

Timed on a GPU; with ``--traffic`` counted in the simulator, by source line, with or without one.
Exit codes: 0 right, 1 wrong answer, 2 usage, 3 refused by a limit, 4 no device or a CUDA error.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from .bench.modelled import label
from .bench.record import Measurement
from .declare.configuration import declared_in
from .declare.suite import Operator, Shape, Variant
from .errors import DeviceError, RefusedError, RooflineError, UnknownNameError, WrongAnswerError
from .hardware import gpus as gpus
from .hardware.dtypes import FLOATS
from .model.facts import MARKS, ledger_seconds
from .model.sol import Floor
from .plugin.environment import check_cupy
from .plugin.session import Session, Settings
from .run.check import Accuracy, Job
from .sim.observe.traffic import SECTOR

RIGHT, WRONG, USAGE, REFUSED, NO_DEVICE = range(5)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m pytest_roofline",
        description="Run, check and time one variant of the suite at one shape.",
        epilog="`best OPERATOR [M] [N]` says which variant to use, and why (it has a --help of its own). "
        "Exit codes: 0 right, 1 wrong answer, 2 usage, 3 refused by a limit, 4 no device or a CUDA error",
    )
    made.add_argument("variant", metavar="VARIANT", help="a variant of the declaration, such as n3")
    made.add_argument("rows", metavar="M", type=int, nargs="?", help="rows (default: the operator's)")
    made.add_argument("columns", metavar="N", type=int, nargs="?", help="columns (default: the operator's)")
    made.add_argument("samples", metavar="ITERS", type=int, nargs="?", default=11, help="samples (default: 11)")
    made.add_argument("--suite", type=Path, help="declaration (default: what the pytest configuration here names)")
    made.add_argument("--traffic", action="store_true", help="count what it does and model its floor; needs no GPU")
    made.add_argument("--gpu", default="rtx4090", help="of --traffic: the gpu, where there is no GPU (%(default)s)")
    made.add_argument("--state", choices=("cold", "warm"), default="cold", help="L2 before each sample (%(default)s)")
    made.add_argument("--dtype", choices=FLOATS, help="of the elements (default: the operator's)")
    return made


def best_parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m pytest_roofline best",
        description="Which variant to use for a shape, by the declaration's rule from width, rows, type and gpu.",
        epilog="exit codes: 0 named, 2 usage, 3 no variant runs it",
    )
    made.add_argument("operator", metavar="OPERATOR", help="an operator of the declaration, such as softmax")
    made.add_argument("rows", metavar="M", type=int, nargs="?", help="rows (default: the operator's)")
    made.add_argument("columns", metavar="N", type=int, nargs="?", help="columns (default: the operator's)")
    made.add_argument("--dtype", choices=FLOATS, help="of the elements (default: the operator's)")
    made.add_argument("--gpu", default="", help="a gpu of the table (default: the one in this machine, else rtx4090)")
    made.add_argument("--suite", type=Path, help="declaration (default: what the pytest configuration here names)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; messages of errors go to standard error."""
    given = list(sys.argv[1:] if argv is None else argv)
    at = given.index("best") if "best" in given else -1
    asks = at in (0, 2)  # 2: after an option and its value
    options = best_parser().parse_args(given[:at] + given[at + 1 :]) if asks else parser().parse_args(given)
    try:
        check_cupy()
        suite = options.suite or declared_in(Path.cwd())
        state = "cold" if asks else options.state
        session = Session(Settings(suite=suite, state=state, gpu=options.gpu or "rtx4090"))
        return best(session, options) if asks else run(session, options)
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


def run(session: Session, options: argparse.Namespace) -> int:
    """One variant: timed, or its traffic; the exit code."""
    variant = session.suite.variant(options.variant)
    shape = _shape(variant.operator, options, options.samples)
    if shape is None:
        return USAGE
    session.suite.require(variant, shape)
    if options.traffic:
        print("\n".join(traffic(*session.models.floor(variant, shape, options.state))))
    else:
        print("\n".join(measure(session, variant, shape, options.samples)))
    return RIGHT


def best(session: Session, options: argparse.Namespace) -> int:
    """Which variant to use and why, and how it is launched; the exit code."""
    operators = session.suite.operators
    if options.operator not in operators:
        raise UnknownNameError(f"there is no operator {options.operator!r}; there are {', '.join(operators)}")
    shape = _shape(operators[options.operator], options)
    if shape is None:
        return USAGE
    gpu = gpus.gpu(options.gpu) if options.gpu else session.gpu
    choice = session.suite.best(options.operator, shape, gpu)
    variant = choice.variant
    print(f"{variant.name}, {variant.title}: {choice.why}")
    print(f"operator   {variant.operator.name} {shape} on {gpu.name} ({gpu.arch})")
    print(f"source     {', '.join(variant.at(shape, gpu).sources())}")
    for launch in variant.at(shape, gpu).launches:
        blocks = f"{math.prod(launch.grid(shape))} blocks of {launch.threads} threads"
        cluster = f" in clusters of {launch.cluster}" if launch.cluster > 1 else ""
        defines = " ".join(f"{name}={value}" for name, value in launch.defines)
        made = f"; {defines}" if defines else ""
        print(f"launch     {launch.kernel}: {blocks}{cluster}, {launch.shared} bytes of dynamic shared memory{made}")
    return RIGHT


def _shape(operator: Operator, options: argparse.Namespace, samples: int = 1) -> Shape | None:
    """The shape that was asked for; None, and a message, where a number is below 1."""
    default = operator.default_shape
    rows = default.M if options.rows is None else options.rows
    columns = default.N if options.columns is None else options.columns
    for name, value in (("M", rows), ("N", columns), ("ITERS", samples)):
        if value < 1:
            print(f"{name} must be at least 1, got {value}", file=sys.stderr)
            return None
    return Shape(rows, columns, options.dtype or default.dtype)


def _fail(error: RooflineError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


def measure(session: Session, variant: Variant, shape: Shape, samples: int) -> list[str]:
    """Check, time and describe; the lines that are printed."""
    job = Job(session.cuda, session.suite, variant, shape)
    job.run()
    accuracy = job.verify()
    bench, state = session.bench, session.settings.state
    found = bench.measure(job, accuracy, state, lambda series: bench.take(series, state, samples))
    return [session.header(), *before(found), *after(found)]


def traffic(found: Floor, accuracy: Accuracy) -> list[str]:
    """What each launch does, by source line and array, and its floor."""
    facts = found.facts
    lines = [
        f"{facts.variant.name} {facts.shape}, {found.state} L2: {1e6 * found.seconds:.2f} us, {label(facts.gpu)}",
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
            f"           {'line':<32} {'array':<8} {'requests':>10} {'bytes':>12} {'sectors':>10}  coalescing",
        ]
        for (place, name), counts in sorted(work.lines.items()):
            moved_bytes = counts.sectors * SECTOR
            share = f"{counts.unique_bytes / moved_bytes:.0%}" if moved_bytes else f"{counts.wavefronts} wavefronts"
            row = f"{place:<32} {name:<8} {counts.requests:>10} {counts.bytes:>12} {counts.sectors:>10}  {share}"
            lines.append(f"           {row}")
    return lines


def before(found: Measurement) -> list[str]:
    """What was known before the time: ledger, footprint, launches."""
    variant, shape, gpu = found.facts.variant, found.facts.shape, found.facts.gpu
    lines = [
        f"{variant.name}, {variant.title}: {variant.operator.formula}, {shape.M} rows x {shape.N} columns",
        f"ledger     {variant.ledger_bytes(shape)} bytes, {variant.ledger_per_row(shape):g}N a row ({variant.ledger_words()})",
        f"footprint  {variant.footprint_bytes(shape) / 2**20:.1f} MiB, L2 {gpu.l2_bytes / 2**20:.0f} MiB",
    ]
    for figure in found.facts.launches:
        lines.append(
            f"launch     {figure.launch.kernel}: {figure.resources.registers} registers, "
            f"{figure.resources.spill_stores + figure.resources.spill_loads} bytes spilled, "
            f"{figure.occupancy.blocks} blocks an SM ({figure.occupancy.fraction:.0%} occupancy, limited by "
            f"{figure.occupancy.limited_by}), grid fills the gpu {figure.grid_fill:.3g} times"
        )
    return lines


def after(found: Measurement) -> list[str]:
    """What the run gave: check, time, bandwidth, marks."""
    accuracy, samples, peak = found.accuracy, [1e6 * s for s in found.samples], found.facts.gpu.peak_gbs
    ledger = 1e6 * ledger_seconds(found.facts.variant, found.facts.shape, found.facts.gpu)
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
