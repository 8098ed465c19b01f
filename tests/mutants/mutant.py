"""Mutants of the shipped kernels, and what sees them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from pytest_roofline import Shape, Suite
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run
from pytest_roofline.sanitize.report import FINDINGS
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import SimulationError
from pytest_roofline.sim.observe.traffic import Counts, by_buffer
from pytest_roofline.testing.mutants import Edit, Mutant

# Headers as the first file that includes them names them.
REDUCE, ROW, VECTOR = "reduce.cuh", "../common/row.cuh", "vector.cuh"
NORM, SOFTMAX, LONG_SOFTMAX = "norm.cuh", "softmax.cuh", "long.cuh"
SHAPE = Shape(M=8, N=1000)  # 1000 = 3 * 256 + 232 leaves idle threads in the last trip, whatever the row layout
H200 = gpu_named("h200")
Answers = Callable[..., Any]  # the fixture of that name


def assert_applies(mutant: Mutant, suite: Suite, shape: Shape = SHAPE) -> None:
    """It differs from the shipped source by its edit, compiles, and takes the same parameters."""
    shipped = Mutant("shipped", mutant.variant, ())
    assert mutant.source(suite) != shipped.source(suite)
    assert mutant.build(suite, H200, shape).launches


def simulate(suite: Suite, mutant: Mutant, shape: Shape = SHAPE, device: SimDevice | None = None, **how: Any) -> Run:
    """The mutant, run once on a simulated device."""
    device = device or SimDevice("h200")
    run = Run(device, mutant.build(suite, device.gpu, shape, **how))
    run.run()
    return run


def one(name: str, variant: str, old: str, new: str, file: str = "", occurrence: int | None = None) -> Mutant:
    return Mutant(name, variant, ((file, old, new, occurrence),))


def everywhere(name: str, variant: str, old: str, new: str, times: int, file: str = "") -> Mutant:
    """Each of the ``times`` occurrences replaced; ``new`` does not contain ``old``."""
    first: Edit = (file, old, new, 0)
    return Mutant(name, variant, ((file, old, new, times - 1), *(first,) * (times - 1)))


def over(mutants: Iterable[Mutant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mutant", list(mutants), ids=str)


def constant(value: float, columns: int = 2048) -> dict[str, np.ndarray]:
    return {"x": np.full((2, columns), value, np.float32)}


def rising(columns: int = 4096) -> dict[str, np.ndarray]:
    return {"x": (np.float32(0.02) * np.arange(columns, dtype=np.float32))[None, :].repeat(2, axis=0)}


def counted_of_x(suite: Suite, variant: str, shape: Shape, mutant: Mutant | None = None) -> Counts:
    """What the simulator counts of the accesses to x, in ``variant`` as shipped or in the mutant."""
    device = SimDevice("h200")
    plan = Plan(Case(suite.variant(variant), shape, suite), device.gpu)
    Run(device, mutant.build(suite, device.gpu, shape) if mutant else Build.of(plan)).run()
    buffers = by_buffer(device.take_launches())
    (found,) = [counts for name, counts in buffers.items() if name.startswith("argument 0 of ")]
    return found


def only_a_negative_constant_sees(answers: Answers, mutant: Mutant, columns: int = 2048) -> None:
    """Uniform inputs can't see a maximum that starts at 0; a row of -2.45e5 can."""
    answers(mutant, Shape(M=8, N=columns))
    with pytest.raises(WrongAnswerError):
        answers(mutant, Shape(M=2, N=columns), constant(-2.45e5, columns))


def only_rising_rows_see(answers: Answers, mutant: Mutant) -> None:
    """Constant input passes, whose maximum is everywhere the same; rising rows fail."""
    answers(mutant, Shape(M=2, N=2048), constant(1.5))
    with pytest.raises(WrongAnswerError):
        answers(mutant, Shape(M=2, N=4096), rising())


def only_minus_infinity_sees(answers: Answers, mutant: Mutant, columns: int = 1000) -> None:
    """Ordinary rows pass; in a row all -inf what should count for nothing is its maximum or sum, and the row no NaN."""
    answers(mutant, Shape(M=8, N=columns))
    with pytest.raises(WrongAnswerError, match="want nan"):
        answers(mutant, Shape(M=2, N=columns), constant(-math.inf, columns))


def answers_or_memcheck_see(answers: Answers, mutant: Mutant, suite: Suite, device: Any, sanitize: Any) -> None:
    """With idle threads in the last trip the answers are wrong, or memcheck sees the access."""
    with contextlib.suppress(SimulationError):  # what it found is asked for below
        try:
            answers(mutant, SHAPE)
        except WrongAnswerError:
            return
    report = sanitize(mutant.variant, "memcheck", SHAPE, images=mutant.images(suite, device.gpu, SHAPE))
    assert report.verdict == FINDINGS, str(report)
