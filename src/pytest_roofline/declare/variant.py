"""Variants: one implementation of an operator each, with what is predicted of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DeclarationError
from ..hardware.dtypes import FLOATS
from ..hardware.gpus import Gpu
from .array import SCRATCH, Array, require_tuple
from .launch import WIDTHS, Launch
from .limit import Limit
from .operator import Operator
from .shape import Shape

QUANTITIES = ("speedup", "dram", "mbu")
ALIGNMENTS = (*WIDTHS, 64, 128, 256)
COMPILERS = ("nvrtc",)


@dataclass(frozen=True)
class Prediction:
    """Stated before a run: ``quantity`` lies in [low, high] at the shapes of a workload, the first by default, and why.

    ``quantity`` is "speedup" (time of the variant ``than`` over this one's), "dram" (DRAM bytes read and written for
    each element of the largest output) or "mbu" (percent; needs a GPU). With ``needs_gpu`` the model knows nothing of
    the reason, such as a latency, so that only a measured time, or what ncu counts, gives a verdict.
    """

    than: str
    low: float
    high: float
    why: str
    quantity: str = "speedup"
    workload: str = ""
    needs_gpu: bool = False

    def __post_init__(self) -> None:
        if self.quantity not in QUANTITIES:
            raise DeclarationError(
                f"a prediction is of {self.quantity!r}; what can be predicted is {', '.join(QUANTITIES)}"
            )


@dataclass(frozen=True)
class Variant:
    """One implementation of an operator: a source file (relative to the declaration) and its launches.

    ``launches`` are in order; a single one needs no tuple. ``scratch`` arrays are the variant's own; what they
    hold is nobody else's. ``dtypes`` are the types of a shape that it runs, ``alignment`` in bytes is what all its
    arrays have at least (0: the size of their elements). ``capability`` is that of the oldest GPU that runs it, 80 for
    sm_80.
    Errors: :class:`DeclarationError` with the variant and what is wrong with it.
    """

    name: str
    operator: Operator
    source: str
    launches: tuple[Launch, ...]
    limits: tuple[Limit, ...] = ()
    scratch: tuple[Array, ...] = ()
    title: str = ""
    alignment: int = 0
    dtypes: tuple[str, ...] = ("float32",)
    capability: int = 0
    compiler: str = "nvrtc"
    predictions: tuple[Prediction, ...] = ()
    root: Path = field(default=Path(), compare=False)  # of the declaration; the suite's loading sets it

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DeclarationError(f"a variant is named {self.name!r}; a name is a text")
        if not isinstance(self.operator, Operator):
            self._fail(f"has operator = {self.operator!r}; it is an Operator")
        if isinstance(self.launches, Launch):  # as the docstring says
            object.__setattr__(self, "launches", (self.launches,))
        for name, kind in (("launches", Launch), ("limits", Limit), ("scratch", Array), ("predictions", Prediction)):
            require_tuple(f"variant {self.name!r}: {name}", getattr(self, name))
            if loose := [one for one in getattr(self, name) if not isinstance(one, kind)]:
                self._fail(f"has {loose[0]!r} among its {name}; each is a {kind.__name__}")
        if not self.launches:
            self._fail("has no launches")
        if not isinstance(self.source, str) or self.source not in self.sources():
            self._fail(f"has source {self.source!r}, from which no launch is: the file would never be compiled")
        require_tuple(f"variant {self.name!r}: dtypes", self.dtypes)
        if not self.dtypes or not {*self.dtypes} <= {*FLOATS}:
            self._fail(f"has dtypes = {self.dtypes!r}, allowed are {', '.join(FLOATS)}, and there is at least one")
        if self.alignment not in (0, *ALIGNMENTS):
            self._fail(f"has alignment = {self.alignment!r}, allowed are {', '.join(map(str, ALIGNMENTS))}")
        if self.compiler not in COMPILERS:
            self._fail(f"has compiler = {self.compiler!r}, allowed are {', '.join(COMPILERS)}")
        scratch = tuple(dataclasses.replace(a, role=SCRATCH) for a in self.scratch)
        object.__setattr__(self, "scratch", scratch)
        self._check_names()
        for launch in self.launches:
            self._check_launch(launch)
        self._check_moved()

    def _check_names(self) -> None:
        names = [a.name for a in (*self.operator.arrays, *self.scratch)]
        names += [s.name for s in self.operator.scalars] + [*self.operator.extents]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            self._fail(f"has arrays, scalars and extents that share names: {', '.join(doubled)}")
        for array in self.scratch:
            strange = [dim for dim in array.dims if isinstance(dim, str) and dim not in self.operator.extents]
            if strange:
                self._fail(f"has a scratch array {array.name!r} with the unknown extent {strange[0]!r}")

    def _check_launch(self, launch: Launch) -> None:
        known = [*self.arrays, *(s.name for s in self.operator.scalars), *self.operator.extents]
        if unknown := [a for a in launch.args if isinstance(a, str) and a not in known]:
            self._fail(f"{launch.kernel!r} takes {', '.join(unknown)}; it can take {', '.join(known)}")
        for name in (*(launch.reads or ()), *(launch.writes or ())):
            if name not in self.arrays:
                self._fail(f"{launch.kernel!r} moves the bytes of {name}, which is no array")

    def _check_moved(self) -> None:
        taken = {name for launch in self.launches for name in launch.args}
        if unused := [a.name for a in self.operator.outputs if a.name not in taken]:
            self._fail(f"has no launch that takes the output {', '.join(unused)}")
        written = {name for launch in self.launches for name in self.writes(launch)}
        if missing := [a.name for a in self.operator.outputs if a.name not in written]:
            self._fail(f"has no launch whose writes name the output {', '.join(missing)}")
        if inputs := [a.name for a in self.operator.arrays if not a.written and a.name in written]:
            self._fail(f'writes the input {", ".join(inputs)}; give it role="inout"')

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays by name, the operator's first."""
        return {a.name: a for a in (*self.operator.arrays, *self.scratch)}

    def sources(self) -> tuple[str, ...]:
        """The source files of the launches, each once, in order."""
        return tuple(dict.fromkeys(self.source_of(launch) for launch in self.launches))

    def source_of(self, launch: Launch) -> str:
        return launch.source or self.source

    def reads(self, launch: Launch) -> tuple[str, ...]:
        """Arrays that the launch must read, once for each time that one stands here."""
        given = {a.name for a in self.operator.arrays if a.read}
        return tuple(dict.fromkeys(str(a) for a in launch.args if a in given)) if launch.reads is None else launch.reads

    def writes(self, launch: Launch) -> tuple[str, ...]:
        """Arrays that the launch must write, once for each time that one stands here."""
        due = {a.name for a in self.operator.arrays if a.written}
        return tuple(dict.fromkeys(str(a) for a in launch.args if a in due)) if launch.writes is None else launch.writes

    def configured(self, shape: Shape, gpu: Gpu) -> tuple[Launch, ...]:
        """Its launches as they are for that shape on that GPU."""
        return tuple(launch.configured(shape, gpu) for launch in self.launches)

    def broken_limit(self, shape: Shape) -> str:
        """Why it can't run ``shape`` on any GPU; empty where nothing is in the way."""
        if shape.dtype not in self.dtypes:
            return f"it is written for elements of {' or '.join(self.dtypes)}"
        return next((limit.reason for limit in self.limits if not limit.holds(shape)), "")

    def _fail(self, what: str) -> None:
        raise DeclarationError(f"variant {self.name!r} {what}")
