"""The first link of the chain: a variant at a shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from ..declare.shape import Shape
from ..declare.suite import Suite
from ..declare.variant import Variant
from ..errors import RefusedError


@dataclass(frozen=True)
class Case:
    """A variant at a shape that its limits allow; extents stand in the operator's order.

    With ``suite`` a refusal names the variants that run the shape.
    Errors: :class:`RefusedError` for a shape that breaks a limit, :class:`DeclarationError` for one with other extents.
    """

    variant: Variant
    shape: Shape
    suite: Suite | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        shape = self.variant.operator.require(self.shape)
        object.__setattr__(self, "shape", shape)
        if why := self.variant.broken_limit(shape):
            raise RefusedError(
                f"{self.variant.name} can't run {shape} ({shape.words()}), nothing was launched: {why}{self.others()}"
            )

    def others(self, runs: Callable[[Variant], bool] = lambda variant: True) -> str:
        """A sentence on who can run it, of those that ``runs`` says so of; empty where the suite is not known."""
        if self.suite is None:
            return ""
        operator = self.variant.operator
        others = [one for one in self.suite.able(operator, self.shape) if one.name != self.variant.name]
        able = [one.name for one in others if runs(one)]
        return f". Variants of {operator.name} that run it: {', '.join(able)}" if able else ". No variant runs it"

    @property
    def id(self) -> str:
        """Short and the same in every run: "n3-8x1000"."""
        return f"{self.variant.name}-{self.shape}"

    def __str__(self) -> str:
        return f"{self.variant.name} {self.shape}"

    def at(self, shape: Shape) -> Case:
        """The same variant at another shape."""
        return dataclasses.replace(self, shape=shape)
