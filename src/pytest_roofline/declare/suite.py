"""What is measured: operators, variants, launches and limits as frozen dataclasses.

A project declares its kernels in one Python file (ini key ``roofline_suite``) that binds the name ``SUITE``
to a :class:`Suite`. Every test, table and report takes its lists from it. All sizes are in elements unless a
unit is given; M counts rows and N columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..errors import RefusedError, UnknownNameError
from ..hardware.dtypes import dtype_of
from ..hardware.gpus import Gpu
from .launch import Launch as Launch
from .launch import Shape as Shape

ELEMENT = "element"  # the dtype of an array that is of whatever type the shape says


@dataclass(frozen=True)
class Array:
    """One array argument. ``dims`` names its extents ("M", "N"); inputs are filled uniformly from [low, high).

    An array whose ``dtype`` is :data:`ELEMENT` has the type of the shape.
    """

    name: str
    dims: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    dtype: str = "float32"

    def shape(self, shape: Shape) -> tuple[int, ...]:
        return tuple(getattr(shape, dim) for dim in self.dims)

    def nbytes(self, shape: Shape) -> int:
        return math.prod(self.shape(shape)) * dtype_of(self.at(shape).dtype).itemsize

    def at(self, shape: Shape) -> Array:
        """The array at that shape: its dtype is a real one."""
        return replace(self, dtype=shape.dtype) if self.dtype == ELEMENT else self

    @property
    def by_row(self) -> bool:
        """Whether row r of the operator touches only row r of this array."""
        return self.dims[:1] == ("M",)


@dataclass(frozen=True)
class Scalar:
    """One scalar argument with its C type ("float", "double", "int", "long long") and default value."""

    name: str
    ctype: str
    value: float


Arrays = Mapping[str, np.ndarray]
Stored = Callable[[np.ndarray], np.ndarray]  # rounds float64 to the type of the shape, and gives it back in float64
Reference = Callable[..., dict[str, np.ndarray]]


@dataclass(frozen=True)
class Operator:
    """What is computed.

    ``reference(arrays, scalars)`` takes the inputs in float64 and returns every output in float64. With
    ``rowwise`` (the default) it is given only some rows of the arrays that go by rows, and must return those rows.
    A value y passes if |y - ref| <= rtol * |ref| + atol(N); 16-bit values within one ulp of the rounded reference.
    With ``stores_between`` the reference takes a third argument, a :data:`Stored`, for what is stored and read again.
    """

    name: str
    formula: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    scalars: tuple[Scalar, ...]
    reference: Reference
    default_shape: Shape
    rtol: float
    atol: Callable[[int], float]
    rowwise: bool = True
    stores_between: bool = False

    def at(self, shape: Shape) -> Operator:
        """The operator with the array types of that shape."""
        inputs, outputs = (tuple(a.at(shape) for a in arrays) for arrays in (self.inputs, self.outputs))
        return replace(self, inputs=inputs, outputs=outputs)


@dataclass(frozen=True)
class Limit:
    """A condition on "M", "N" or "dtype" with its reason.

    For M and N give ``at_most``, ``multiple_of`` or both, for "dtype" the types that are allowed, ``one_of``.
    """

    dim: str
    reason: str
    at_most: int | None = None
    multiple_of: int = 1
    one_of: tuple[str, ...] = ()

    def holds(self, shape: Shape) -> bool:
        if self.one_of:
            return getattr(shape, self.dim) in self.one_of
        value: int = getattr(shape, self.dim)
        return (self.at_most is None or value <= self.at_most) and value % self.multiple_of == 0

    def __str__(self) -> str:
        parts = [f"{self.dim} <= {self.at_most}"] if self.at_most is not None else []
        parts += [f"{self.dim} % {self.multiple_of} == 0"] if self.multiple_of > 1 else []
        parts += [" or ".join(self.one_of)] if self.one_of else []
        return " and ".join(parts)


QUANTITIES = ("speedup", "dram", "mbu")


@dataclass(frozen=True)
class Prediction:
    """Stated before a run: ``quantity`` lies in [low, high] at the shapes of a workload, the first by default, and why.

    ``quantity`` is "speedup" (time of the variant ``than`` over this one's), "dram" (DRAM bytes read and written a row, as
    a multiple of N) or "mbu" (percent; needs a GPU). With ``needs_gpu`` the model knows nothing of the reason, such as
    a latency, so that only a measured time, or what ncu counts, gives a verdict.
    """

    than: str
    low: float
    high: float
    why: str
    quantity: str = "speedup"
    workload: str = ""
    needs_gpu: bool = False


@dataclass(frozen=True)
class Variant:
    """One implementation of an operator: a .cu file (relative to the declaration) and its launches.

    ``dtypes`` are the types of a shape that it runs; ``alignment`` in bytes is what all its arrays have at least.
    ``capability`` is that of the oldest gpu that runs it, 80 for sm_80.
    """

    name: str
    operator: Operator
    source: str
    title: str
    launches: tuple[Launch, ...]
    limits: tuple[Limit, ...] = ()
    scratch: tuple[Array, ...] = ()
    alignment: int = 4
    predictions: tuple[Prediction, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    capability: int = 0

    def at(self, shape: Shape, gpu: Gpu) -> Variant:
        """The variant for that shape on that gpu: types and launches are fixed. Fixing it again changes nothing."""
        return replace(
            self,
            operator=self.operator.at(shape),
            launches=tuple(launch.at(shape, gpu) for launch in self.launches),
            scratch=tuple(a.at(shape) for a in self.scratch),
        )

    @property
    def arrays(self) -> dict[str, Array]:
        return {a.name: a for a in (*self.operator.inputs, *self.operator.outputs, *self.scratch)}

    def sources(self) -> tuple[str, ...]:
        """The .cu files of the launches, each once, in order."""
        return tuple(dict.fromkeys(self.source_of(launch) for launch in self.launches))

    def source_of(self, launch: Launch) -> str:
        """The .cu file of one launch: its own, or the variant's."""
        return launch.source or self.source

    def ledger_bytes(self, shape: Shape) -> int:
        """Bytes the variant must move if no cache serves anything."""
        arrays = self.arrays
        return sum(arrays[name].nbytes(shape) for launch in self.launches for name in (*launch.reads, *launch.writes))

    def ledger_per_row(self, shape: Shape) -> float:
        """The ledger of one row as a multiple of N (bytes an element of the row)."""
        return self.ledger_bytes(shape) / (shape.M * shape.N)

    def ledger_words(self) -> str:
        """The ledger as a sum in words: "rms_n2 reads x, x, writes y"."""
        return "; ".join(
            f"{launch.kernel} "
            + ", ".join([f"reads {name}" for name in launch.reads] + [f"writes {name}" for name in launch.writes])
            for launch in self.launches
        )

    def footprint_bytes(self, shape: Shape) -> int:
        """Bytes of all distinct arrays in the ledger (x + y)."""
        names = {name for launch in self.launches for name in (*launch.reads, *launch.writes)}
        return sum(self.arrays[name].nbytes(shape) for name in names)

    def broken_limit(self, shape: Shape) -> Limit | None:
        types = Limit("dtype", "the kernel is written for that type of element", one_of=self.dtypes)
        return next((limit for limit in (types, *self.limits) if not limit.holds(shape)), None)


