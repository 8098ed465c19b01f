"""Statistics and tables of a comparison. No GPU code here: times come in seconds, and lines go out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peer_shapes import OF_THE_FASTEST_PEER, PASSES, Case

COPY, OURS = "copy", "ours"


def middle(samples: Sequence[float]) -> float:
    """Mean of the middle half of ``samples``: as robust as the median, and finer than the clock's step (32 ns)."""
    kept = sorted(samples)[len(samples) // 4 : -(len(samples) // 4) or None]
    return statistics.fmean(kept)


@dataclass(frozen=True)
class Result:
    """What was found of one contender at one shape.

    ``medians`` are the middles of its blocks of samples, in seconds, one a run; without any, ``state`` ("absent",
    "wrong", "late", "failed") and ``reason`` say why. ``mark`` qualifies a time that stands. In seconds too: ``spin``,
    and ``ready``, which is how long it took until it could be timed.
    """

    name: str
    medians: tuple[float, ...] = ()
    state: str = ""
    reason: str = ""
    mark: str = ""
    spin: float = 0.0
    ready: float = 0.0

    @property
    def seconds(self) -> float | None:
        """The median over the runs."""
        return statistics.median(self.medians) if self.medians else None


@dataclass(frozen=True)
class Row:
    """All contenders at one shape. ``variant`` is the one that "ours" stands for, and ``why`` it was chosen."""

    case: Case
    variant: str
    why: str
    results: tuple[Result, ...]
    samples: int = 0
    places: int = 0
    own: frozenset[str] = field(default_factory=frozenset)  # names of other variants of this project

    def result(self, name: str) -> Result:
        return next((one for one in self.results if one.name == name), Result(name, state="absent", reason="not run"))

    def speed(self, name: str) -> float | None:
        """Speed of ``name`` over ours; None where one of them has no time."""
        ours, other = self.result(OURS).seconds, self.result(name).seconds
        return ours / other if ours and other else None

    def fastest_peer(self) -> Result | None:
        """The fastest of those that are neither the copy nor this project's own."""
        peers = [one for one in self.results if one.medians and one.name not in {COPY, OURS, *self.own}]
        return min(peers, key=lambda one: statistics.median(one.medians)) if peers else None

    def complaints(self) -> list[str]:
        """What this project promises and this row does not show; empty if all is kept."""
        ours = self.result(OURS)
        if ours.seconds is None:
            return [f"ours ({self.variant}) has no time at {self.case}: {ours.state}, {ours.reason}"]
        broken = [one for one in self.results if one.name in self.own and one.state]
        found = [f"{one.name} has no time at {self.case}: {one.state}, {one.reason}" for one in broken]
        fastest = self.fastest_peer()
        if fastest is not None and fastest.seconds is not None:
            found += self._behind(ours.seconds, fastest, OF_THE_FASTEST_PEER, "the fastest peer")
        for one in self.results:
            if one.name in self.own and one.seconds is not None:
                found += self._behind(ours.seconds, one, self.case.least_of_own, "the variant of two launches")
        least = self.case.least_of_copy(self._copy_is_passed())
        if least is not None:
            found += self._behind(ours.seconds, self.result(COPY), least, "the copy")
        return found

    def _copy_is_passed(self) -> bool:
        copy, peer = self.result(COPY).seconds, self.result(PASSES).seconds
        return copy is not None and peer is not None and peer < copy

    def _behind(self, ours: float, other: Result, least: float, what: str) -> list[str]:
        if other.seconds is None:
            return [f"{what} has no time at {self.case}: {other.state}, {other.reason}"]
        share = other.seconds / ours
        if share >= least:
            return []
        return [
            f"ours ({self.variant}) takes {ours * 1e6:.2f} us at {self.case}, "
            f"{other.name} {other.seconds * 1e6:.2f} us: "
            f"{share:.3f} of the speed of {what}, promised is {least}"
        ]


def columns(rows: Sequence[Row]) -> list[str]:
    """Names of all contenders: the copy, ours, then the others as they first appear."""
    return list(dict.fromkeys([COPY, OURS, *(one.name for row in rows for one in row.results)]))


def cell(row: Row, name: str) -> str:
    """Median in us and the speed relative to ours; a word where there is no time."""
    result = row.result(name)
    if result.seconds is None:
        return result.state or "-"
    speed = row.speed(name)
    relative = "" if name == OURS or speed is None else f" {speed:.3f}"
    return f"{result.seconds * 1e6:.2f}{relative}" + ("*" if result.mark else "")


def _cells(rows: Sequence[Row]) -> list[list[str]]:
    names = columns(rows)
    head = ["shape", "variant", *(f"{name} us" for name in names)]
    return [head, *([str(row.case), row.variant, *(cell(row, name) for name in names)] for row in rows)]


def remarks(rows: Sequence[Row]) -> list[str]:
    """Why a contender has no time, or a mark: each reason once, with the shapes it was given at."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for one in row.results:
            if said := f"{one.state}: {one.reason}" if one.state else one.mark and f"* {one.mark}":
                reasons.setdefault((one.name, said), []).append(str(row.case))
    return [
        f"{name} {said} (at {'every shape' if len(at) == len(rows) else ', '.join(at)})"
        for (name, said), at in reasons.items()
    ]


LEGEND = (
    "median over the runs of the mean of the middle half of each block, in us, then the speed relative to ours "
    "(above 1: faster than ours); "
    "* the time stands, and the answer is qualified below"
)


def lines(rows: Sequence[Row]) -> list[str]:
    """The table for the terminal."""
    cells = _cells(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells]
    return [*table, LEGEND, *remarks(rows), *(text for row in rows for text in row.complaints())]


def _markdown_table(cells: Sequence[Sequence[str]]) -> list[str]:
    head, *body = ["| " + " | ".join(line) + " |" for line in cells]
    return [head, "|" + "---|" * len(cells[0]), *body]


def markdown(rows: Sequence[Row], about: Mapping[str, Any]) -> str:
    """The same table in Markdown, then every figure: medians, least and greatest over the runs, spin."""
    detail = [["shape", "contender", "median us", "min", "max", "of ours' speed", "of the copy's speed", "remark"]]
    for row in rows:
        copy = row.result(COPY).seconds
        for one in row.results:
            if one.seconds is None:
                detail.append([str(row.case), one.name, "-", "-", "-", "-", "-", f"{one.state}: {one.reason}"])
                continue
            figures = [f"{1e6 * t:.2f}" for t in (one.seconds, min(one.medians), max(one.medians))]
            share = f"{copy / one.seconds:.3f}" if copy else "-"
            detail.append([str(row.case), one.name, *figures, f"{row.speed(one.name) or 0:.3f}", share, one.mark])
    told = [f"- {name}: {value}" for name, value in about.items()]
    text = [*told, "", *_markdown_table(_cells(rows)), "", LEGEND + ".", ""]
    text += [f"- {said}" for said in remarks(rows)]
    text += ["", "<details><summary>Every figure</summary>", "", *_markdown_table(detail), "", "</details>", ""]
    return "\n".join(text)


def as_json(rows: Sequence[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    """All figures; times in seconds, a number that there is not as null."""
    return {"about": dict(about), "rows": [_row_json(row) for row in rows]}


def _row_json(row: Row) -> dict[str, Any]:
    copy = row.result(COPY).seconds
    contenders = [
        {
            "name": one.name,
            "seconds": one.seconds,
            "least": min(one.medians, default=None),
            "greatest": max(one.medians, default=None),
            "medians": list(one.medians),
            "speed_over_ours": row.speed(one.name),
            "speed_over_copy": copy / one.seconds if copy and one.seconds else None,
            "spin_seconds": one.spin or None,
            "ready_seconds": one.ready,
            "state": one.state,
            "reason": one.reason,
            "mark": one.mark,
        }
        for one in row.results
    ]
    case = row.case
    return {
        "case": str(case),
        "operator": case.operator,
        "dtype": case.dtype,
        "rows": case.rows,
        "columns": case.columns,
        "variant": row.variant,
        "why": row.why,
        "samples_a_block": row.samples,
        "places": row.places,
        "contenders": contenders,
        "complaints": row.complaints(),
    }
