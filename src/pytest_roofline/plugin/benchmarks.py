"""The benchmarks of a session: their records, what ncu counts of them, and what was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..bench import ncu
from ..bench.clock import Clock
from ..bench.record import Record, Value
from ..declare.operator import Operator
from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Variant
from ..devices import Devices
from ..errors import CountersError, DeviceError
from ..model.facts import reuses
from ..report import predictions
from ..run.build import Build
from ..run.case import Case
from ..run.device import NOT_CHECKED
from ..run.gpu.child import Counted
from ..run.plan import Plan


def named(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A benchmark's parameters for tables, groups, file names and JSON: what a suite declares, by its short name."""
    return None if params is None else {name: _short(value) for name, value in params.items()}


def _short(value: Any) -> Any:
    if isinstance(value, tuple):
        return "-".join(str(_short(one)) for one in value)
    if isinstance(value, Case):
        return value.id
    return value.name if isinstance(value, Variant | Operator) else str(value) if isinstance(value, Shape) else value


def labelled(name: str | None, group: Sequence[Mapping[str, Any]]) -> str | None:
    """The name of a group of benchmarks, which says of modelled times that they are, whatever it is grouped by."""
    labels = dict.fromkeys(bench["extra_info"].get("label") for bench in group)
    missing = [label for label in labels if label and label not in (name or "")]
    return f"{name or 'all'}: {', '.join(missing)}" if missing else name


@dataclass
class Benchmarks:
    """``records`` by test id, in the order they ran; ``cases`` what they are of."""

    records: dict[str, Record] = field(default_factory=dict)
    cases: dict[str, Case] = field(default_factory=dict)
    infos: dict[str, dict[str, Value]] = field(default_factory=dict)  # pytest-benchmark's own, to be saved
    not_counted: str = ""  # why ncu counted nothing, where it was asked to

    def run(self, fixture: Any, clock: Clock, case: Case, state: str) -> Record | None:
        """One benchmark through pytest-benchmark's ``fixture``; its record, None where benchmarks are disabled."""
        fixture.params = named(fixture.params)
        try:
            record = clock.take(fixture, case, state)
        except BaseException:
            self.records.pop(fixture.fullname, None)
            raise
        if record is not None:
            fixture.extra_info.update(record.extra_info())
            self.records[fixture.fullname] = record
            self.cases[fixture.fullname] = case
            self.infos[fixture.fullname] = fixture.extra_info
        return record

    def count(self, suite: Suite, devices: Devices, required: bool) -> None:
        """Run what was benchmarked once more under ncu, and add what it counts to the records.

        Where that can't be done the reason stands in the summary; where a GPU is required it is an error.
        """
        names = list(self.records)
        try:
            gpu = devices.cuda
            cases = [Counted(Build.of(Plan(self.cases[name], gpu.gpu)), self.records[name].state) for name in names]
            found = ncu.count(ncu.find(), suite.file, cases, gpu.index) if cases else []
        except (CountersError, DeviceError) as error:
            if required:
                raise
            self.not_counted = f"{NOT_CHECKED}: {error}"
            return
        for name, launches in zip(names, found, strict=True):
            self.records[name] = ncu.counted(self.records[name], launches)
            self.infos[name].update(self.records[name].extra_info())

    def predictions(self, suite: Suite, devices: Devices) -> list[str]:
        """Lines of the verdicts on predictions, if there are any."""
        if not self.records or not any(variant.predictions for variant in suite):
            return []
        gpu = devices.gpu
        known = {(c.variant.name, c.shape): reuses(Build.of(Plan(c, gpu))) for c in self.cases.values()}
        return predictions.table(predictions.verdicts(suite, list(self.records.values()), known, gpu.l2_bytes))
