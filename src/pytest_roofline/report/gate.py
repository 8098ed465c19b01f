"""Compares a run with a saved baseline and says which benchmarks fail. Pure functions over pytest-benchmark's JSON.

Nothing that could not be compared passes: a benchmark without a baseline, one that was not run and a median that
is no positive number are verdicts of their own, and all of them fail. Times are in seconds, MBU in percent.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..errors import BaselineError, UnknownNameError
from ..run.device import MEASURED, SIMULATED

TOLERANCE = 0.05
# Seconds; less is no difference. Two runs of one build differed by up to 0.4 us in variants of 3 to 9 us on an H200
# (2026-11-29): the driver's queue decides that and not the kernel.
RESOLUTION = 0.5e-6
EVIDENCE = (MEASURED, SIMULATED)
# Worst first. "slower" leads: it is the one verdict that names a regression, the others say why there is none.
STATUSES = ("slower", "no baseline", "not comparable", "not run", "not valid", "ok", "faster")
FAILING = ("slower", "no baseline", "not comparable", "not run")
OTHER_GPU = "--roofline-other-gpu"
# extra_info keys that must be equal on both sides: a warm run beats any cold baseline and would hide a regression
CONDITIONS = ("evidence", "state", "operator", "variant", "shape", "dtype")

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What became of one benchmark.

    ``now`` and ``then`` are medians in seconds, or MBU in percent where that was compared; None where there is no
    usable number. ``change`` is the fraction by which it got slower (0.1: ten per cent slower, negative: faster).
    """

    fullname: str
    status: str
    now: float | None
    then: float | None
    change: float | None
    text: str


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


def verdicts(
    current: Sequence[Record], baseline: Sequence[Record], tolerance: float = TOLERANCE, by_mbu: bool = False
) -> list[Verdict]:
    """One verdict for each benchmark of either side, worst first.

    ``current`` and ``baseline`` are the "benchmarks" of pytest-benchmark's JSON. A median is slower if it exceeds the
    baseline's by more than the fraction ``tolerance`` and by more than RESOLUTION; with ``by_mbu`` the share of peak
    takes the place of the time.
    Between modelled times, which are exact, every difference of more than ``tolerance`` counts.
    Two records whose ``extra_info`` differs in one of CONDITIONS are not comparable.
    Errors: :class:`BaselineError` if a side is empty, since a comparison of nothing must not pass, or if a record
    has no name.
    """
    for side, records in (("this run", current), ("the baseline", baseline)):
        if not records:
            raise BaselineError(f"{side} holds no benchmark, so there is nothing to compare; run the perf tests first")
    if not 0 <= tolerance < 1:
        raise UnknownNameError(f"tolerance {tolerance!r} is refused; it is a fraction, at least 0 and below 1")
    now, then = _by_name(current, "this run"), _by_name(baseline, "the baseline")
    found = [_verdict(name, now.get(name, []), then.get(name, []), tolerance, by_mbu) for name in {**now, **then}]
    return sorted(found, key=_badness)


def failed(found: Iterable[Verdict], partial: bool = False) -> list[Verdict]:
    """Those that fail the gate. ``partial``: only a part was selected on purpose, so "not run" does not fail."""
    return [v for v in found if v.status in FAILING and not (partial and v.status == "not run")]


def nothing_compared(found: Iterable[Verdict]) -> bool:
    """Whether no benchmark of either side could be held against its baseline; such a comparison must not pass."""
    return not any(v.status in ("ok", "faster", "slower") for v in found)


def table(found: Iterable[Verdict]) -> list[str]:
    """Plain text lines, worst first, and a last line with the count of each status."""
    rows = sorted(found, key=_badness)
    width = max(len(status) for status in STATUSES)
    counts = Counter(v.status for v in rows)
    total = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts[status])
    return [*(f"{v.status:<{width}}  {v.fullname}: {v.text}" for v in rows), f"{len(rows)} compared: {total or 'none'}"]


