"""The checks of compute-sanitizer by the simulator, and what becomes of the two where both can run."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import NotCheckedError, RooflineError
from ..hardware.gpus import Gpu
from ..run.build import Build
from ..run.device import NOT_CHECKED
from ..run.run import Run
from ..sim.device import SimDevice
from ..sim.observe import findings as sim
from .report import CLEAN, FINDINGS, Finding, Place, Report

# Which of the simulator's kinds each tool of compute-sanitizer looks for.
KINDS = {
    "racecheck": (sim.RACE,),
    "memcheck": (sim.MEMORY, sim.TRAP),
    "initcheck": (sim.UNINITIALISED,),
    "synccheck": (sim.BARRIER, sim.CONVERGENCE, sim.STEPS),
}
BETWEEN_BLOCKS = "race between blocks"


class DisagreementError(RooflineError, AssertionError):
    """The simulator and compute-sanitizer came to different verdicts on one kernel; the message holds both reports."""


class Simulator:
    """Runs builds for their findings. One run answers all four checks, so it is kept.

    ``make`` gives a fresh device for each run: no variable of a module has been touched on it before.
    """

    def __init__(self, make: Callable[[Gpu], SimDevice]) -> None:
        self.make = make
        self._found: dict[object, tuple[sim.Finding, ...] | str] = {}

    def check(self, which: str, build: Build) -> Report:
        """What ``which`` would look for in ``build``."""
        plan = build.plan
        subject = f"{plan.case}, simulated (PTX of {plan.gpu.arch})"
        found = self._run(build)
        if isinstance(found, str):
            return Report(which, subject, NOT_CHECKED, found)
        chosen = [finding for finding in found if finding.kind in KINDS[which]]
        errors = sum(finding.severity == sim.ERROR for finding in chosen)
        hazards = any(finding.kind == sim.RACE and not finding.between_blocks for finding in chosen)
        return Report(
            which,
            subject,
            FINDINGS if errors or hazards else CLEAN,
            "",
            tuple(_translated(finding) for finding in chosen),
            displayed=len(chosen),
            errors=errors,
            warnings=len(chosen) - errors,
        )

    def _run(self, build: Build) -> tuple[sim.Finding, ...] | str:
        case = build.plan.case
        key = (case, build.plan.gpu, tuple(image.key for image in build.images.values()))
        if key not in self._found:
            try:
                found = dict.fromkeys(self._findings(build, reverse=False))
                if any(launch.cluster > 1 for launch in build.plan.launches):  # which block is first is luck
                    found |= dict.fromkeys(self._findings(build, reverse=True))
                self._found[key] = tuple(found)
            except NotCheckedError as error:
                self._found[key] = str(error)
        return self._found[key]

    def _findings(self, build: Build, reverse: bool) -> tuple[sim.Finding, ...]:
        device = self.make(build.plan.gpu)
        device.reverse = reverse or device.reverse
        Run(device, build, guard=0).run()
        return device.take_findings()


def _translated(finding: sim.Finding) -> Finding:
    places = []
    for place in finding.places:
        file, _, line = place.rpartition(":")
        mine = place == finding.place  # of the other side the message says what is known
        places.append(
            Place(
                access="",
                kernel=finding.kernel,
                file=file,
                line=int(line),
                thread=",".join(map(str, finding.thread)) if mine else "",
                block=",".join(map(str, finding.block)) if mine or not finding.between_blocks else "",
            )
        )
    kind = BETWEEN_BLOCKS if finding.between_blocks else finding.kind
    return Finding(kind, finding.severity, finding.message, tuple(places), finding.count, finding.kernel)


def agreed(real: Report, simulated: Report) -> Report:
    """The report that stands for both; :class:`DisagreementError` if one is clean and the other has findings.

    Races between blocks are the simulator's alone: racecheck looks at shared memory only.
    """
    alone = simulated.verdict == FINDINGS and all(finding.kind == BETWEEN_BLOCKS for finding in simulated.findings)
    if {real.verdict, simulated.verdict} == {CLEAN, FINDINGS} and not alone:
        raise DisagreementError(f"the simulator and compute-sanitizer disagree.\n{simulated}\n{real}")
    return simulated if simulated.verdict == FINDINGS and real.verdict != FINDINGS else real
