"""The clock of a machine without a GPU: the speed of light in place of a time, so labelled."""

from __future__ import annotations

from typing import Any

from ..errors import RooflineError
from ..hardware.gpus import Gpu
from ..model.models import Models
from ..run.case import Case
from ..run.device import SIMULATED
from ..run.plan import planned
from .clock import require_state
from .describe import described, with_baseline, with_sol
from .record import Record


def label(gpu: Gpu) -> str:
    """What every place that shows a modelled time says beside it."""
    return f"speed of light on {gpu.name}, modelled, not measured"


class Modelled:
    """A :class:`~pytest_roofline.bench.clock.Clock` whose times are the model's."""

    evidence = SIMULATED

    def __init__(self, models: Models) -> None:
        self.models, self.label = models, label(models.gpu)
        self.now = 0.0

        def modelled_speed_of_light() -> float:
            return self.now

        self.timer = modelled_speed_of_light

    def take(self, fixture: Any, case: Case, state: str) -> Record | None:
        record = self.record(case, state)
        self._pass(fixture, self.models.sol(case, state)[0].seconds)
        return None if fixture.disabled else record

    def record(self, case: Case, state: str) -> Record:
        """The record of a case, with the speed of light for its time."""
        sol, accuracy = self.models.sol(case, require_state(state))
        build = self.models.build(case)
        record = described(build, state, accuracy).replace(evidence=self.evidence, label=self.label)
        record = with_sol(record, build.plan, sol).replace(median_us=sol.seconds * 1e6)
        base = baseline_of(case)
        plan = planned(base.variant, base.shape, self.models.gpu) if base else None
        record = with_baseline(record, case.suite, build.plan, plan)
        if base == case:
            return record.replace(speedup=1.0)
        known = self.models.known(base, state) if base else None
        return record.replace(speedup=known.seconds / sol.seconds if known else None)

    def _pass(self, fixture: Any, seconds: float) -> None:
        """One round of ``fixture`` that lasts ``seconds`` to the bit."""

        def reset() -> None:
            self.now = 0.0

        def pass_by() -> None:
            self.now = seconds

        fixture.pedantic(pass_by, setup=reset, rounds=1)
        self.now = 0.0


def baseline_of(case: Case) -> Case | None:
    """The operator's first variant at the same shape; None where it can't run it, or the suite is not known."""
    if case.suite is None:
        return None
    try:
        return Case(case.suite.baseline(case.variant), case.shape, case.suite)
    except RooflineError:
        return None
