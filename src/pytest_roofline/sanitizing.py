"""Sanitizer checks of a session: simulated, and on a GPU machine by compute-sanitizer too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .check import images_of
from .compile import Image
from .device import SIMULATED
from .errors import CompileError, SanitizerNotFoundError, UnknownNameError
from .gpu import sanitizer
from .gpu.child import ChildJob, rung_job
from .gpu.sanitizer_report import CLEAN, FINDINGS, Report
from .ladder import Rung, Shape, lacking
from .simulated import agreed

if TYPE_CHECKING:
    from .session import Session

VOLATILE = "volatile shared memory"
Call = tuple[Rung, str, Shape, bool, Mapping[str, Image] | None]


@dataclass(frozen=True)
class Sanitizing:
    """See the module."""

    session: Session

    def check(
        self,
        rung: Rung,
        which: str,
        shape: Shape,
        volatile: bool = False,
        images: Mapping[str, Image] | None = None,
    ) -> Report:
        """The check ``which`` of ``rung``: simulated, and on a GPU machine by compute-sanitizer too.

        ``images`` replace the rung's own sources.
        Errors: :class:`~pytest_roofline.simulated.DisagreementError` if the two come to different verdicts,
        :class:`UnknownNameError` for a check that there is not, :class:`CompileError` for the plain build,
        :class:`SanitizerNotFoundError` on a GPU machine without the tool, unless the simulator found something.
        """
        if which not in sanitizer.FLAGS:
            raise UnknownNameError(f"compute-sanitizer has no tool {which!r}; it has {', '.join(sanitizer.FLAGS)}")
        note = VOLATILE if volatile else ""
        device = self.session.device_for(rung, shape)
        rung = rung.at(shape, device.card)
        try:
            images = images or images_of(self.session.ladder, rung, device.arch, volatile)
        except CompileError as error:
            if not volatile:
                raise
            return sanitizer.does_not_compile(which, f"{rung.name} {shape}", error)
        simulated = self.session.simulated.check(which, rung, shape, images, device.card)
        if simulated.verdict == CLEAN:
            self.session.warnings |= dict.fromkeys(str(finding) for finding in simulated.findings)
        if device.evidence == SIMULATED:
            return simulated
        try:
            tool = self.session.sanitizer
        except SanitizerNotFoundError:
            if simulated.verdict == FINDINGS:
                return simulated
            raise
        return agreed(tool.check(which, self._job(which, rung, shape, images, note)), simulated)

    def _job(self, which: str, rung: Rung, shape: Shape, images: Mapping[str, Image], note: str = "") -> ChildJob:
        assert self.session.settings.ladder is not None
        verify = which == "memcheck"  # the other tools slow a kernel down, and one answer is enough
        return rung_job(self.session.settings.ladder, rung, shape, images, self.session.gpu.index, verify, note)

    @contextmanager
    def ahead(self, calls: Iterable[Call]) -> Iterator[None]:
        """compute-sanitizer in the background for ``calls`` of :meth:`check`, with the arguments of each in order.

        Nothing at all where only the simulator checks. What was not asked for in the end is dropped.
        """
        try:
            tool = None if self.session.missing else self.session.sanitizer
        except SanitizerNotFoundError:
            tool = None
        if tool is None:
            yield
            return
        jobs, gpu = [], self.session.gpu
        for rung, which, shape, volatile, images in calls:
            if lacking(rung, shape, gpu.card):
                continue
            with suppress(CompileError):  # check() says so
                made = images or images_of(self.session.ladder, rung.at(shape, gpu.card), gpu.arch, volatile)
                jobs.append((which, self._job(which, rung, shape, made, VOLATILE if volatile else "")))
        tool.start(jobs)
        try:
            yield
        finally:
            tool.stop()
