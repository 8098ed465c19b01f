"""What a foreign kernel is: a .cu file unlike the project's own, its inputs, launches, answer, and one broken form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "foreign"


@dataclass(frozen=True)
class Call:
    """One launch; the calls of a kernel run in order, each one after the one before has ended."""

    kernel: str  # extern "C" name
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[object, ...]  # names (str) of arrays, or NumPy scalars of the parameter's type (np.int32(5))
    shared: int = 0  # dynamic shared bytes


@dataclass(frozen=True)
class Broken:
    """One edit of the source that puts a fault in it, and the kind of finding that has to show it."""

    name: str  # says what was broken: "first barrier removed"
    old: str  # text that occurs exactly once in the .cu
    new: str
    caught: str  # "race", "memory", "uninitialised", "barrier", "convergence", "steps" or "answer"


@dataclass(frozen=True)
class Foreign:
    """A kernel file with everything it takes to run it and to judge what it wrote."""

    name: str
    file: str  # in tests/sim/foreign/
    inputs: Callable[[], dict[str, np.ndarray]]  # fixed seeds; outputs too where they must start at a value
    outputs: dict[str, tuple[tuple[int, ...], str]]  # name -> shape, dtype; poisoned before the run unless in inputs
    calls: tuple[Call, ...]
    reference: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]  # float64 or exact integers
    broken: Broken
    rtol: float = 0.0
    atol: float = 0.0
    arch: str = "sm_89"
    decode: Mapping[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)  # output -> numbers


def to_bfloat16(values):
    """Bit patterns (uint16) of ``values`` rounded to bfloat16, to nearest and ties to even; no NaN among them."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def from_bfloat16(bits):
    """The numbers (float64) whose bfloat16 bit patterns (uint16) are ``bits``."""
    return (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
