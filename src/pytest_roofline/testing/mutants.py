"""Mutants: a variant with one known fault each, made by replacing text of its source that must be there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..build.image import Image
from ..build.source import Source
from ..declare.shape import Shape
from ..declare.suite import Suite
from ..hardware.gpus import Gpu
from ..run.build import Build, compiled
from ..run.case import Case
from ..run.plan import Plan

Edit = tuple[str, str, str, int | None]  # file ("" for the variant's own), old text, new text, which occurrence


@dataclass(frozen=True)
class Mutant:
    """``edits`` of the sources of ``variant``; a header is named as the file that includes it first names it.

    ``tool`` is the check of compute-sanitizer that is to find it, where one is.
    """

    name: str
    variant: str
    edits: tuple[Edit, ...]
    tool: str = "memcheck"

    def __str__(self) -> str:
        return f"{self.variant}-{self.name}"

    def source(self, suite: Suite, path: str = "") -> Source:
        """The edited source; :class:`~pytest_roofline.errors.CompileError` for an edit that does not apply."""
        source = Source.read(Path(suite.root) / (path or suite.variant(self.variant).source))
        for file, old, new, occurrence in self.edits:
            source = source.replaced(old, new, file, occurrence)
        return source

    def plan(self, suite: Suite, gpu: Gpu, shape: Shape) -> Plan:
        return Plan(Case(suite.variant(self.variant), shape, suite), gpu)

    def images(self, suite: Suite, gpu: Gpu, shape: Shape, volatile: bool = False) -> dict[str, Image]:
        """Images of all sources of the variant; an edit of a header applies to each of them."""
        plan, variant = self.plan(suite, gpu, shape), suite.variant(self.variant)
        edited = {}
        for path in plan.sources():
            mutated = path == variant.source or bool(self.edits[0][0])
            source = self.source(suite, path) if mutated else Source.read(Path(suite.root) / path)
            edited[path] = source.with_volatile_shared() if volatile else source
        return compiled(plan, edit=edited)

    def build(self, suite: Suite, gpu: Gpu, shape: Shape, volatile: bool = False) -> Build:
        """The mutant built: it takes the same parameters as the variant, or this is an error."""
        return Build(self.plan(suite, gpu, shape), self.images(suite, gpu, shape, volatile))
