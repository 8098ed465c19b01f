"""Whether a GPU kernel's answers are right, how close it runs to the roofline, and whether it races."""

from .api import Checked, Resident, Traffic, check, modelled, occupancy, sanitize, time, traffic
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
from .version import __version__

__all__ = [
    "NULL",
    "Array",
    "Best",
    "Checked",
    "Launch",
    "Limit",
    "Operator",
    "Prediction",
    "Resident",
    "Scalar",
    "Shape",
    "Suite",
    "Traffic",
    "Variant",
    "__version__",
    "ceil_div",
    "check",
    "load",
    "modelled",
    "occupancy",
    "sanitize",
    "time",
    "traffic",
]
