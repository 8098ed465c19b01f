"""One case outside pytest: ``pytest-roofline run VARIANT M=8 N=1000``, ``best``, ``traffic`` and ``gate``.

Exit codes: 0 right, 1 wrong answer or failed gate, 2 usage, 3 refused by a limit, 4 no device or a CUDA error.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .bench.clock import STATES
from .bench.measured import Measured
from .bench.modelled import Modelled
from .declare import load
from .declare.configuration import declared_in
from .declare.operator import Operator
from .declare.shape import Shape
from .declare.suite import Suite
from .devices import DEFAULT_GPU, Devices
from .errors import BaselineError, DeviceError, RefusedError, RooflineError, UnknownNameError, WrongAnswerError
from .hardware.dtypes import FLOATS
from .hardware.gpus import GPUS, gpu_named
from .model.models import Models
from .plugin.environment import check_cupy
from .report import gate, saved, text
from .run.case import Case
from .run.plan import Plan

RIGHT, WRONG, USAGE, REFUSED, NO_DEVICE = range(5)
CODES = "exit codes: 0 right, 1 wrong answer or failed gate, 2 usage, 3 refused by a limit, 4 no device or a CUDA error"
FLAGS = ("--json", "--other-gpu", "--partial", "--help", "-h")  # options without a value


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options of a command line, which may stand anywhere among its words, before the sub-command too."""
    made = argparse.ArgumentParser(prog="pytest-roofline", description=__doc__.splitlines()[0], epilog=CODES)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_run, _add_best, _add_traffic, _add_gate):
        add(commands)
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        of_an_option = before.startswith("-") and "=" not in before and before not in FLAGS
        if word in commands.choices and not of_an_option:
            found: argparse.Namespace = commands.choices[word].parse_intermixed_args([*words[:at], *words[at + 1 :]])
            return found
    return made.parse_args(words)  # the help, or an error


def _command(commands: Any, name: str, does: Callable[[argparse.Namespace], int], told: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=told, description=told, epilog=CODES)
    made.set_defaults(does=does)
    made.add_argument("--json", action="store_true", help="the result as JSON")
    return made


def _add_shape(made: argparse.ArgumentParser, word: str, told: str) -> None:
    made.add_argument(word.lower(), metavar=word, help=told)
    made.add_argument(
        "extents",
        metavar="EXTENT=SIZE",
        nargs="*",
        help="such as M=8 N=1000, or sizes alone in the operator's order (default: the operator's own)",
    )
    made.add_argument("--suite", type=Path, help="declaration (default: what the pytest configuration here names)")
    made.add_argument("--dtype", choices=FLOATS, help="of the elements (default: the operator's)")
    made.add_argument("--gpu", choices=GPUS, help=f"GPU model (default: the one in this machine, else {DEFAULT_GPU})")


def _add_run(commands: Any) -> None:
    made = _command(commands, "run", run, "check a variant at a shape and time it on the GPU")
    _add_shape(made, "VARIANT", "a variant of the suite, such as n3")
    made.add_argument("--samples", type=_count, default=11, help="samples (%(default)s)")
    made.add_argument("--state", choices=STATES, default="cold", help="L2 before each sample (%(default)s)")


def _add_best(commands: Any) -> None:
    made = _command(commands, "best", best, "which variant to use for a shape on a GPU, and why")
    _add_shape(made, "OPERATOR", "an operator of the suite, such as softmax")


def _add_traffic(commands: Any) -> None:
    made = _command(commands, "traffic", traffic, "count in the simulator what a variant does at a shape; needs no GPU")
    _add_shape(made, "VARIANT", "a variant of the suite, such as n3")
    made.add_argument("--state", choices=STATES, default="cold", help="L2 before the launch (%(default)s)")


def _add_gate(commands: Any) -> None:
    made = _command(commands, "gate", compare, "compare two runs that pytest-benchmark saved")
    made.add_argument("baseline", type=Path, metavar="BASELINE.json")
    made.add_argument("run", type=Path, metavar="RUN.json")
    made.add_argument("--tolerance", default="5%", help="how much slower a median may be (default: 5%%)")
    made.add_argument("--other-gpu", action="store_true", help="a baseline of another GPU: compare by MBU only")
    made.add_argument("--partial", action="store_true", help="only a part was run: the rest of the baseline may lack")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} samples; at least 1")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; messages of errors go to standard error."""
    options = parse(sys.argv[1:] if argv is None else argv)
    try:
        check_cupy()
        return int(options.does(options))
    except WrongAnswerError as error:
        return _fail(error, WRONG)
    except RefusedError as error:
        return _fail(error, REFUSED)
    except DeviceError as error:
        code = _fail(error, NO_DEVICE)
        print("without a GPU: `traffic` counts and models, and pytest tests/correctness simulates", file=sys.stderr)
        return code
    except RooflineError as error:
        return _fail(error, USAGE)


