"""What a project declares: shapes, arrays, operators, launches, variants, suites. Knows no compiler and no device."""

from .array import Array, Scalar
from .launch import NULL, Launch
from .limit import Limit
from .loading import load
from .operator import Operator
from .shape import Shape
from .suite import Best, Suite
from .variant import Prediction, Variant


def ceil_div(size: int, part: int) -> int:
    """Parts of ``part`` that it takes to cover ``size``: the blocks of a grid."""
    return -(-size // part)


__all__ = [
    "NULL",
    "Array",
    "Best",
    "Launch",
    "Limit",
    "Operator",
    "Prediction",
    "Scalar",
    "Shape",
    "Suite",
    "Variant",
    "ceil_div",
    "load",
]
