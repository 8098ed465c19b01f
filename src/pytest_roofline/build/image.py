"""What a compiler made of a source: PTX, machine code and ptxas's report, and what the PTX says of each kernel."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ..errors import CompileError
from .cache import process_file, sealed, unsealed
from .ptx import accesses
from .ptx.names import expression, matching, plain
from .ptx.reader import parse
from .ptx.syntax import Function, Module

GLOBAL_MEMORY = "global memory"
FORMAT = 1  # of to_bytes: another one does not read what this one wrote


@lru_cache(maxsize=128)
def _read(ptx: str) -> Module:
    """The same module for the same text: an image that comes from the cache again is not read, nor translated, anew."""
    return parse(ptx)


@dataclass(frozen=True)
class Image:
    """One compiled source: PTX, machine code and ptxas's report for ``arch`` ("sm_90"); ``name`` is the .cu file's.

    A kernel is named as in the source, ``scale<256, float>`` or ``ns::scale<256>``, or as in PTX. ``lowered`` are the
    expressions that the compiler was told, each with its name in PTX. ``key`` is a digest of all that it was made from.
    """

    name: str
    arch: str
    ptx: str
    cubin: bytes
    log: str
    key: str
    defines: tuple[tuple[str, str], ...] = ()  # macros it was compiled with
    lowered: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> Path:
        """The machine code as a file of this process."""
        return process_file(self._stem, ".cubin", self.cubin)

    @property
    def file(self) -> Path:
        """All of it as a file of this process, which another may read by :func:`read_image`."""
        return process_file(self._stem, ".image", sealed(self.to_bytes()))

    @property
    def _stem(self) -> str:
        return f"{Path(self.name).stem}-{self.arch}"

    def to_bytes(self) -> bytes:
        """For :meth:`from_bytes`."""
        text = [self.name, self.arch, self.ptx, self.log, self.key, self.defines, self.lowered]
        return json.dumps(text).encode() + b"\n" + self.cubin

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """What :meth:`to_bytes` was called for."""
        text, _, cubin = data.partition(b"\n")
        name, arch, ptx, log, key, defines, lowered = json.loads(text)
        return cls(name, arch, ptx, cubin, log, key, *(tuple(map(tuple, pairs)) for pairs in (defines, lowered)))

    @cached_property
    def module(self) -> Module:
        """The PTX, read."""
        return _read(self.ptx)

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels, as in PTX."""
        return self.module.kernels

    def entry(self, kernel: str) -> str:
        """The name in PTX of ``kernel``.

        Errors: :class:`CompileError` if the image has none of that name, with those it has, or several.
        """
        names = self.kernels()
        if kernel in names:
            return kernel
        if told := [name for text, name in self.lowered if plain(text) == plain(kernel)]:
            return told[0]
        found = matching(kernel, names)
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(map(expression, found))
            raise CompileError(f"{self.name} has several kernels {kernel}: {several}; name one of them in full")
        fix = (
            f'write extern "C" __global__ void {kernel}(...), or correct the name in the declaration: an instance of a '
            f"template is named with its arguments, such as {kernel}<256>"
            if kernel.isidentifier()
            else "correct the name in the declaration: an instance of a template is named with namespace and arguments"
        )
        have = ", ".join(map(expression, names)) or "none"
        raise CompileError(f"{self.name} has no kernel {kernel}; it has {have}; {fix}")

    def require(self, kernel: str) -> None:
        """Raise :class:`CompileError` if the image has no such kernel, with those it has."""
        self.entry(kernel)

    def function(self, kernel: str) -> Function:
        """What the PTX says of the kernel: parameters, bounds and body."""
        return self.module.functions[self.entry(kernel)]

    def cluster(self, kernel: str) -> int:
        """Blocks of a thread-block cluster, 1 where the kernel asks for none."""
        return math.prod(self.function(kernel).cluster)

    def max_threads(self, kernel: str) -> int | None:
        """Threads of a block that the kernel was compiled for, None where it says nothing (__launch_bounds__)."""
        return self.function(kernel).max_threads

    def parameters(self, kernel: str) -> tuple[str, ...]:
        """PTX types of the kernel's parameters, in order: ("u64", "u64", "u32", "f32"); of a struct "b8"."""
        return tuple(variable.type for variable in self.function(kernel).params)

    def accesses(self, kernel: str) -> tuple[accesses.Access, ...]:
        """Each instruction of the kernel that accesses global memory, and through which parameter."""
        return accesses.accesses(self.module, self.entry(kernel))

    def uncounted(self, kernel: str) -> str | None:
        """What may access global memory in the kernel unseen by :meth:`accesses`; None if nothing does."""
        return accesses.uncounted(self.module, self.entry(kernel))

    def atomics(self, kernel: str) -> tuple[int | str, ...]:
        """Where the kernel works by atomics in global memory: positions of parameters, or "global memory".

        The latter stands for a variable of the module and for what can't be told.
        """
        found = [one.target for one in self.accesses(kernel) if one.atomic]
        return tuple(dict.fromkeys(target if isinstance(target, int) else GLOBAL_MEMORY for target in found))


def read_image(path: Path) -> Image | None:
    """The image in the :attr:`Image.file` of another process; None where that is absent or damaged."""
    try:
        data = unsealed(path.read_bytes())
    except OSError:
        return None
    return None if data is None else Image.from_bytes(data)
