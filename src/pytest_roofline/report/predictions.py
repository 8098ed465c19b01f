"""Predictions held against what was measured or modelled: a report, never a failure.

Each declared prediction gets a value, a verdict ("holds", "fails", "metric not valid" or "not checked") and, where it
fails, the reason that the traffic shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..bench.record import Record
from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Prediction, Variant
from ..model.facts import OVER_PEAK, Reuse
from ..run.device import MEASURED, NOT_CHECKED

HOLDS, FAILS, NOT_VALID = "holds", "fails", "metric not valid"
SLOW = 100 / 1.5  # percent of its speed of light: under it something else than the ceilings binds a variant
NEEDS = {  # what would give a verdict
    "speedup": "only a measured time can tell",
    "mbu": "it was not measured",
    "dram": "only what ncu counts can tell (--roofline-counters)",
}
SIGNIFICANT = 0.5  # bytes an element by which DRAM moves less than the code requests before that is a reason
Reuses = Mapping[tuple[str, Shape], Sequence[Reuse]]  # of a variant at a shape


@dataclass(frozen=True)
class Verdict:
    """One prediction of a variant at a shape; ``value`` is None where there is none, ``reason`` says why it fails."""

    variant: str
    shape: Shape
    prediction: Prediction
    value: float | None
    verdict: str
    reason: str


def verdicts(suite: Suite, records: Sequence[Record], reuses: Reuses, l2_bytes: int) -> list[Verdict]:
    """Of every prediction for whose variant and shape there is a record.

    ``reuses`` are the repeated reads of each variant at each shape on the GPU, whose L2 cache has ``l2_bytes``.
    """
    by_case = {(record.variant, shape_of(record)): record for record in records}
    found = []
    for variant in suite:
        for prediction in variant.predictions:
            for shape in suite.workload(prediction.workload, variant.operator):
                record = by_case.get((variant.name, shape))
                if record is not None:
                    other = by_case.get((prediction.than, shape))
                    more = {name: reuses.get((name, shape), ()) for name in (variant.name, prediction.than)}
                    found.append(judge(variant, shape, prediction, record, other, more, l2_bytes))
    return found


def shape_of(record: Record) -> Shape:
    """The shape that a record is of."""
    return Shape(dtype=record.dtype, **record.extents)


def judge(
    variant: Variant,
    shape: Shape,
    prediction: Prediction,
    record: Record,
    other: Record | None,
    reuses: Mapping[str, Sequence[Reuse]],
    l2_bytes: int,
) -> Verdict:
    """Hold one prediction against the records of the variant and of the ``other`` one it is compared with."""
    value = value_of(prediction, record, other)
    if value is None:
        absent = prediction.quantity == "speedup" and other is None
        needs = f"no record of {prediction.than}" if absent else NEEDS[prediction.quantity]
        return Verdict(variant.name, shape, prediction, None, NOT_CHECKED, needs)
    if prediction.quantity == "mbu" and OVER_PEAK in record.notes:
        why = _served(record, reuses[variant.name], l2_bytes)
        return Verdict(variant.name, shape, prediction, value, NOT_VALID, why)
    if prediction.low <= round(value, 2) <= prediction.high:
        return Verdict(variant.name, shape, prediction, value, HOLDS, "")
    return Verdict(variant.name, shape, prediction, value, FAILS, reason(prediction, record, other, reuses, l2_bytes))


def value_of(prediction: Prediction, record: Record, other: Record | None) -> float | None:
    """The predicted quantity; None where it is not known."""
    measured = record.evidence == MEASURED
    if prediction.quantity == "speedup":
        known = measured or not prediction.needs_gpu
        if other is None or not known or not other.median_us or not record.median_us:
            return None
        return other.median_us / record.median_us
    if prediction.quantity == "mbu":
        return record.mbu_percent if measured else None
    counted = record.dram_per_element
    return record.model_dram_per_element if counted is None and not prediction.needs_gpu else counted


def reason(
    prediction: Prediction,
    record: Record,
    other: Record | None,
    reuses: Mapping[str, Sequence[Reuse]],
    l2_bytes: int,
) -> str:
    """Why a prediction failed, as far as traffic and grid show it."""
    told = []
    for one in (other, record):
        if one is not None and (served := _served(one, reuses[one.variant], l2_bytes)):
            told.append(served)
    if prediction.quantity == "dram":
        return "; ".join(dict.fromkeys(told)) or "nothing in the reuse explains it"
    if record.waves is not None and record.waves < 1:
        told.append(f"the grid is {record.waves:.2g} of a wave, so bytes do not decide")
    timed = [one for one in (record, other) if one is not None and one.sol_percent]
    slow = min(timed, key=lambda one: one.sol_percent or 0.0, default=None)
    if slow is not None and (slow.sol_percent or 100) < SLOW:
        told.append(
            f"{slow.variant} reaches {slow.sol_percent:.0f} % of its speed of light ({slow.sol_bound}): latency or "
            "instructions bind it, not bytes"
        )
    return "; ".join(dict.fromkeys(told)) or "nothing in the traffic explains it"


def _served(record: Record, reuses: Sequence[Reuse], l2_bytes: int) -> str:
    """That L2 served repeated reads, where DRAM moves less than the code requests for it."""
    moved, requested = record.model_dram_per_element, record.bytes_per_element or 0.0
    close = [reuse for reuse in reuses if reuse.distance_bytes <= l2_bytes]
    if not close or moved is None or moved > requested - SIGNIFICANT:
        return ""
    where = ", ".join(f"{r.array} {r.where} at a reuse distance of {r.distance_bytes / 1e6:.1f} MB" for r in close)
    return (
        f"{record.variant}: L2 ({l2_bytes / 2**20:.0f} MiB) serves the repeated read of {where}; DRAM moves "
        f"{moved:.1f} bytes an element of the {requested:g} requested"
    )


def what(prediction: Prediction) -> str:
    """What is predicted, in words and its unit."""
    than = f"speed-up over {prediction.than}"
    return {"speedup": than, "mbu": "MBU in %", "dram": "DRAM bytes an element"}[prediction.quantity]


def table(found: Sequence[Verdict]) -> list[str]:
    """Two lines a prediction: what, value and verdict; why it was expected, and why it failed."""
    lines = []
    for one in found:
        p = one.prediction
        value = "-" if one.value is None else f"{one.value:.2f}"
        said = f"{what(p)} {value}, predicted {p.low:g} to {p.high:g}: {p.why}"
        lines.append(f"{one.verdict:<16} {one.variant} {one.shape}: {said}")
        if one.reason:
            lines.append(f"{'':<16} {one.reason}")
    return lines
