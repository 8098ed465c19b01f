"""Mutants: shipped sources with one known fault each, made by replacing text that must be there."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pytest_roofline.run.check import Job

from pytest_roofline import Shape, Suite, Variant
from pytest_roofline.build.nvrtc import Image, compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.hardware.gpus import Gpu, gpu
from pytest_roofline.run.arguments import check_parameters
from pytest_roofline.sanitize.report import FINDINGS
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import SimulationError
from pytest_roofline.sim.observe.traffic import Counts, by_buffer

REDUCE, ROW, VECTOR = "reduce.cuh", "../row.cuh", "vector.cuh"  # as the first file that includes them names them
NORM, SOFTMAX, LONG_SOFTMAX = "norm.cuh", "softmax.cuh", "long.cuh"
SHAPE = Shape(M=8, N=1000)  # 1000 = 3 * 256 + 232 leaves idle threads in the last trip, however the row is spread
H200 = gpu("h200")
Edit = tuple[str, str, str, int | None]
Answers = Callable[..., Any]  # the fixture of that name


@dataclass(frozen=True)
class Mutant:
    """``edits`` are (file, old, new, occurrence); file "" is the variant's own source. ``tool`` of the sanitizer."""

    name: str
    variant: str
    edits: tuple[Edit, ...]
    tool: str = "memcheck"

    def __str__(self) -> str:
        return f"{self.variant}-{self.name}"

    def source(self, suite: Suite, path: str = "") -> Source:
        source = Source.read(suite.root / (path or suite.variant(self.variant).source))
        for file, old, new, occurrence in self.edits:
            source = source.replaced(old, new, file, occurrence)
        return source

    def images(self, suite: Suite, on: Gpu, shape: Shape = SHAPE, volatile: bool = False) -> dict[str, Image]:
        """Images of all sources of the variant at ``shape``; an edit of a header applies to each of them."""
        variant = suite.variant(self.variant).at(shape, on)
        images = {}
        for launch in variant.launches:
            path = variant.source_of(launch)
            mutated = path == variant.source or bool(self.edits[0][0])
            source = self.source(suite, path) if mutated else Source.read(suite.root / path)
            source = source.with_volatile_shared() if volatile else source
            images[path] = compile_source(source, on.arch, defines=launch.defines)
        return images

    def assert_applies(self, suite: Suite, shape: Shape = SHAPE) -> None:
        """It differs from the shipped source by its edit, compiles, and takes the same parameters."""
        variant = suite.variant(self.variant).at(shape, H200)
        images = self.images(suite, H200, shape)
        assert self.source(suite) != Source.read(suite.root / variant.source)
        for launch in variant.launches:
            check_parameters(variant, launch, images[variant.source_of(launch)])


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


def counted_of_x(suite: Suite, variant: Variant, shape: Shape, mutant: Mutant | None = None) -> Counts:
    """What the simulator counts of the accesses to x, in ``variant`` as shipped or in the mutant."""
    device = SimDevice("h200")
    images: Mapping[str, Image] | None = mutant.images(suite, device.gpu, shape) if mutant else None
    Job(device, suite, variant, shape, images=images).run()
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
    report = sanitize(suite.variant(mutant.variant), "memcheck", SHAPE, images=mutant.images(suite, device.gpu))
    assert report.verdict == FINDINGS, str(report)
