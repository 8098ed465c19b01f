"""The verdict on an answer: which elements are wrong, by array and index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..declare.array import Array
from ..declare.shape import Shape
from ..declare.tolerance import is_right
from ..errors import WrongAnswerError

SHOWN = 5


@dataclass(frozen=True)
class Accuracy:
    """The largest errors over all values compared; ``of_tolerance`` <= 1 means that every value passed.

    ``not_checked`` says why nothing was compared, where nothing was; ``values`` is 0 then.
    """

    absolute: float
    of_tolerance: float
    values: int
    not_checked: str = ""


def compare(array: Array, shape: Shape, got: np.ndarray, want: np.ndarray, at: np.ndarray | None = None) -> Accuracy:
    """Compare values of an output with the reference, within the tolerance that it declares.

    ``at`` holds the index of each value, one row each; without it ``got`` is the whole array.
    Errors: :class:`WrongAnswerError` with the first wrong elements, how many there are and the largest error.
    """
    if got.shape != want.shape:
        raise WrongAnswerError(f"{array.name} has shape {got.shape}, the reference {want.shape}")
    right, error, allowed = is_right(array, got, want, shape)
    finite = np.isfinite(error) & np.isfinite(allowed)
    shares = np.where(error > 0, np.inf, 0.0)  # where nothing is allowed
    np.divide(error, allowed, out=shares, where=finite & (allowed > 0))
    found = Accuracy(
        absolute=float(np.max(error, initial=0.0, where=finite)),
        of_tolerance=float(np.max(shares, initial=0.0, where=finite & right)),
        values=want.size,
    )
    if right.all():
        return found
    worst = float(np.max(shares, initial=0.0, where=finite))
    wrong = np.argwhere(~right)
    where = wrong if at is None else at[~right.reshape(-1)]
    lines = [
        f"  {element(array.name, index)}: got {number(got[tuple(place)])}, want {number(want[tuple(place)])}"
        for place, index in zip(wrong[:SHOWN], where[:SHOWN], strict=True)
    ]
    raise WrongAnswerError(
        f"{len(wrong)} of {want.size} values of {array.name} are wrong; the largest error among finite values is "
        f"{found.absolute:.3g}, {worst:.3g} times the tolerance\n" + "\n".join(lines)
    )


def element(name: str, index: np.ndarray) -> str:
    """An element in the array's own dims: "y[3, 17]"; the array's name alone where it has none."""
    return f"{name}[{', '.join(str(int(n)) for n in index)}]" if len(index) else name


def number(value: np.generic) -> str:
    """A value as it is told: a float in nine digits, a whole number as it is."""
    return f"{float(value):.9g}" if np.asarray(value).dtype.kind not in "iub" else str(value)


def worst(found: list[Accuracy]) -> Accuracy:
    """One for all outputs: the largest errors, and all values together."""
    return Accuracy(
        absolute=max((one.absolute for one in found), default=0.0),
        of_tolerance=max((one.of_tolerance for one in found), default=0.0),
        values=sum(one.values for one in found),
        not_checked="; ".join(dict.fromkeys(one.not_checked for one in found if one.not_checked)),
    )
