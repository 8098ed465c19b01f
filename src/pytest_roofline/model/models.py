"""Speeds of light of a suite's cases on one GPU model, each counted once for both states of the L2 cache."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..hardware.gpus import Gpu
from ..run.build import Build
from ..run.case import Case
from ..run.compare import Accuracy
from ..run.plan import Plan
from .facts import Facts
from .sol import SpeedOfLight, speed_of_light
from .work import Work, count


@dataclass
class Models:
    """See the module; ``gpu`` is what is modelled."""

    gpu: Gpu
    _builds: dict[Case, Build] = field(default_factory=dict)
    _counted: dict[Case, tuple[tuple[Work, ...], Accuracy]] = field(default_factory=dict)
    _found: dict[tuple[Case, str], SpeedOfLight] = field(default_factory=dict)

    def build(self, case: Case) -> Build:
        """The case planned and compiled for the GPU model."""
        if case not in self._builds:
            self._builds[case] = Build.of(Plan(case, self.gpu))
        return self._builds[case]

    def sol(self, case: Case, state: str) -> tuple[SpeedOfLight, Accuracy]:
        """The speed of light from a "cold" or a "warm" L2 cache, and the errors of what was computed for it.

        Errors: those of the chain and of :func:`pytest_roofline.model.work.count`.
        """
        build = self.build(case)
        if case not in self._counted:
            self._counted[case] = count(build)
        works, accuracy = self._counted[case]
        if (case, state) not in self._found:
            self._found[case, state] = speed_of_light(Facts(build), works, state)
        return self._found[case, state], accuracy

    def known(self, case: Case, state: str) -> SpeedOfLight | None:
        """The speed of light if it was modelled before."""
        return self._found.get((case, state))
