"""Compares a run with a saved baseline and says which benchmarks fail.

Nothing that could not be compared passes: a benchmark without a baseline, one that was not run and a median that
is no positive number are verdicts of their own, and all of them fail. Times are in seconds, MBU in percent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..bench.record import Record
from ..errors import BaselineError, UnknownNameError
from ..run.device import SIMULATED
from .saved import Benchmark, positive

TOLERANCE = 0.05
# Seconds; less is no difference. Two runs of one build differed by up to 0.4 us in variants of 3 to 9 us on an H200
# (2026-11-29): the driver's queue decides that and not the kernel.
RESOLUTION = 0.5e-6
# Worst first. "slower" leads: it is the one verdict that names a regression, the others say why there is none.
STATUSES = ("slower", "no baseline", "not comparable", "not run", "not valid", "ok", "faster")
FAILING = ("slower", "no baseline", "not comparable", "not run")


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


def conditions(record: Record) -> dict[str, object]:
    """What must be equal on both sides: a warm run beats any cold baseline and would hide a regression."""
    return {
        "evidence": record.evidence,
        "state": record.state,
        "operator": record.operator,
        "variant": record.variant,
        "shape": record.shape,
        "extents": dict(record.extents),
        "dtype": record.dtype,
    }


def verdicts(
    current: Sequence[Benchmark], baseline: Sequence[Benchmark], tolerance: float = TOLERANCE, by_mbu: bool = False
) -> list[Verdict]:
    """One verdict for each benchmark of either side, worst first.

    A median is slower if it exceeds the baseline's by more than the fraction ``tolerance`` and by more than
    RESOLUTION; with ``by_mbu`` the share of peak takes the place of the time.
    Between modelled times, which are exact, every difference of more than ``tolerance`` counts.
    Two records that differ in one of :func:`conditions` are not comparable.
    Errors: :class:`BaselineError` if a side is empty, since a comparison of nothing must not pass.
    """
    for side, found in (("this run", current), ("the baseline", baseline)):
        if not found:
            raise BaselineError(f"{side} holds no benchmark, so there is nothing to compare; run the perf tests first")
    if not 0 <= tolerance < 1:
        raise UnknownNameError(f"tolerance {tolerance!r} is refused; it is a fraction, at least 0 and below 1")
    now, then = _by_name(current), _by_name(baseline)
    told = [_verdict(name, now.get(name, []), then.get(name, []), tolerance, by_mbu) for name in {**now, **then}]
    return sorted(told, key=_badness)


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


def _by_name(benchmarks: Iterable[Benchmark]) -> dict[str, list[Benchmark]]:
    groups: dict[str, list[Benchmark]] = {}
    for benchmark in benchmarks:
        groups.setdefault(benchmark.fullname, []).append(benchmark)
    return groups


def _verdict(name: str, now: list[Benchmark], then: list[Benchmark], tolerance: float, by_mbu: bool) -> Verdict:
    (new, wrong), (old, wrong_then) = _value(now, by_mbu), _value(then, by_mbu)
    problems = [f"this run {wrong}"] if wrong else []
    problems += [f"the baseline {wrong_then}"] if wrong_then else []
    ours, theirs = (side[0].record if side else None for side in (now, then))
    if ours and theirs:
        problems += _other_conditions(ours, theirs)
    if problems:
        return Verdict(name, "not comparable", new, old, None, "; ".join(problems))
    if old is None:
        text = f"{_show(new, by_mbu)} now, and no baseline has this name (new, or renamed?); save a new baseline"
        return Verdict(name, "no baseline", new, None, None, text)
    if new is None:
        text = f"{_show(old, by_mbu)} in the baseline, not run now (removed, renamed, skipped or failed?)"
        return Verdict(name, "not run", None, old, None, text)
    assert ours
    assert theirs
    if by_mbu and False in (ours.metric_valid, theirs.metric_valid):
        return Verdict(name, "not valid", new, old, None, "MBU is marked as not valid: GPUs can't be compared by it")
    # MBU falls as time grows: turned over, one tolerance means the same for both
    slow, fast = (old, new) if by_mbu else (new, old)
    change = slow / fast - 1
    least = RESOLUTION if ours.evidence != SIMULATED and not by_mbu else 0.0
    differs = abs(slow - fast) > max(least, tolerance * min(slow, fast))
    status = ("slower" if slow > fast else "faster") if differs else "ok"
    text = f"{_show(new, by_mbu)}, was {_show(old, by_mbu)}: {abs(change):.1%} {'slower' if change > 0 else 'faster'}"
    return Verdict(name, status, new, old, change, text)


def _value(benchmarks: list[Benchmark], by_mbu: bool) -> tuple[float | None, str]:
    """The number that is compared, and what is wrong with it ("" if nothing)."""
    if not benchmarks:
        return None, ""
    if len(benchmarks) > 1:
        return None, f"has {len(benchmarks)} benchmarks of this name"
    (one,) = benchmarks
    if one.record is None or not by_mbu:
        return one.median, one.problem
    if one.record.mbu_percent is None:
        return None, "has no mbu_percent"
    return positive(one.record.mbu_percent, "mbu_percent")


def _other_conditions(now: Record, then: Record) -> list[str]:
    pairs = zip(conditions(now).items(), conditions(then).values(), strict=True)
    return [f"this run has {key} = {a!r} and the baseline {b!r}" for (key, a), b in pairs if a != b]


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
