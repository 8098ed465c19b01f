"""What the simulator found: each defect once per pair of source lines, with the first case and how often."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ..isa.site import Site

MEMORY, UNINITIALISED, RACE = "memory", "uninitialised", "race"
BARRIER, CONVERGENCE, STEPS, TRAP = "barrier", "convergence", "steps", "trap"
ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Finding:
    """One defect of ``kind``; ``places`` are the source lines that take part, ``count`` the threads that saw it.

    ``block`` and ``thread`` are those of the first case, which was at ``place``.
    """

    kind: str
    severity: str
    kernel: str
    message: str
    places: tuple[str, ...]
    lines: tuple[str, ...]
    block: tuple[int, ...]
    thread: tuple[int, ...]
    count: int = 1
    between_blocks: bool = False  # of a race: on global memory
    place: str = ""

    def __str__(self) -> str:
        where = f"block ({', '.join(map(str, self.block))}), thread ({', '.join(map(str, self.thread))})"
        times = f", {self.count} times" if self.count > 1 else ""
        severity = "" if self.severity == ERROR else f"{self.severity}: "
        return f"{severity}{self.kind} in {self.kernel}: {self.message} at {' and '.join(self.lines)}, {where}{times}"


@dataclass
class Findings:
    """Collects findings; the same kind at the same source lines counts as one."""

    found: dict[tuple[str, str, str, frozenset[str], bool], Finding] = field(default_factory=dict)

    def add(
        self,
        kind: str,
        message: str,
        sites: tuple[Site, ...],
        block: tuple[int, ...],
        thread: tuple[int, ...],
        count: int = 1,
        severity: str = ERROR,
        between_blocks: bool = False,
    ) -> None:
        places = frozenset(site.place for site in sites)
        key = (kind, severity, sites[0].kernel, places, between_blocks)
        if key in self.found:
            self.found[key] = dataclasses.replace(self.found[key], count=self.found[key].count + count)
            return
        lines = tuple(dict.fromkeys(str(site.loc) for site in sites))
        self.found[key] = Finding(
            kind,
            severity,
            sites[0].kernel,
            message,
            tuple(sorted(places)),
            lines,
            block,
            thread,
            count,
            between_blocks,
            sites[0].place,
        )

    def all(self) -> tuple[Finding, ...]:
        """What was found. A read of what nobody wrote yet, at a line that races, is that race seen in another order."""
        racing = {(f.kernel, place) for f in self.found.values() if f.kind == RACE for place in f.places}
        return tuple(
            f
            for f in self.found.values()
            if f.kind != UNINITIALISED or not {(f.kernel, place) for place in f.places} & racing
        )
