"""One shape, all contenders: checked, timed alternately with the plugin's stopwatch, and checked again.

The turns are interleaved: in each run every contender takes one block of samples, in an order that rotates from run to
run. Sample i of every block uses place i, the L2 is flushed before it, and the device is busy when it is queued.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from peer_contenders import PEERS, Call
from peer_places import Place, Places
from peer_shapes import Case
from peer_table import COPY, OURS, Result, Row, middle

from pytest_roofline import Shape, Suite
from pytest_roofline.bench.events import BLOCKING_NS, Stopwatch, Work
from pytest_roofline.declare.values import reference, scalars_at
from pytest_roofline.errors import RooflineError, WrongAnswerError
from pytest_roofline.hardware.dtypes import as_stored, ordinals
from pytest_roofline.run.arguments import bind
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case as Planned
from pytest_roofline.run.gpu.device import CudaDevice
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run
from pytest_roofline.run.sample import pick

RUNS = 5
BUDGET = 0.7  # seconds of samples a shape, all contenders together
FEWEST, MOST = 5, 41  # samples of a block
WARM = 2  # untimed samples before each block
TRIALS = 7  # samples by which a variant is chosen
LONGEST_BLOCKING = 5_000_000  # ns
RETRIES = 3  # times the samples of a block, after which a host that is late stays late
DIFFERENT = 251  # rows of the inputs that differ: prime, and few enough that the host makes them quickly
LOOSE = 4  # units in the last place up to which an answer in 16 bits has a note and is not wrong


class LateError(RooflineError):
    """The host is slower than the longest blocking kernel: what would be timed is the host."""


@dataclass
class Contender:
    """``run`` queues the work at a place and returns its outputs; ``before`` makes the place ready, untimed."""

    name: str
    run: Callable[[Place], Any]
    before: Callable[[Place], None]
    blocking_ns: int = BLOCKING_NS
    medians: list[float] = field(default_factory=list)
    state: str = ""
    reason: str = ""
    note: str = ""
    checked: bool = True
    last: Any = None
    ready: float = 0.0  # seconds until it could be timed: imports, compiling, choosing variants, the first check

    def result(self) -> Result:
        times = () if self.state else tuple(self.medians)
        return Result(self.name, times, self.state, self.reason, self.note, self.blocking_ns * 1e-9, self.ready)

    def drop(self, state: str, error: BaseException | str) -> None:
        """Out of the race: ``state`` and the first line of the reason stand in the table."""
        said = str(error).strip().splitlines() or [""]
        kind = "" if isinstance(error, str | RooflineError) else f"{type(error).__name__}: "
        self.state, self.reason, self.last = state, f"{kind}{said[0][:200]}", None


class Turns:
    """The samples of one contender, each at the next place."""

    def __init__(self, one: Contender, places: list[Place]) -> None:
        self.one, self.turns = one, itertools.cycle(places)

    def __call__(self) -> Work:
        one, place = self.one, next(self.turns)
        one.last = None  # its memory is free again
        one.before(place)

        def work() -> None:
            one.last = one.run(place)

        return work

    def restore(self) -> None:
        """Nothing: no contender changes its inputs."""


class Arena:
    """All contenders at ``case``; :meth:`compare` makes the row of the table."""

    def __init__(self, device: CudaDevice, suite: Suite, watch: Stopwatch, case: Case) -> None:
        self.device, self.suite, self.watch, self.case = device, suite, watch, case
        operator = suite.operators[case.operator]
        shape = Shape(M=case.rows, N=case.columns, dtype=case.dtype)
        self.choice = suite.best(case.operator, shape, device.gpu)
        self.run = self._run(self.choice.variant, shape)
        self.places = Places(device, self.run)
        self.eps = scalars_at(operator, shape).get("eps", 0.0)
        self.contenders = [self._copy(), self._variant(self.choice.variant, OURS)]
        others = [r for r in suite.family(operator) if r.name != self.choice.variant.name]
        self.own = frozenset(r.name for r in others)
        if case.operator == "add_rmsnorm":
            able = [r for r in others if not r.broken_limit(shape)]
            self.contenders += [self._variant(variant, variant.name) for variant in able]

    def compare(self) -> Row:
        """Check, choose variants, time alternately, check again."""
        self.contenders += [Contender(peer.name, lambda place: None, self.places.poison) for peer in PEERS]
        calls = {peer.name: peer.calls for peer in PEERS}
        for one in self.contenders:
            begin = time.perf_counter()
            if one.name in calls:
                self._join(one, calls[one.name])
            self._guarded(one, self._make_ready)
            one.ready = time.perf_counter() - begin
        samples = self._samples()
        for turn in range(RUNS):
            racing = [one for one in self.contenders if not one.state]
            first = turn % len(racing) if racing else 0
            for one in racing[first:] + racing[:first]:
                self._guarded(one, lambda one: one.medians.append(middle(self._block(one, samples))))
                if turn == RUNS - 1:
                    self._guarded(one, self._verify)
                one.last = None
        results = tuple(one.result() for one in self.contenders)
        choice = self.choice
        return Row(self.case, choice.variant.name, choice.why, results, samples, len(self.places.places), self.own)

    def release(self) -> None:
        """Give the memory back, which the contenders hold too."""
        self.contenders = []
        self.places.release()
        del self.run
        gc.collect()
        self.device.release()

    def _copy(self) -> Contender:
        def run(place: Place) -> Any:
            source, target, nbytes = place.copied
            target.data.copy_from_device_async(source.data, nbytes)

        return Contender(COPY, run, lambda place: None, checked=False)

    def _variant(self, variant: Any, name: str) -> Contender:
        made = self.run
        if variant.name != self.choice.variant.name:
            made = self._run(variant, made.plan.shape)
        programs = [bind(self.device, made.build, place.arrays, made.scalars) for place in self.places.places]

        def run(place: Place) -> Any:
            programs[place.index].run()
            return place.arrays

        return Contender(name, run, self.places.poison)

    def _run(self, variant: Any, shape: Shape) -> Run:
        plan = Plan(Planned(variant, shape, self.suite), self.device.gpu)
        return Run(self.device, Build.of(plan), items=DIFFERENT)

    def _join(self, entered: Contender, calls: Callable[[int, float], Any]) -> None:
        """Give a peer its work, or the reason why it has none."""
        try:
            call: Call | None = calls(self.case.columns, self.eps).get(self.case.operator)
        except Exception as error:  # what a package raises that does not fit the machine is its own affair
            return entered.drop("absent", error)
        if call is None:
            return entered.drop("absent", f"has no {self.case.operator} for {self.case.columns} columns")
        if self.case.dtype not in call.dtypes:
            return entered.drop("absent", f"has no {self.case.operator} with an output in {self.case.dtype}")
        if call.allocates:
            entered.before = self.places.poison_next
        elif call.before is not None:
            prepare = call.before
            entered.before = lambda place: prepare(place.tensors)
        return self._choose(entered, call)

    def _choose(self, one: Contender, call: Call) -> None:
        """Take the fastest variant of ``call``: the first where there is one, the rest by a few samples."""
        times: dict[int, float] = {}
        runs = [lambda place, variant=variant: variant(place.tensors) for variant in call.variants]
        for number, run in enumerate(runs if len(runs) > 1 else []):
            one.run = run
            try:
                self._fit(one)
                times[number] = middle(self._block(one, TRIALS))
            except Exception as error:  # a variant may ask for more than the GPU has
                one.reason = f"{type(error).__name__}: {error}"
        one.last = None
        if len(runs) > 1 and not times:
            return one.drop("failed", one.reason)
        one.run, one.reason = runs[min(times, key=lambda number: times[number], default=0)], ""
        return None

    def _guarded(self, one: Contender, step: Callable[[Contender], Any]) -> None:
        """Do ``step``; what goes wrong with one contender stands in its cell and stops nobody else."""
        if one.state:
            return
        try:
            step(one)
        except WrongAnswerError as error:
            told = str(error).removeprefix(f"{self.run.plan.case}: ")  # the run's variant, not this one
            one.drop("wrong", told.replace("\n", "; "))
        except LateError as error:
            one.drop("late", error)
        except Exception as error:  # a peer's own errors are its own affair; ours are the test's to tell
            one.drop("failed", error)

    def _series(self, one: Contender) -> Turns:
        return Turns(one, self.places.places)

    def _make_ready(self, one: Contender) -> None:
        self._fit(one)
        self._verify(one)

    def _fit(self, one: Contender) -> None:
        """Compile, warm up, and make the blocking kernel as long as this contender's host code needs."""
        series = self._series(one)
        for _ in range(2):
            series()()
        self.device.synchronize()
        self.watch.fit_blocking(series)
        one.blocking_ns = min(self.watch.blocking_ns, LONGEST_BLOCKING)

    def _verify(self, one: Contender) -> None:
        """The outputs of the last run against the reference; in 16 bits a little too far off is a note."""
        if not one.checked:
            return
        outputs = self.places.as_cupy(self.device.cupy, one.last)
        try:
            self.run.verify(outputs=outputs)
        except WrongAnswerError as error:
            if self.case.dtype == "float32" or one.name in {OURS, *self.own}:
                raise
            worst = self._units(outputs)
            if worst > LOOSE:
                raise WrongAnswerError(f"{error} ({worst} units in the last place)") from None
            one.note = f"up to {worst} units in the last place off, over this project's tolerance"

    def _units(self, outputs: Any) -> int:
        """The largest error in units in the last place of the output's dtype, over the rows that are checked."""
        run, shape = self.run, self.run.plan.shape
        picked = pick(run.operator, shape)
        worst = 0
        for name, want in reference(run.operator, shape, run.inputs, run.scalars, picked).items():
            got = np.stack([self.device.download(outputs[name][row]) for row in picked.get("M", range(shape.M))])
            worst = max(worst, int(np.abs(ordinals(got) - ordinals(as_stored(want, got.dtype))).max()))
        return worst

    def _block(self, one: Contender, samples: int) -> list[float]:
        """``samples`` durations in seconds, none of them late; the blocking kernel grows where one is.

        Errors: :class:`LateError` if the host can't keep up.
        """
        watch, series = self.watch, self._series(one)
        for _ in range(WARM):
            series()()
        watch.blocking_ns, late = one.blocking_ns, 0
        taken: list[float] = []
        series = self._series(one)
        while len(taken) < samples:
            before = watch.timer.late
            seconds = watch.sample(series, "cold")
            if watch.timer.late == before:
                taken.append(seconds)
                continue
            late += 1
            watch.blocking_ns = one.blocking_ns = min(LONGEST_BLOCKING, watch.blocking_ns * 3 // 2)
            if late > RETRIES * samples:
                raise LateError(
                    f"the device waited for the host in {late} samples, behind {one.blocking_ns / 1e6:.1f} ms"
                )
        return taken

    def _samples(self) -> int:
        """Samples a block, the same for all, so that all see the same places, within the shape's budget."""
        racing = [one for one in self.contenders if not one.state]
        begin = time.perf_counter()
        for one in racing:
            self._guarded(one, lambda one: self._block(one, FEWEST))
            one.last = None
        wall = (time.perf_counter() - begin) / FEWEST  # of one sample of everybody
        return max(FEWEST, min(MOST, int(BUDGET / (RUNS * wall)) - WARM))


def about(device: CudaDevice, driver: str | None) -> dict[str, Any]:
    """What a table needs to be read: GPU, driver, versions, how often."""
    from peer_contenders import versions

    return {
        "gpu": device.gpu.name,
        "driver": driver or "unknown",
        "CuPy": device.versions["cupy"],
        **versions(),
        "runs": RUNS,
        "L2": "cold",
    }
