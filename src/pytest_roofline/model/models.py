"""Speeds of light of a suite's cases on one GPU model, each counted once for both states of the L2 cache, and kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..build.cache import Store, store
from ..errors import RooflineError
from ..hardware.gpus import Gpu
from ..run.build import Build
from ..run.case import Case
from ..run.compare import Accuracy
from ..run.plan import Plan
from . import kept
from .count import Counted, count
from .facts import Facts
from .sol import SpeedOfLight, speed_of_light


@dataclass
class Models:
    """See the module; ``gpu`` is what is modelled, ``store`` where counts are kept, by default on disk."""

    gpu: Gpu
    store: Store = field(default_factory=store)
    _builds: dict[Case, Build] = field(default_factory=dict)
    _keys: dict[Case, str] = field(default_factory=dict)
    _counted: dict[Case, Counted] = field(default_factory=dict)
    _found: dict[tuple[Case, str], SpeedOfLight] = field(default_factory=dict)

    def build(self, case: Case) -> Build:
        """The case planned and compiled for the GPU model."""
        if case not in self._builds:
            self._builds[case] = Build.of(Plan(case, self.gpu))
        return self._builds[case]

    def sol(self, case: Case, state: str) -> tuple[SpeedOfLight, Accuracy]:
        """The speed of light from a "cold" or a "warm" L2 cache, and the errors of what was computed for it.

        Errors: those of the chain and of :func:`pytest_roofline.model.count.count`.
        """
        counted = self._count(case)
        if (case, state) not in self._found:
            self._found[case, state] = self._modelled(case, state, counted)
        return self._found[case, state], counted.accuracy

    def known(self, case: Case, state: str) -> SpeedOfLight | None:
        """The speed of light if it was modelled before."""
        return self._found.get((case, state))

    def _count(self, case: Case) -> Counted:
        if case not in self._counted:
            build = self.build(case)
            key = self._keys[case] = kept.key_of(build)
            counted = self._kept(build, key)
            if counted is None:
                counted = count(build)
                self.store.put(key, kept.counted_to_json(counted, kept.verdict_of(build, counted)))
            self._counted[case] = counted
        return self._counted[case]

    def _kept(self, build: Build, key: str) -> Counted | None:
        """The count from the store, where today's reference says of the answer what it said then."""
        data = self.store.get(key)
        if data is None:
            return None
        try:
            counted, verdict = kept.counted_from_json(data)
            return counted if kept.verdict_of(build, counted) == verdict else None
        except RooflineError:
            return None  # the count says what is wrong

    def _modelled(self, case: Case, state: str, counted: Counted) -> SpeedOfLight:
        facts, key = Facts(self.build(case)), f"{self._keys[case]}-{state}"
        data = self.store.get(key)
        if data is not None:
            return SpeedOfLight(facts, state, kept.launches_from_json(data, counted.works))
        found = speed_of_light(facts, counted.works, state)
        self.store.put(key, kept.launches_to_json(found.launches))
        return found
