"""Operators: what is computed, on which arrays, with a reference in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DeclarationError
from ..hardware.dtypes import as_stored, dtype_of
from .array import SCRATCH, Array, Scalar, require_identifier, require_tuple
from .shape import ELEMENT, Shape

# Names that the reference's view of a case has for itself.
RESERVED = ("shape", "stored")


class Values:
    """What a reference sees: inputs, scalars and extents as attributes, the shape, and :meth:`stored`.

    Floating inputs are in float64; integers and booleans are as they are. An array that is accumulated into or changed
    in place shows its contents before the launch.
    """

    def __init__(self, shape: Shape, inputs: Mapping[str, np.ndarray], scalars: Mapping[str, float]) -> None:
        self.shape = shape
        self.__dict__.update(shape.extents)
        self.__dict__.update(scalars)
        self.__dict__.update(inputs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the reference has no {name!r}; there are {', '.join(self.__dict__)}")

    def stored(self, values: np.ndarray, dtype: str = ELEMENT) -> np.ndarray:
        """``values`` as they are when a kernel stored them as ``dtype`` and reads them again, in float64."""
        kind = dtype_of(self.shape.dtype if dtype == ELEMENT else dtype)
        return as_stored(np.asarray(values, np.float64), kind).astype(np.float64)


Reference = Callable[[Any], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Operator:
    """What is computed.

    ``reference(x)`` takes a :class:`Values` and returns every output by name, floating ones in float64. ``flops`` is a
    function of the shape. ``default`` is the shape of a test or a command that names none; without it the first shape
    of the suite's workloads. ``extents`` names sizes that no array has as a dim of its own.
    Errors: :class:`DeclarationError` with the operator and what is wrong with it.
    """

    name: str
    formula: str
    arrays: tuple[Array, ...]
    reference: Reference
    scalars: tuple[Scalar, ...] = ()
    flops: Callable[[Shape], float] | None = None
    default: Shape | None = None
    extents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DeclarationError(f"an operator is named {self.name!r}; a name is a text")
        for field in ("arrays", "scalars", "extents"):
            require_tuple(f"operator {self.name!r}: {field}", getattr(self, field))
        for kind, field in ((Array, "arrays"), (Scalar, "scalars")):
            if loose := [one for one in getattr(self, field) if not isinstance(one, kind)]:
                self._fail(f"has {loose[0]!r} among its {field}; each is an {kind.__name__}")
        if not callable(self.reference):
            self._fail(f"has reference = {self.reference!r}; it is a function that returns every output")
        if self.flops is not None and not callable(self.flops):
            self._fail(f"has flops = {self.flops!r}; it is a function of the shape")
        if not self.outputs:
            self._fail('has no outputs: give one of its arrays role="output" or role="inout"')
        if scratch := [a.name for a in self.arrays if a.role == SCRATCH]:
            self._fail(f"has scratch arrays ({', '.join(scratch)}); those are a variant's")
        object.__setattr__(self, "extents", self._extents())
        names = [*(a.name for a in self.arrays), *(s.name for s in self.scalars), *self.extents]
        if doubled := sorted({n for n in names if names.count(n) > 1 or n in (*RESERVED, "dtype")}):
            self._fail(f"arrays, scalars and extents share names, or take a reserved one: {', '.join(doubled)}")
        self._check_bounds()
        if self.default is not None:
            self.require(self.default)

    def _extents(self) -> tuple[str, ...]:
        for name in self.extents:
            require_identifier(f"operator {self.name!r}: an extent", name)
        named = [dim for array in self.arrays for dim in array.dims if isinstance(dim, str)]
        for name in named:
            require_identifier(f"operator {self.name!r}: an extent", name)
        return tuple(dict.fromkeys((*named, *self.extents)))

    def _check_bounds(self) -> None:
        for array in self.arrays:
            for bound in (array.low, array.high):
                if isinstance(bound, str) and bound not in self.extents:
                    self._fail(f"bounds array {array.name!r} by {bound!r}; its extents are {', '.join(self.extents)}")

    @property
    def inputs(self) -> tuple[Array, ...]:
        """Arrays whose contents are given, those that are changed in place among them."""
        return tuple(a for a in self.arrays if a.read)

    @property
    def outputs(self) -> tuple[Array, ...]:
        """Arrays that are compared with the reference, those that are changed in place among them."""
        return tuple(a for a in self.arrays if a.written)

    def require(self, shape: Shape) -> Shape:
        """``shape`` with its extents in the operator's order.

        Errors: :class:`DeclarationError` where one is missing or not the operator's.
        """
        if not isinstance(shape, Shape):
            self._fail(f"was given {shape!r} for a shape; write Shape({'=..., '.join((*self.extents, ''))[:-2]})")
        if {*shape.extents} != {*self.extents}:
            wanted = ", ".join(self.extents) or "none"
            self._fail(f"has extents {wanted}; the shape {shape!r} has {', '.join(shape.extents) or 'none'}")
        return Shape(dtype=shape.dtype, **{name: shape[name] for name in self.extents})

    def _fail(self, what: str) -> None:
        raise DeclarationError(f"operator {self.name!r} {what}")
