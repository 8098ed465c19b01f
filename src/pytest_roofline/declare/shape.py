"""Shapes: named extents and a type of elements, ``Shape(M=8, N=1000)`` or ``Shape(B=2, S=128, dtype="float16")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from ..errors import DeclarationError, RefusedError
from ..hardware.dtypes import FLOATS

ELEMENT = "element"  # the dtype of an array that is of whatever type the shape says
MOST = 2**63 - 1
T = TypeVar("T")


class Shape:
    """Sizes by name, each a whole number from 1 to 2^63 - 1, and ``dtype``, the floating type of the elements.

    Immutable and hashable; two shapes are equal if they have the same extents, in whatever order. An extent is read as
    ``shape.M`` or ``shape["M"]``. Written with the extents in the order in which they were given: 8x1000, and
    8x1000-bfloat16 where the type is not float32.
    Errors: :class:`RefusedError` for an extent or a dtype that is not allowed.
    """

    __slots__ = ("_extents", "dtype")
    _extents: dict[str, int]
    dtype: str

    def __init__(self, *, dtype: str = "float32", **extents: int) -> None:
        for name, value in extents.items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise RefusedError(f"{name} = {value!r} is refused, nothing was launched: {name} is a Python int")
            if not 1 <= value <= MOST:
                raise RefusedError(
                    f"{name} = {value} is refused, nothing was launched: an extent is 1 to 2^63 - 1 "
                    "(a grid of 0 blocks is not an empty launch)"
                )
        if dtype not in FLOATS:
            raise RefusedError(f"dtype = {dtype!r} is refused, nothing was launched: allowed are {', '.join(FLOATS)}")
        object.__setattr__(self, "_extents", dict(extents))
        object.__setattr__(self, "dtype", dtype)

    @property
    def extents(self) -> Mapping[str, int]:
        """The sizes by name, in order."""
        return dict(self._extents)

    def replace(self, **changes: Any) -> Shape:
        """This shape with some extents, or its dtype, replaced."""
        return Shape(**{"dtype": self.dtype, **self._extents, **changes})

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):  # pickling and copying ask before there are extents
            raise AttributeError(name)
        try:
            return int(self._extents[name])
        except KeyError:
            raise AttributeError(f"shape {self!r} has no extent {name!r}") from None

    def __getitem__(self, name: str) -> int:
        return int(self._extents[name])

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a shape does not change; shape.replace({name}=...) makes another")

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.dtype, self._extents)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.dtype == other.dtype and self._extents == other._extents

    def __hash__(self) -> int:
        return hash((self.dtype, frozenset(self._extents.items())))

    def __str__(self) -> str:
        sizes = "x".join(map(str, self._extents.values())) or "scalar"
        return sizes + ("" if self.dtype == "float32" else f"-{self.dtype}")

    def __repr__(self) -> str:
        named = [f"{name}={value}" for name, value in self._extents.items()]
        return f"Shape({', '.join([*named, *([] if self.dtype == 'float32' else [f'dtype={self.dtype!r}'])])})"

    def words(self) -> str:
        """The extents by name, for messages: "M = 8, N = 1000"."""
        named = [f"{name} = {value}" for name, value in self._extents.items()]
        return ", ".join([*named, *([] if self.dtype == "float32" else [f"dtype = {self.dtype}"])])


def _made(dtype: str, extents: Mapping[str, int]) -> Shape:
    return Shape(dtype=dtype, **extents)


def called(what: str, function: Callable[..., T], *args: Any) -> T:
    """What a function of the declaration gives; :class:`DeclarationError` with ``what`` it was for where it raises."""
    try:
        return function(*args)
    except (DeclarationError, RefusedError):
        raise
    except Exception as error:
        raise DeclarationError(f"{what} can't be had for {args[0]!r}: {type(error).__name__}: {error}") from error


def at(what: str, value: Any, *args: Any) -> Any:
    """``value`` itself, or what it gives for the shape (and GPU) where it is a function."""
    return called(what, value, *args) if callable(value) else value
