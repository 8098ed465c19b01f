"""Sanitizer checks of a session: simulated, and on a GPU machine by compute-sanitizer too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..build.nvrtc import Image
from ..declare.suite import Shape, Variant, lacking
from ..errors import CompileError, SanitizerNotFoundError, UnknownNameError
from ..run.check import images_of
from ..run.device import SIMULATED
from ..run.gpu.child import ChildJob, variant_job
from . import compute_sanitizer as sanitizer
from .report import CLEAN, FINDINGS, Report
from .simulated import agreed

if TYPE_CHECKING:
    from ..plugin.session import Session

VOLATILE = "volatile shared memory"
Call = tuple[Variant, str, Shape, bool, Mapping[str, Image] | None]


@dataclass(frozen=True)
class Sanitizing:
    """See the module."""

    session: Session

    def check(
        self,
        variant: Variant,
        which: str,
        shape: Shape,
        volatile: bool = False,
        images: Mapping[str, Image] | None = None,
    ) -> Report:
        """The check ``which`` of ``variant``: simulated, and on a GPU machine by compute-sanitizer too.

        ``images`` replace the variant's own sources.
        Errors: :class:`~pytest_roofline.sanitize.simulated.DisagreementError` if the two come to different verdicts,
        :class:`UnknownNameError` for a check that there is not, :class:`CompileError` for the plain build,
        :class:`SanitizerNotFoundError` on a GPU machine without the tool, unless the simulator found something.
        """
        if which not in sanitizer.FLAGS:
            raise UnknownNameError(f"compute-sanitizer has no tool {which!r}; it has {', '.join(sanitizer.FLAGS)}")
        note = VOLATILE if volatile else ""
        device = self.session.device_for(variant, shape)
        variant = variant.at(shape, device.gpu)
        try:
            images = images or images_of(self.session.suite, variant, device.arch, volatile)
        except CompileError as error:
            if not volatile:
                raise
            return sanitizer.does_not_compile(which, f"{variant.name} {shape}", error)
        simulated = self.session.simulated.check(which, variant, shape, images, device.gpu)
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
        return agreed(tool.check(which, self._job(which, variant, shape, images, note)), simulated)

    def _job(self, which: str, variant: Variant, shape: Shape, images: Mapping[str, Image], note: str = "") -> ChildJob:
        assert self.session.settings.suite is not None
        verify = which == "memcheck"  # the other tools slow a kernel down, and one answer is enough
        return variant_job(self.session.settings.suite, variant, shape, images, self.session.cuda.index, verify, note)

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
        jobs, gpu = [], self.session.cuda
        for variant, which, shape, volatile, images in calls:
            if lacking(variant, shape, gpu.gpu):
                continue
            with suppress(CompileError):  # check() says so
                made = images or images_of(self.session.suite, variant.at(shape, gpu.gpu), gpu.arch, volatile)
                jobs.append((which, self._job(which, variant, shape, made, VOLATILE if volatile else "")))
        tool.start(jobs)
        try:
            yield
        finally:
            tool.stop()
