"""Limits: what a variant can't run, and the numbers that such a condition names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import DeclarationError
from .shape import Shape, called


@dataclass(frozen=True)
class Limit:
    """A condition on the shape and its reason: ``Limit(lambda s: s.K % 32 == 0, "K % 32 == 0: tiles of 32")``.

    Errors: :class:`DeclarationError` where the condition is no function or the reason no text.
    """

    condition: Callable[[Shape], bool]
    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason:
            raise DeclarationError(f"a limit has the reason {self.reason!r}; say what it is for, in words")
        if not callable(self.condition):
            raise DeclarationError(
                f"the limit {self.reason!r} has {self.condition!r} for its condition; it is a function of the shape"
            )

    def holds(self, shape: Shape) -> bool:
        return bool(called(f"the limit {self.reason!r}", self.condition, shape))


class _Watched(int):
    """A whole number that notes what it is compared with, divided by and cut to."""

    noted: set[tuple[str, int]]
    name: str

    def _note(self, other: Any) -> None:
        if isinstance(other, int) and not isinstance(other, bool):
            self.noted.add((self.name, abs(int(other))))


def _watching(method: str) -> Callable[[_Watched, Any], Any]:
    def watched(self: _Watched, other: Any) -> Any:
        self._note(other)
        return getattr(int, method)(self, other)

    return watched


for _method in ("__mod__", "__floordiv__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__and__"):
    setattr(_Watched, _method, _watching(_method))
_Watched.__hash__ = int.__hash__  # type: ignore[method-assign]


class _WatchedShape:
    """A shape of watched numbers, for a condition to be evaluated on."""

    def __init__(self, shape: Shape, noted: set[tuple[str, int]]) -> None:
        self.dtype, self.extents = shape.dtype, {}
        for name, value in shape.extents.items():
            watched = _Watched(value)
            watched.noted, watched.name = noted, name
            self.extents[name] = watched

    def __getattr__(self, name: str) -> int:
        try:
            return self.extents[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> int:
        return self.extents[name]


def numbers_named(condition: Callable[[Any], Any], shapes: tuple[Shape, ...]) -> dict[str, set[int]]:
    """By extent, the numbers above 1 that ``condition`` compares it with or divides it by, evaluated at ``shapes``.

    A boundary case lies at such a number, and one beside it. What a condition computes first (``s.M * s.N <= 8192``)
    it compares no extent with, and is not seen.
    """
    noted: set[tuple[str, int]] = set()
    for shape in shapes:
        try:
            condition(_WatchedShape(shape, noted))
        except Exception:
            continue
    found: dict[str, set[int]] = {}
    for name, number in noted:
        if number > 1:
            found.setdefault(name, set()).add(number)
    return found
