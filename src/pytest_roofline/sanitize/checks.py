"""Checks for races, memory, initialisation and barriers: simulated, and on a GPU machine by compute-sanitizer too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..build.nvrtc import Image
from ..build.source import Source
from ..devices import Devices
from ..errors import CompileError, NotCheckedError, RefusedError, SanitizerNotFoundError, UnknownNameError
from ..run.build import Build, compiled
from ..run.case import Case
from ..run.device import SIMULATED
from ..run.gpu.child import ChildJob, case_job
from ..run.plan import Plan
from . import compute_sanitizer as sanitizer
from .report import CLEAN, FINDINGS, Report
from .simulated import Simulator, agreed

VOLATILE = "volatile shared memory"
Call = tuple[Case, str, bool, Mapping[str, Image] | None]


@dataclass
class Checks:
    """The checks of a process. ``find`` gives compute-sanitizer, or :class:`SanitizerNotFoundError`."""

    devices: Devices
    find: Callable[[], sanitizer.Sanitizer]
    simulated: Simulator = field(init=False)

    def __post_init__(self) -> None:
        self.simulated = Simulator(self.devices.fresh_simulator)

    def check(
        self, case: Case, which: str, volatile: bool = False, images: Mapping[str, Image] | None = None
    ) -> Report:
        """The check ``which`` of ``case``: simulated, and on a GPU machine by compute-sanitizer too.

        ``images`` replace what the case's own sources compile to, ``volatile`` makes all shared memory volatile.
        Errors: :class:`~pytest_roofline.sanitize.simulated.DisagreementError` if the two come to different verdicts,
        :class:`UnknownNameError` for a check that there is not, :class:`CompileError` for the plain build,
        :class:`SanitizerNotFoundError` on a GPU machine without the tool, unless the simulator found something.
        """
        if which not in sanitizer.FLAGS:
            raise UnknownNameError(f"compute-sanitizer has no tool {which!r}; it has {', '.join(sanitizer.FLAGS)}")
        plan, device = self.devices.plan(case)
        try:
            build = Build(plan, images or images_of(plan, volatile))
        except CompileError as error:
            if not volatile:
                raise
            compiled(plan)  # or the error is not the volatile build's
            return sanitizer.does_not_compile(which, str(case), error)
        simulated = self.simulated.check(which, build)
        if simulated.verdict == CLEAN:
            self.devices.warnings |= dict.fromkeys(str(finding) for finding in simulated.findings)
        if device.evidence == SIMULATED:
            return simulated
        try:
            tool = self.find()
        except SanitizerNotFoundError:
            if simulated.verdict == FINDINGS:
                return simulated
            raise
        return agreed(tool.check(which, self._job(which, build, volatile)), simulated)

    def _job(self, which: str, build: Build, volatile: bool) -> ChildJob:
        suite = build.plan.case.suite
        if suite is None or not suite.file.is_file():
            raise NotCheckedError("compute-sanitizer watches a process that loads the suite from its file; it has none")
        verify = which == "memcheck"  # the other tools slow a kernel down, and one answer is enough
        return case_job(suite.file, build, self.devices.cuda.index, verify, VOLATILE if volatile else "")

    @contextmanager
    def ahead(self, calls: Iterable[Call]) -> Iterator[None]:
        """compute-sanitizer in the background for ``calls`` of :meth:`check`, with the arguments of each in order.

        Nothing at all where only the simulator checks. What was not asked for in the end is dropped.
        """
        tool = None
        if not self.devices.missing:
            with suppress(SanitizerNotFoundError):
                tool = self.find()
        if tool is None:
            yield
            return
        jobs = []
        for case, which, volatile, images in calls:
            with suppress(CompileError, NotCheckedError, RefusedError):  # check() says so
                plan = Plan(case, self.devices.cuda.gpu)
                build = Build(plan, images or images_of(plan, volatile))
                jobs.append((which, self._job(which, build, volatile)))
        tool.start(jobs)
        try:
            yield
        finally:
            tool.stop()


def images_of(plan: Plan, volatile: bool = False) -> dict[str, Image]:
    """Images of the plan's sources, with all shared memory volatile if asked for."""
    if not volatile:
        return compiled(plan)
    root = Path(plan.case.variant.root)
    return compiled(plan, edit={path: Source.read(root / path).with_volatile_shared() for path in plan.sources()})
