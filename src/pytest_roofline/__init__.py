"""Whether a GPU kernel's answers are right, how close it runs to the roofline, and whether it races."""

from .declare import (
    NULL,
    Array,
    Best,
    Launch,
    Limit,
    Operator,
    Prediction,
    Scalar,
    Shape,
    Suite,
    Variant,
    ceil_div,
    load,
)

__version__ = "0.2.0.dev0"

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
