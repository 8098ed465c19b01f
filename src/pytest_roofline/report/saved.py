"""Runs that pytest-benchmark saved: read, and held against each other before anything of them is compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..bench.record import Record
from ..errors import BaselineError
from ..run.device import MEASURED, SIMULATED

EVIDENCE = (MEASURED, SIMULATED)
OTHER_GPU = "--roofline-other-gpu"
OURS = ("evidence", "variant")  # keys of which a benchmark of this plugin has one at least, however damaged


@dataclass(frozen=True)
class Benchmark:
    """One benchmark of a run. ``median`` is in seconds, None where there is no usable one; ``problem`` says why.

    ``record`` is None where it can't be read; then there is a problem too.
    """

    fullname: str
    median: float | None
    record: Record | None
    problem: str = ""

    @classmethod
    def of(cls, fullname: str, record: Record) -> Benchmark:
        """What this process benchmarked."""
        if record.median_us is None:
            return cls(fullname, None, record, "has no median")
        return cls(fullname, record.median_us * 1e-6, record)


def benchmarks_of(saved: Iterable[Any], side: str) -> list[Benchmark]:
    """The plugin's benchmarks among the "benchmarks" of pytest-benchmark's JSON; those of others are left out.

    Errors: :class:`BaselineError` for one without a name: it could neither be matched nor missed.
    """
    found = []
    for index, one in enumerate(saved):
        name = one.get("fullname") if isinstance(one, Mapping) else None
        if not isinstance(name, str) or not name:
            raise BaselineError(f"benchmark {index} of {side} has no 'fullname': pytest-benchmark did not write it")
        info = one.get("extra_info", {})
        if not isinstance(info, Mapping) or {*OURS} & {*info}:
            found.append(_read(name, one))
    return found


def _read(name: str, saved: Mapping[str, Any]) -> Benchmark:
    median, problem = _median(saved.get("stats"))
    try:
        record = Record.read(saved.get("extra_info"))
    except BaselineError as error:
        return Benchmark(name, median, None, str(error))
    return Benchmark(name, median, record, problem)


def _median(stats: Any) -> tuple[float | None, str]:
    value = stats.get("median") if isinstance(stats, Mapping) else None
    if value is None:
        return None, "has no stats['median']"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, f"has stats['median'] = {value!r}, which is no number"
    return positive(value, "stats['median']")


def positive(value: float, what: str) -> tuple[float | None, str]:
    """``value`` where it is finite and above 0, or what is wrong with it."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number <= 0:
        return None, f"has {what} = {number!r}, which is not finite and positive"
    return number, ""


def machine_gpu(machine_info: Any) -> str | None:
    """The GPU that ``machine_info`` of a saved run names ("NVIDIA H200"), None where this plugin wrote none."""
    gpu = _section(machine_info).get("gpu")
    return gpu if isinstance(gpu, str) and gpu.strip() else None


def check_same_gpu(current_machine_info: Any, baseline_machine_info: Any, allow_other_gpu: bool = False) -> bool:
    """Whether the runs may be compared by MBU only: False on the same GPU, True on another that was asked for.

    Errors: :class:`BaselineError` where one side names no GPU or does not say whether it was measured or
    simulated, where the sides differ in that, or where the GPUs differ and ``allow_other_gpu`` is off.
    """
    now, kind = _gpu_and_evidence("this run", current_machine_info)
    then, other_kind = _gpu_and_evidence("the baseline", baseline_machine_info)
    if kind != other_kind:
        raise BaselineError(
            f"this run was {kind} ({now}) and the baseline {other_kind} ({then}): "
            "a modelled bound and a measurement are not compared; take a baseline of the same kind"
        )
    if now == then:
        return False
    if kind == SIMULATED:
        raise BaselineError(
            f"this run is modelled for {now} and the baseline for {then}: times of different GPUs are not compared; "
            f"take --roofline-gpu of the baseline's GPU, or save a baseline for {now}"
        )
    if not allow_other_gpu:
        raise BaselineError(
            f"this run is from {now} and the baseline from {then}: times on different GPUs are not compared. "
            f"Save a baseline on {now}, or compare by MBU only with {OTHER_GPU} (--other-gpu of the gate's "
            "command line)"
        )
    return True


def _gpu_and_evidence(side: str, info: Any) -> tuple[str, str]:
    """What a run is of and whether it was measured; :class:`BaselineError` where ``info`` does not say so."""
    gpu, kind = machine_gpu(info), _section(info).get("evidence")
    if gpu is None:
        raise BaselineError(
            f"{side} does not name its GPU (no machine_info['roofline']['gpu']), so its times can't be compared; "
            "save it again with pytest-roofline active"
        )
    if kind not in EVIDENCE:
        raise BaselineError(
            f"{side} ({gpu}) says evidence {kind!r}, allowed are {', '.join(EVIDENCE)}; "
            "save it again with pytest-roofline active"
        )
    return gpu, str(kind)


def load(path: Path) -> dict[str, Any]:
    """A file that pytest-benchmark saved, its form checked as far as the gate relies on it.

    Errors: :class:`BaselineError` with the path if it can't be read, is no JSON, or lacks what a run must have.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(f"can't read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path} is no JSON ({error}); a run that was stopped leaves half a file") from error
    check_form(data, str(path))
    return cast(dict[str, Any], data)


def check_form(data: Any, where: str) -> None:
    """Raise :class:`BaselineError` unless ``data`` has what the gate relies on in a run that pytest-benchmark saved."""
    if not isinstance(data, dict):
        raise BaselineError(f"{where} holds a {type(data).__name__}, not what --benchmark-json or a save writes")
    for key, kind in (("machine_info", dict), ("benchmarks", list)):
        if not isinstance(data.get(key), kind):
            raise BaselineError(f"{where} has no {key!r} (a {kind.__name__}): pytest-benchmark did not write it")
    if not data["benchmarks"]:
        raise BaselineError(f"{where} holds no benchmark; nothing ran, or it was saved with --benchmark-disable")
    benchmarks_of(data["benchmarks"], where)


def _section(machine_info: Any) -> Mapping[str, Any]:
    section = machine_info.get("roofline") if isinstance(machine_info, Mapping) else None
    return section if isinstance(section, Mapping) else {}