def parse_tolerance(text: str) -> float:
    """ "5%" -> 0.05. Errors: :class:`UnknownNameError` for anything but a percentage from 0 % to below 100 %."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text, re.ASCII)
    if match is None or not 0 <= float(match.group(1)) < 100:
        raise UnknownNameError(f"tolerance {text!r} is refused; write a percentage from 0% to below 100%, such as 5%")
    return float(match.group(1)) / 100


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
    try:
        _by_name(data["benchmarks"], where)
    except BaselineError as error:
        raise BaselineError(f"{error} (in {where})") from error


def _section(machine_info: Any) -> Mapping[str, Any]:
    section = machine_info.get("roofline") if isinstance(machine_info, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def _by_name(records: Iterable[Any], side: str) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for index, record in enumerate(records):
        name = record.get("fullname") if isinstance(record, Mapping) else None
        if not isinstance(name, str) or not name:
            raise BaselineError(f"benchmark {index} of {side} has no 'fullname': pytest-benchmark did not write it")
        groups.setdefault(name, []).append(record)
    return groups


def _verdict(name: str, now: list[Record], then: list[Record], tolerance: float, by_mbu: bool) -> Verdict:
    values: list[float | None] = []
    problems: list[str] = []
    for side, records in (("this run", now), ("the baseline", then)):
        value, problem = _value(records, by_mbu)
        values.append(value)
        problems += [f"{side} {problem}"] if problem else []
    if now and then:
        problems += _other_conditions(now[0], then[0])
    new, old = values
    if problems:
        return Verdict(name, "not comparable", new, old, None, "; ".join(problems))
    if not then:
        text = f"{_show(new, by_mbu)} now, and no baseline has this name (new, or renamed?); save a new baseline"
        return Verdict(name, "no baseline", new, None, None, text)
    if not now:
        text = f"{_show(old, by_mbu)} in the baseline, not run now (removed, renamed, skipped or failed?)"
        return Verdict(name, "not run", None, old, None, text)
    assert new is not None
    assert old is not None
    if by_mbu and not all(_info(side).get("metric_valid", True) for side in (now, then)):
        return Verdict(name, "not valid", new, old, None, "MBU is marked as not valid: GPUs can't be compared by it")
    # MBU falls as time grows: turned over, one tolerance means the same for both
    slow, fast = (old, new) if by_mbu else (new, old)
    change = slow / fast - 1
    measured = _info(now).get("evidence") != SIMULATED
    least = RESOLUTION if measured and not by_mbu else 0.0
    differs = abs(slow - fast) > max(least, tolerance * min(slow, fast))
    status = ("slower" if slow > fast else "faster") if differs else "ok"
    text = f"{_show(new, by_mbu)}, was {_show(old, by_mbu)}: {abs(change):.1%} {'slower' if change > 0 else 'faster'}"
    return Verdict(name, status, new, old, change, text)


def _info(records: list[Record]) -> Record:
    """The extra_info of the first record."""
    return cast(Record, records[0].get("extra_info") or {})


def _value(records: list[Record], by_mbu: bool) -> tuple[float | None, str]:
    """The number that is compared, and what is wrong with it ("" if nothing)."""
    if not records:
        return None, ""
    if len(records) > 1:
        return None, f"has {len(records)} benchmarks of this name"
    section, key = ("extra_info", "mbu_percent") if by_mbu else ("stats", "median")
    holder = records[0].get(section)
    value = holder.get(key) if isinstance(holder, Mapping) else None
    if value is None:
        return None, f"has no {section}[{key!r}]"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None, f"has {section}[{key!r}] = {value!r}, which is no number"
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number <= 0:
        return None, f"has {section}[{key!r}] = {number!r}, which is not finite and positive"
    return number, ""


def _other_conditions(now: Record, then: Record) -> list[str]:
    sides = [record.get("extra_info") for record in (now, then)]
    ours, theirs = (side if isinstance(side, Mapping) else {} for side in sides)
    return [
        f"this run has {key} = {ours.get(key)!r} and the baseline {theirs.get(key)!r}"
        for key in CONDITIONS
        if ours.get(key) != theirs.get(key)
    ]


def _show(value: float | None, by_mbu: bool) -> str:
    assert value is not None
    if by_mbu:
        return f"MBU {value:.1f} %"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.4g} {unit}"
    return f"{value * 1e9:.4g} ns"


def _badness(verdict: Verdict) -> tuple[int, float, str]:
    return STATUSES.index(verdict.status), -(verdict.change or 0.0), verdict.fullname
