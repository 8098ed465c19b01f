"""Two ways to a benchmark's number behind one Protocol: measured on a GPU, or modelled without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..errors import UnknownNameError
from ..run.case import Case
from .record import Record

STATES = ("cold", "warm")  # of the L2 cache before each sample


def require_state(state: str) -> str:
    """``state``; :class:`UnknownNameError` where there is no such."""
    if state not in STATES:
        raise UnknownNameError(f"there is no state {state!r} of the L2 cache; choose from {', '.join(STATES)}")
    return state


class Clock(Protocol):
    """Chosen once for a session."""

    evidence: str  # "measured" or "simulated"
    label: str  # what every place that shows a modelled time says beside it; empty for a measured one
    timer: Callable[[], Any]  # what pytest-benchmark is given; its name is what a saved run shows

    def take(self, fixture: Any, case: Case, state: str) -> Record | None:
        """Check the answer, let pytest-benchmark's ``fixture`` have the samples, and describe them.

        None where benchmarks are disabled: then the answer was checked. Whatever goes wrong leaves no number.
        Errors: :class:`~pytest_roofline.errors.WrongAnswerError` and those of the chain.
        """


def discard(fixture: Any) -> None:
    """Take a benchmark's samples back, so that neither pytest-benchmark's table nor its JSON shows a number."""
    fixture.has_error = True
    if fixture.stats is not None:
        fixture.stats.stats.data.clear()
