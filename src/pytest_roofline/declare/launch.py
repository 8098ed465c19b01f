"""Launches of a kernel, as declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import DeclarationError
from ..hardware.gpus import Gpu
from .array import require_tuple
from .shape import Shape, called

NULL = None  # among the arguments: a pointer to nothing
Extent = int | tuple[int, ...] | Callable[[Shape], int | tuple[int, ...]]
Whole = int | Callable[[Shape], int]
Argument = str | int | float | None
WIDTHS = (1, 2, 4, 8, 16, 32)  # bytes of an access
CONFIGURABLE = ("kernel", "source", "block", "grid", "shared", "cluster", "defines", "vector", "unrolled")


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    ``kernel`` is the name of an extern "C" function, or a C++ name expression such as "ns::scale<256, float>".
    ``args`` are the kernel's arguments in order: the name of an array, a scalar or an extent, a number, or None for a
    null pointer. ``grid`` and ``block`` are a whole number, a tuple of up to three, or a function of the shape that
    gives one. ``shared`` is dynamic shared memory in bytes, ``cluster`` the blocks side by side in x of a thread-block
    cluster (sm_90 and newer): each a number or a function of the shape. ``source`` is the file, the variant's by
    default, and ``defines`` are macros by name.

    ``reads`` and ``writes`` name the arrays of which every byte must cross DRAM once for each time they are named;
    by default what is read is each array with contents among the arguments, and what is written each output.
    ``vector`` is the width in bytes of the global accesses, of all those arrays or by array; ``unrolled`` the number of
    elements that a thread reads of each input in straight-line code. The static tests hold both against the PTX.

    ``configure(shape, gpu)`` gives what to replace of :data:`CONFIGURABLE` for a shape on a GPU.
    Errors: :class:`DeclarationError` with the kernel and what is allowed.
    """

    kernel: str
    args: tuple[Argument, ...]
    grid: Extent
    block: Extent
    shared: Whole = 0
    cluster: Whole = 1
    source: str = ""
    defines: tuple[tuple[str, str], ...] = ()
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    vector: int | Mapping[str, int] | None = dataclasses.field(default=None, hash=False)  # no hash of a dict
    unrolled: int | None = None
    configure: Callable[[Shape, Gpu], Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, str) or not isinstance(self.source, str):
            raise DeclarationError(f"a launch has kernel = {self.kernel!r}, source = {self.source!r}; both are texts")
        for entry in ("args", "defines"):
            require_tuple(f"launch {self.kernel!r}: {entry}", getattr(self, entry))
        for field in ("reads", "writes"):
            if getattr(self, field) is not None:
                require_tuple(f"launch {self.kernel!r}: {field}", getattr(self, field))
                self._check_moved(field)
        if loose := [a for a in self.args if isinstance(a, bool) or not isinstance(a, str | int | float | None)]:
            self._fail(f"has {loose[0]!r} among its args; an argument is a name, a number, or None for a null pointer")
        if unfit := [one for one in self.defines if not isinstance(one, tuple) or [*map(type, one)] != [str, str]]:
            self._fail(f"defines {unfit[0]!r}; a macro is a pair of texts, its name and its value")
        for field in ("grid", "block"):
            value = getattr(self, field)
            if not callable(value) and dims(value) is None:
                self._fail(f"has {field} = {value!r}; it is one to three whole numbers of at least 1, or a function")
        for field, least in (("shared", 0), ("cluster", 1)):
            value = getattr(self, field)
            if not callable(value) and (type(value) is not int or value < least):
                self._fail(f"has {field} = {value!r}; it is a whole number of at least {least}, or a function")
        self._check_accesses()
        if self.configure is not None and not callable(self.configure):
            self._fail(f"has configure = {self.configure!r}; it is a function of a shape and a GPU")

    def _check_moved(self, field: str) -> None:
        if stray := [name for name in getattr(self, field) if name not in self.args]:
            self._fail(f"{field} {', '.join(map(str, stray))}, which it does not take")

    def _check_accesses(self) -> None:
        by_array = self.vector if isinstance(self.vector, Mapping) else {"": self.vector}
        for name, width in by_array.items():
            if width is not None and (type(width) is not int or width not in WIDTHS):
                self._fail(f"has vector = {width!r} bytes, allowed are {', '.join(map(str, WIDTHS))}")
            if name and name not in self.args:
                self._fail(f"has a vector width for {name!r}, which it does not take")
        if self.unrolled is not None and (type(self.unrolled) is not int or self.unrolled < 1):
            self._fail(f"has unrolled = {self.unrolled!r}; it is a whole number of at least 1, or None")

    def configured(self, shape: Shape, gpu: Gpu) -> Launch:
        """The launch for that shape on that GPU; :class:`DeclarationError` where ``configure`` makes no launch."""
        if self.configure is None:
            return self
        where = f"{self.kernel}: what configure makes for {shape!r} on {gpu.name}"
        made = called(where, self.configure, shape, gpu)
        if not isinstance(made, Mapping) or not {*made} <= {*CONFIGURABLE}:
            raise DeclarationError(f"{where} is {made!r}; it replaces some of {', '.join(CONFIGURABLE)}")
        try:
            return dataclasses.replace(self, configure=None, **made)
        except DeclarationError as error:
            raise DeclarationError(f"{where}: {error}") from error

    def _fail(self, what: str) -> None:
        raise DeclarationError(f"launch {self.kernel!r} {what}")


def dims(value: Any) -> tuple[int, int, int] | None:
    """A grid or block as x, y and z; None where it is none."""
    given = value if isinstance(value, tuple) else (value,)
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in given)
    if not whole or not 1 <= len(given) <= 3:
        return None
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z
