"""Predictions held against what was measured or modelled: a report, never a failure.

Each declared prediction gets a value, a verdict ("holds", "fails", "metric not valid" or "not checked") and, where it
fails, the reason that the traffic shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..declare.suite import Prediction, Shape, Suite, Variant
from ..model.facts import OVER_PEAK, Reuse
from ..run.device import MEASURED, NOT_CHECKED

HOLDS, FAILS, NOT_VALID = "holds", "fails", "metric not valid"
Info = Mapping[str, Any]
SLOW = 1.5  # times its floor: something else than the ceilings binds a variant
NEEDS = {  # what would give a verdict
    "speedup": "only a measured time can tell",
    "mbu": "it was not measured",
    "dram": "only what ncu counts can tell (--roofline-counters)",
}
SIGNIFICANT = 0.5  # multiples of N by which DRAM moves less than the ledger before that is a reason


@dataclass(frozen=True)
class Verdict:
    """One prediction of a variant at a shape; ``value`` is None where there is none, ``reason`` says why it fails."""

    variant: str
    shape: Shape
    prediction: Prediction
    value: float | None
    verdict: str
    reason: str


def verdicts(
    suite: Suite, records: Sequence[Info], reuses: Mapping[tuple[str, Shape], Sequence[Reuse]], l2_bytes: int
) -> list[Verdict]:
    """Of every prediction for whose variant and shape there is a record (extra_info of a benchmark).

    ``reuses`` are the repeated reads of each variant at each shape on the gpu, whose L2 cache has ``l2_bytes``.
    """
    by_case = {
        (info["variant"], Shape(info["rows"], info["columns"], info.get("dtype", "float32"))): info for info in records
    }
    found = []
    for variant in suite.variants:
        for prediction in variant.predictions:
            for shape in shapes_of(suite, variant, prediction):
                info = by_case.get((variant.name, shape))
                if info is not None:
                    other = by_case.get((prediction.than, shape))
                    more = {name: reuses.get((name, shape), ()) for name in (variant.name, prediction.than)}
                    found.append(judge(variant, shape, prediction, info, other, more, l2_bytes))
    return found


def shapes_of(suite: Suite, variant: Variant, prediction: Prediction) -> tuple[Shape, ...]:
    """The operator's shapes of the prediction's workload; of the first workload where it names none."""
    workload = next(
        (s for s in suite.workloads if s.name == prediction.workload), suite.workloads[0] if suite.workloads else None
    )
    return workload.shapes.get(variant.operator.name, ()) if workload else ()


def judge(
    variant: Variant,
    shape: Shape,
    prediction: Prediction,
    info: Info,
    other: Info | None,
    reuses: Mapping[str, Sequence[Reuse]],
    l2_bytes: int,
) -> Verdict:
    """Hold one prediction against the records of the variant (``info``) and of the one it is compared with."""
    value = value_of(prediction, info, other)
    if value is None:
        absent = prediction.quantity == "speedup" and other is None
        needs = f"no record of {prediction.than}" if absent else NEEDS[prediction.quantity]
        return Verdict(variant.name, shape, prediction, None, NOT_CHECKED, needs)
    if prediction.quantity == "mbu" and OVER_PEAK in str(info.get("marks")):
        return Verdict(variant.name, shape, prediction, value, NOT_VALID, _served(info, reuses[variant.name], l2_bytes))
    if prediction.low <= round(value, 2) <= prediction.high:
        return Verdict(variant.name, shape, prediction, value, HOLDS, "")
    return Verdict(variant.name, shape, prediction, value, FAILS, reason(prediction, info, other, reuses, l2_bytes))


def value_of(prediction: Prediction, info: Info, other: Info | None) -> float | None:
    """The predicted quantity; None where it is not known."""
    measured = info.get("evidence") == MEASURED
    if prediction.quantity == "speedup":
        known = other is not None and (measured or not prediction.needs_gpu)
        return other["median_us"] / info["median_us"] if other is not None and known else None
    if prediction.quantity == "mbu":
        return info.get("mbu_percent") if measured else None
    counted = info.get("dram_per_row_n")
    return info.get("model_dram_per_row_n") if counted is None and not prediction.needs_gpu else counted


def reason(
    prediction: Prediction,
    info: Info,
    other: Info | None,
    reuses: Mapping[str, Sequence[Reuse]],
    l2_bytes: int,
) -> str:
    """Why a prediction failed, as far as traffic and grid show it."""
    told = []
    for one in (other, info):
        if one is not None and (served := _served(one, reuses[one["variant"]], l2_bytes)):
            told.append(served)
    if prediction.quantity == "dram":
        return "; ".join(dict.fromkeys(told)) or "nothing in the reuse explains it"
    if (fill := info.get("grid_fill")) is not None and fill < 1:
        told.append(f"the grid fills {fill:.2g} of the gpu, so bytes do not decide")
    timed = [one for one in (info, other) if one and one.get("floor_ratio")]
    slow = max(timed, key=lambda one: one["floor_ratio"], default=None)
    if slow is not None and slow["floor_ratio"] > SLOW:
        told.append(
            f"{slow['variant']} takes {slow['floor_ratio']:.2f} times its floor ({slow['floor_bound']}): latency or "
            "instructions bind it, not bytes"
        )
    return "; ".join(dict.fromkeys(told)) or "nothing in the traffic explains it"


def _served(info: Info, reuses: Sequence[Reuse], l2_bytes: int) -> str:
    """That L2 served repeated reads, where DRAM moves less than the ledger for it."""
    moved, ledger = info.get("model_dram_per_row_n"), info["ledger_per_row_n"]
    close = [reuse for reuse in reuses if reuse.distance_bytes <= l2_bytes]
    if not close or moved is None or moved > ledger - SIGNIFICANT:
        return ""
    where = ", ".join(f"{r.array} {r.where} at a reuse distance of {r.distance_bytes / 1e6:.1f} MB" for r in close)
    return (
        f"{info['variant']}: L2 ({l2_bytes / 2**20:.0f} MiB) serves the repeated read of {where}; DRAM moves {moved:.1f}N "
        f"of the ledger's {ledger:g}N"
    )


def what(prediction: Prediction) -> str:
    """What is predicted, in words and its unit."""
    than = f"speed-up over {prediction.than}"
    return {"speedup": than, "mbu": "MBU in %", "dram": "DRAM bytes a row, in N"}[prediction.quantity]


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
