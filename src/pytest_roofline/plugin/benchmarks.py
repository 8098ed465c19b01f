"""Benchmarks of a session through pytest-benchmark: verified, timed or modelled, counted by ncu, and predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..bench import ncu as counters
from ..bench.events import Series
from ..bench.modelled import floor_record, label
from ..bench.record import Value
from ..declare.suite import Shape, Variant, lacking
from ..errors import CountersError, DeviceError, NotCheckedError, RooflineError
from ..report import predictions as verdict
from ..run.check import Job, images_of
from ..run.device import NOT_CHECKED
from ..run.gpu.child import Counted

if TYPE_CHECKING:
    from .session import Session


@dataclass
class Benchmarks:
    """See the module. ``records`` holds (test id, extra_info) of each benchmark in the order they ran."""

    session: Session
    records: list[tuple[str, dict[str, Value]]] = field(default_factory=list)
    not_counted: str = ""  # why ncu counted nothing, where it was asked to

    def run(self, fixture: Any, variant: Variant, shape: Shape, state: str | None = None) -> dict[str, Value]:
        """Verify ``variant`` at ``shape``, then time it through pytest-benchmark's ``fixture``; returns the extra_info.

        The answer is checked before and after the timed rounds, and whatever goes wrong leaves no number. Without a GPU
        the time is the modelled floor, and the rows that were computed for it are checked.
        Errors: :class:`~pytest_roofline.errors.WrongAnswerError`, :class:`NotCheckedError` for what the gpu lacks.
        """
        state = state or self.session.settings.state
        gpu = self.session.gpu
        if missing := lacking(variant, shape, gpu):
            raise NotCheckedError(f"{variant.name} at {shape} needs {missing}; {gpu.name} is {gpu.arch}")
        if self.session.missing:
            return self._benchmark_modelled(fixture, variant, shape, state)
        job = Job(self.session.cuda, self.session.suite, variant, shape)
        job.run()
        accuracy = job.verify()
        if fixture.disabled:
            fixture.pedantic(job.run)
            return {}
        try:
            measurement = self.session.bench.measure(job, accuracy, state, partial(self._rounds, fixture, state))
        except BaseException:
            discard(fixture)
            self.records = [record for record in self.records if record[0] != fixture.fullname]
            raise
        fixture.extra_info.update(measurement.record() | self._floor(variant, shape, state, measurement.median))
        self.records.append((fixture.fullname, fixture.extra_info))
        return dict(fixture.extra_info)

    def _floor(self, variant: Variant, shape: Shape, state: str, seconds: float) -> dict[str, Value]:
        """The floor beside a measured time; None with the reason where it can't be modelled."""
        try:
            found, _ = self.session.models.floor(variant, shape, state)
        except RooflineError as error:
            return {"floor_us": None, "floor_us.reason": str(error).splitlines()[0], "floor_ratio": None}
        return floor_record(found) | {"floor_ratio": seconds / found.seconds}

    def _benchmark_modelled(self, fixture: Any, variant: Variant, shape: Shape, state: str) -> dict[str, Value]:
        model = self.session.models.model(variant, shape, state)
        self.session.floor_clock.take(fixture, model.floor.seconds)
        if fixture.disabled:
            return {}
        fixture.extra_info.update(model.record())
        self.records.append((fixture.fullname, fixture.extra_info))
        return dict(fixture.extra_info)

    def _rounds(self, fixture: Any, state: str, series: Series) -> list[float]:
        """Let pytest-benchmark take as many rounds as the precision asks for; the durations in seconds."""
        watch, settings = self.session.stopwatch, self.session.settings
        rounds = watch.rounds(series, state, settings.precision, settings.budget, settings.min_rounds)
        watch.timer.late = 0
        fixture.pedantic(lambda work: work(), setup=lambda: ((watch.prepare(series, state),), {}), rounds=rounds)
        return list(fixture.stats.stats.data)

    def count(self) -> None:
        """Run what was benchmarked once more under ncu, and add what it counts to the records.

        Where that can't be done the reason stands in the summary; with --roofline-require-gpu it is an error.
        """
        suite, records = self.session.settings.suite, [info for _, info in self.records]
        assert suite is not None
        try:
            cases = [self._counted(info) for info in records]
            found = counters.count(counters.find(), suite, cases, self.session.cuda.index) if cases else []
        except (CountersError, DeviceError) as error:
            if self.session.settings.require_gpu:
                raise
            self.not_counted = f"{NOT_CHECKED}: {error}"
            return
        for info, launches in zip(records, found, strict=True):
            info |= counters.record(launches, info)

    def _counted(self, info: Mapping[str, Value]) -> Counted:
        suite, gpu = self.session.suite, self.session.cuda
        variant = suite.variant(str(info["variant"]))
        shape = Shape(int(info["rows"] or 0), int(info["columns"] or 0), str(info["dtype"]))
        images = images_of(suite, variant.at(shape, gpu.gpu), gpu.arch)
        return Counted(variant, shape, str(info["state"]), images)

    def predictions(self) -> list[tuple[str, list[str]]]:
        """Title and lines of the verdicts, if there are any."""
        if not self.records:
            return []
        session, infos = self.session, [info for _, info in self.records]
        found = verdict.verdicts(session.suite, infos, session.models.reuses(), session.gpu.l2_bytes)
        lines = verdict.table(found)
        told = label(session.gpu) if session.missing else "measured"
        return [(f"roofline: predictions ({told})", lines)] if lines else []


def discard(fixture: Any) -> None:
    """Take a benchmark's samples back, so that neither pytest-benchmark's table nor its JSON shows a number."""
    fixture.has_error = True
    if fixture.stats is not None:
        fixture.stats.stats.data.clear()