def _fail(error: RooflineError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code


def _suite(options: argparse.Namespace) -> Suite:
    path = options.suite or declared_in(Path.cwd())
    if path is None:
        raise UnknownNameError("no suite is declared: name one with --suite, or as roofline_suite for pytest")
    return load(path)


def shape_of(suite: Suite, operator: Operator, words: Sequence[str], dtype: str | None) -> Shape:
    """The shape that was asked for: NAME=SIZE, or sizes in the operator's order; what is not named is the default's."""
    shape, extents = suite.default(operator), list(operator.extents)
    found: dict[str, int] = {}
    for place, word in enumerate(words):
        name, equals, size = word.rpartition("=")
        if not equals:
            if place >= len(extents):
                raise UnknownNameError(f"{operator.name} has extents {', '.join(extents)}; {word!r} is one too many")
            name = extents[place]
        if name not in extents:
            raise UnknownNameError(f"{operator.name} has no extent {name!r}; it has {', '.join(extents) or 'none'}")
        if not size.isdecimal() or int(size) < 1:
            raise UnknownNameError(f"{name} = {size!r} is no size; it is a whole number of at least 1")
        found[name] = int(size)
    return shape.replace(dtype=dtype or shape.dtype, **found)


def run(options: argparse.Namespace) -> int:
    """Check and time one case."""
    suite = _suite(options)
    variant = suite.variant(options.variant)
    case = Case(variant, shape_of(suite, variant.operator, options.extents, options.dtype), suite)
    devices = Devices("cuda" if options.gpu is None else "auto", options.gpu or DEFAULT_GPU)
    devices.require("run")
    clock = Measured(suite, devices.cuda, Models(devices.gpu))
    record, accuracy = clock.time(case, options.state, options.samples)
    return _print(options, record.extra_info(), text.timed(record, variant.title, accuracy))


def best(options: argparse.Namespace) -> int:
    """Which variant to use and why, and how it is launched."""
    suite = _suite(options)
    operator = suite.operator(options.operator)
    shape = shape_of(suite, operator, options.extents, options.dtype)
    devices = Devices("auto" if options.gpu is None else "sim", options.gpu or DEFAULT_GPU)
    choice = suite.best(operator.name, shape, devices.gpu)
    plan = Plan(Case(choice.variant, choice.shape, suite), choice.gpu)
    info = {"variant": choice.variant.name, "why": choice.why, "build_key": choice.build_key, "gpu": choice.gpu.name}
    launches = [dataclasses.asdict(launch) for launch in plan.launches]
    return _print(options, info | {"launches": launches}, text.chosen(choice, plan))


def traffic(options: argparse.Namespace) -> int:
    """What a case does, by source line and array, and its speed of light."""
    suite = _suite(options)
    variant = suite.variant(options.variant)
    case = Case(variant, shape_of(suite, variant.operator, options.extents, options.dtype), suite)
    gpu = gpu_named(options.gpu) if options.gpu else Devices().gpu
    models = Models(gpu)
    sol, accuracy = models.sol(case, options.state)
    record = Modelled(models).record(case, options.state)
    return _print(options, record.extra_info(), text.counted(sol, accuracy))


def compare(options: argparse.Namespace) -> int:
    """The gate on two saved runs."""
    tolerance = gate.parse_tolerance(options.tolerance)
    baseline, new = saved.load(options.baseline), saved.load(options.run)
    try:
        by_mbu = saved.check_same_gpu(new["machine_info"], baseline["machine_info"], options.other_gpu)
    except BaselineError as error:
        print(f"refused: {error}", file=sys.stderr)
        return WRONG
    current = saved.benchmarks_of(new["benchmarks"], "this run")
    found = gate.verdicts(current, saved.benchmarks_of(baseline["benchmarks"], "the baseline"), tolerance, by_mbu)
    bad = gate.failed(found, options.partial)
    nothing = gate.nothing_compared(found)
    told = f"gate passed (tolerance {options.tolerance})"
    if bad or nothing:
        told = f"gate FAILED: {len(bad)} of {len(found)}" if bad else "gate FAILED: no benchmark could be compared"
    info = {"passed": not bad and not nothing, "verdicts": [dataclasses.asdict(one) for one in found]}
    _print(options, info, [*gate.table(found), told])
    return WRONG if bad or nothing else RIGHT


def _print(options: argparse.Namespace, info: Any, lines: list[str]) -> int:
    print(json.dumps(info, indent=2) if options.json else "\n".join(lines))
    return RIGHT
