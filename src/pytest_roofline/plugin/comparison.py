"""Between pytest-benchmark's options and the gate: which baseline is compared with, and what the gate says."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..bench.record import Record
from ..errors import BaselineError, RooflineError, UnknownNameError
from ..report import gate, saved
from .parts import worker_number

DEFAULT_STORAGE = "file://./.benchmarks"
PARALLEL = (
    "times can't be measured under pytest-xdist: the workers would share the GPU and spoil each other's numbers. "
    "Run perf tests without -n (pytest tests/perf), or leave them out (-m 'not perf')"
)


def percent(text: str) -> float:
    """An option's "5%" as a fraction, above 0."""
    try:
        fraction = gate.parse_tolerance(text)
    except UnknownNameError:
        fraction = 0.0
    if fraction <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is refused; write a percentage above 0% and below 100%, such as 5%")
    return fraction


class Comparison:
    """The baseline of a run and, at its end, the gate's verdicts.

    ``tolerance`` is None without a gate. ``differences`` says in words how the machine differs from the baseline's.
    """

    def __init__(self, tolerance: float | None, other_gpu: bool) -> None:
        self.tolerance, self.other_gpu = tolerance, other_gpu
        self.baseline: list[saved.Benchmark] = []
        self.by_mbu = False
        self.differences = ""
        self.verdicts: list[gate.Verdict] = []
        self.failed: list[str] = []
        self.judged = False
        self.deselected: set[str] = set()
        self.asked: Callable[[str], bool] = lambda name: True

    def load(self, machine_info: dict[str, Any], compared: dict[str, Any]) -> None:
        """Take ``compared``, a saved run, as the baseline; :class:`BaselineError` if it is of another GPU.

        pytest-benchmark warns when anything in machine_info differs (host name, kernel release) and prints all of
        it: what matters for a kernel's time has been compared here, so the rest is made equal. A baseline of another
        GPU keeps its times to itself: they are taken out before pytest-benchmark can print them.
        """
        if self.baseline:
            raise BaselineError(
                "--benchmark-compare matches several saved runs; give one, for the gate compares with one baseline"
            )
        saved.check_form(compared, "the baseline")
        self.by_mbu = saved.check_same_gpu(machine_info, compared["machine_info"], self.other_gpu)
        self.baseline = saved.benchmarks_of(compared["benchmarks"], "the baseline")
        now, then = machine_info["roofline"], compared["machine_info"]["roofline"]
        self.differences = ", ".join(
            f"{key} {now.get(key)} (was {then.get(key)})"
            for key in sorted({*now, *then})
            if now.get(key) != then.get(key)
        )
        compared["machine_info"] = machine_info
        if self.by_mbu:
            compared["benchmarks"] = []

    def records(self) -> dict[str, Record]:
        """The saved records by test id."""
        return {one.fullname: one.record for one in self.baseline if one.record and not self.by_mbu}

    def conclude(self, records: Mapping[str, Record]) -> None:
        """Ask the gate. Without --roofline-gate the verdicts are shown only where GPUs differ, and never fail.

        A benchmark of the baseline that was not run is forgiven only where it was deselected, or its file left out.
        """
        if self.tolerance is None and not self.by_mbu:
            return
        self.judged = True
        current = [saved.Benchmark.of(name, one) for name, one in records.items()]
        try:
            tolerance = gate.TOLERANCE if self.tolerance is None else self.tolerance
            self.verdicts = gate.verdicts(current, self.baseline, tolerance, self.by_mbu)
        except BaselineError as error:
            self.failed = [str(error)] if self.tolerance is not None else []
            return
        if self.tolerance is not None:
            self.failed = [f"{v.fullname}: {v.status}" for v in gate.failed(self.verdicts) if not self._left_out(v)]
            if not self.failed and gate.nothing_compared(self.verdicts):
                self.failed = ["no benchmark could be compared"]

    def _left_out(self, verdict: gate.Verdict) -> bool:
        name = verdict.fullname
        return verdict.status == "not run" and (name in self.deselected or not self.asked(name))

    def lines(self) -> list[str]:
        """What the terminal shows of it."""
        if not self.judged:
            return [f"against the baseline: {self.differences}"] if self.differences else []
        shown = gate.table(self.verdicts) if self.verdicts else []
        if self.differences:
            shown.append(f"against the baseline: {self.differences}")
        if self.tolerance is None:
            return shown
        passed = f"gate passed (tolerance {self.tolerance:.1%})"
        return shown + ([f"gate FAILED: {why}" for why in self.failed] or [passed])


def check_options(option: Any) -> None:
    """Refuse combinations that could end green without a result."""
    if option.roofline_gate is not None and not option.benchmark_compare:
        raise UnknownNameError("--roofline-gate needs a baseline: add --benchmark-compare (and save one first)")
    parallel = getattr(option, "numprocesses", None) or getattr(option, "dist", "no") != "no"
    if (parallel or worker_number() is not None) and option.benchmark_only:
        raise RooflineError(PARALLEL)


class StopParallel:
    """A plugin for pytest-xdist's scheduling process: stops the run at the first perf test a worker refused."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and PARALLEL in str(report.longrepr):
            self.scheduler.shouldstop = PARALLEL


def storage_slug(gpu_name: str) -> str:
    """``gpu_name`` as a folder name: "NVIDIA H200" -> "NVIDIA-H200".

    Errors: :class:`BaselineError` if nothing of the name is left.
    """
    # no dot at either end: "..", and names that Windows cuts
    slug = re.sub(r"[^A-Za-z0-9._+]+", "-", gpu_name).strip("-.")
    if not slug:
        raise BaselineError(f"the GPU name {gpu_name!r} has no letter or digit to name a folder by")
    return slug


def default_storage(option: Any, root: Path, gpu: str) -> None:
    """Keep a folder of baselines for each GPU below .benchmarks/, unless --benchmark-storage says otherwise."""
    if option.benchmark_storage == DEFAULT_STORAGE:
        option.benchmark_storage = f"file://{root / '.benchmarks' / storage_slug(gpu)}"


def asked_for(config: Any) -> Callable[[str], bool]:
    """Whether the command line asks for a test id of the rootdir: by file, folder or id, and not by --ignore."""
    start = config.invocation_params.dir
    wanted = [
        (Path(os.path.normpath(start / path)), rest) for path, _, rest in (a.partition("::") for a in config.args)
    ]
    ignored = [Path(os.path.normpath(start / path)) for path in config.getoption("ignore") or ()]

    def asked(name: str) -> bool:
        path, _, rest = name.partition("::")
        places = {(config.rootpath / path), *(config.rootpath / path).parents}
        if places & {*ignored}:
            return False
        return any(
            place in places and (not one or rest == one or rest.startswith((one + "[", one + "::")))
            for place, one in wanted
        )

    return asked