@dataclass(frozen=True)
class Workload:
    """Shapes that are timed together; ``shapes`` maps an operator's name to its shapes."""

    name: str
    shapes: Mapping[str, tuple[Shape, ...]]


@dataclass(frozen=True)
class Choice:
    """The variant to use for a shape on a gpu, and why."""

    variant: Variant
    why: str


Rule = Callable[[Shape, Gpu], tuple[str, str]]  # the name of a variant and why


@dataclass(frozen=True)
class Suite:
    """All variants, in the order in which they are climbed; the first variant of an operator is its baseline.

    ``rules`` say, by operator, which variant to use for a shape on a gpu: from width, rows, type and gpu alone.
    """

    variants: tuple[Variant, ...]
    workloads: tuple[Workload, ...]
    root: Path = field(default=Path(), compare=False)
    rules: Mapping[str, Rule] = field(default_factory=dict)

    @property
    def operators(self) -> dict[str, Operator]:
        return {variant.operator.name: variant.operator for variant in self.variants}

    def variant(self, name: str) -> Variant:
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise UnknownNameError(
            f"there is no variant {name!r}; the suite has {', '.join(r.name for r in self.variants)}"
        )

    def family(self, operator: Operator) -> tuple[Variant, ...]:
        return tuple(variant for variant in self.variants if variant.operator.name == operator.name)

    def baseline(self, variant: Variant) -> Variant:
        return self.family(variant.operator)[0]

    def best(self, operator: str, shape: Shape, gpu: Gpu) -> Choice:
        """The variant that the operator's rule names; it runs there.

        Errors: :class:`UnknownNameError` for an operator without a rule, :class:`RefusedError` where it can't run.
        """
        if operator not in self.rules:
            raise UnknownNameError(
                f"no rule names the best variant of {operator!r}; there are {', '.join(self.rules) or 'none'}"
            )
        name, why = self.rules[operator](shape, gpu)
        variant = self.variant(name)
        self.require(variant, shape, gpu)
        return Choice(variant, why)

    def require(self, variant: Variant, shape: Shape, gpu: Gpu | None = None) -> None:
        """Refuse, before any launch, a shape that breaks one of the variant's limits, or that ``gpu`` can't run."""
        limit = variant.broken_limit(shape)
        missing = lacking(variant, shape, gpu) if limit is None and gpu is not None else ""
        if limit is not None:
            where, there = "", ""
            why = f"{limit.dim} = {getattr(shape, limit.dim)}, allowed is {limit} ({limit.reason})"
        elif gpu is not None and missing:
            where, there, why = f" on {gpu.name} ({gpu.arch})", " there", f"it needs {missing}"
        else:
            return
        fit = [r for r in self.family(variant.operator) if r.broken_limit(shape) is None]
        able = [r.name for r in fit if gpu is None or not lacking(r, shape, gpu)]
        raise RefusedError(
            f"{variant.name} can't run {shape}{where}, nothing was launched: {why}. "
            + (
                f"Rungs of {variant.operator.name} that run it{there}: {', '.join(able)}."
                if able
                else "No variant runs it."
            )
        )


def lacking(variant: Variant, shape: Shape, gpu: Gpu) -> str:
    """What ``gpu`` would have to have to run ``variant`` at ``shape``; empty if nothing is missing."""
    if gpu.capability < variant.capability:
        return f"instructions of sm_{variant.capability} and newer"
    launches = [launch.at(shape, gpu) for launch in variant.launches]
    cluster = max(one.cluster for one in launches)
    if cluster > 1 and not gpu.has_clusters:
        return f"thread-block clusters of {cluster}, which sm_90 and newer have"
    shared = max(one.shared for one in launches)
    if shared > gpu.shared_per_block_optin:
        return f"{shared} bytes of dynamic shared memory a block, of at most {gpu.shared_per_block_optin}"
    return ""
