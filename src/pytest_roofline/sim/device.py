"""The simulator behind the Protocol of :mod:`pytest_roofline.run.device`: memory, kernels and launches on the CPU."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..build.image import Image
from ..build.ptx.syntax import Module
from ..build.ptxas import of_kernel
from ..errors import DeviceError, DeviceMemoryError, RefusedError, ToolOutputError
from ..hardware.dtypes import dtype_of
from ..hardware.gpus import Gpu, gpu_named
from ..hardware.host import enough_memory
from ..hardware.limits import refusal
from ..run.device import SIMULATED, ArrayView
from .errors import SimulationError
from .isa.program import Program
from .isa.translate import translate
from .machine.arrays import SimArray
from .machine.launch import STEPS_LIMIT, Launch
from .machine.memory import SPARSE_ABOVE, Allocation, Arena
from .machine.parameters import pack, read_and_written
from .machine.run import run
from .observe.findings import ERROR, Finding, Findings

MAX_BYTES = 2**43  # of one allocation: no GPU has more


class SimKernel:
    """A kernel of an image, translated; ``symbols`` are the addresses of the module's variables."""

    def __init__(self, device: SimDevice, program: Program, symbols: dict[str, int], registers: int) -> None:
        self.device, self.program, self.symbols, self.registers = device, program, symbols, registers

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], *, shared_mem: int = 0
    ) -> None:
        """Launch it, with one to three extents each, as a kernel of CuPy is called."""
        gx, gy, gz = (*grid, 1, 1)[:3]
        bx, by, bz = (*block, 1, 1)[:3]
        self.device.launch(self, (gx, gy, gz), (bx, by, bz), args, shared_mem)

    @property
    def name(self) -> str:
        return self.program.name


class SimDevice:
    """A device that executes PTX on the CPU, with the limits of a GPU or of the one of that name in the table.

    ``sparse_above`` is the size in bytes from which memory exists only where it is touched. ``reverse`` takes the
    second schedule: whatever its order changes depends on an order that no GPU promises.
    Errors: :class:`UnsupportedError` from :meth:`load` for what is not simulated, :class:`SimulationError` from
    :meth:`synchronize` with everything that was found.
    """

    evidence = SIMULATED
    launched = 0  # launches of all simulated devices of the process

    def __init__(self, limits: str | Gpu = "rtx4090", reverse: bool = False, sparse_above: int = SPARSE_ABOVE) -> None:
        self.gpu: Gpu = gpu_named(limits) if isinstance(limits, str) else limits
        self.name, self.arch = self.gpu.name, self.gpu.arch
        self.reverse = reverse
        self.arena = Arena(sparse_above)
        self.findings = Findings()
        self.launches: list[Launch] = []
        self.steps_limit = STEPS_LIMIT
        self.detailed = False  # count sectors and bank conflicts too, which takes its time
        self.tracing = False  # note which bytes each block touches, in order
        self._modules: dict[str, tuple[Module, dict[str, int]]] = {}
        self._kernels: dict[tuple[str, str], SimKernel] = {}

    # Memory

    def _allocate(self, shape: tuple[int, ...], dtype: Any, tile: np.ndarray[Any, Any] | None = None) -> SimArray:
        dtype = dtype_of(dtype) if isinstance(dtype, str) else np.dtype(dtype)
        nbytes = math.prod(shape) * dtype.itemsize
        what = f"an array of {'x'.join(map(str, shape))} {dtype}"
        if nbytes > MAX_BYTES:
            raise DeviceMemoryError(f"allocating {shape} of {dtype}: {nbytes} bytes, of {MAX_BYTES} at most")
        with enough_memory(what, 0 if nbytes > self.arena.sparse_above else 2 * nbytes):
            allocation = self.arena.allocate(nbytes, what, tile)
        owner = _Owner(self.arena, allocation)
        return SimArray.over(allocation, shape, dtype, owner)

    def empty(self, shape: tuple[int, ...], dtype: str) -> SimArray:
        return self._allocate(shape, dtype)

    def upload(self, host: np.ndarray[Any, Any]) -> SimArray:
        array = self._allocate(host.shape, host.dtype)
        if host.nbytes:
            array.allocation.fill(0, np.ascontiguousarray(host).view(np.uint8).ravel())
        return array

    def repeat(self, tile: np.ndarray[Any, Any], shape: tuple[int, ...]) -> SimArray:
        """A new array of ``shape`` whose element i, counted in C order, is ``tile[i % len(tile)]``."""
        if tile.ndim != 1 or not tile.size:
            raise RefusedError(f"a pattern of shape {tile.shape} is refused: it has to be a row of values")
        return self._allocate(shape, tile.dtype, np.ascontiguousarray(tile))

    def download(self, array: SimArray) -> np.ndarray[Any, Any]:
        return array.get()

    def write(self, array: SimArray, host: np.ndarray[Any, Any]) -> None:
        """Copy ``host`` into ``array``, contiguous and of as many elements of its type, as if it had just been made."""
        if not array.contiguous or host.dtype != array.dtype or host.size != array.size:
            raise RefusedError(
                f"{host.size} {host.dtype} do not go into an array of {array.shape} {array.dtype} with strides "
                f"{array.strides}, nothing was written: it has to be contiguous, of the same type and size"
            )
        array.allocation.fill(array.offset, np.ascontiguousarray(host).reshape(-1).view(np.uint8))

    def poison(self, array: SimArray, byte: int) -> None:
        """Fill ``array``, which is contiguous, with ``byte``, as if nobody had ever written to it."""
        if not array.contiguous:
            raise RefusedError(f"an array with strides {array.strides} is not poisoned: it has to be contiguous")
        array.allocation.poison(array.offset, array.nbytes, byte)

    def written(self, array: SimArray) -> np.ndarray[Any, Any]:
        """Sorted flat indices, in C order, of the elements to which kernels stored since the array was made.

        By what they did, whatever the values: plain, atomic and asynchronous stores, also of what was there before.
        :meth:`write` and :meth:`poison` start anew.
        """
        return array.stored()

    def fingerprint(self, array: SimArray) -> int:
        """How many elements kernels stored to."""
        return int(array.stored().size)

    def view(self, array: Any) -> ArrayView:
        if not isinstance(array, SimArray):
            raise RefusedError(
                f"a {type(array).__module__}.{type(array).__name__} is refused, nothing was launched: it must be an "
                "array of the simulated device (its upload copies one there)"
            )
        if array.owner.arena is not self.arena:  # type: ignore[attr-defined]
            raise RefusedError("an array of another simulated device is refused, nothing was launched")
        return ArrayView(array.pointer, array.nbytes, array.shape, array.strides, array.dtype, array.contiguous)

    # Kernels

    def load(self, image: Image, kernel: str) -> SimKernel:
        """``kernel`` of ``image``, parsed and translated once."""
        kernel = image.entry(kernel)
        key = (image.key, kernel)
        if key not in self._kernels:
            module, symbols = self._module(image)
            program = translate(module, kernel)
            self._kernels[key] = SimKernel(self, program, symbols, self._registers(image, kernel))
        return self._kernels[key]

    def _module(self, image: Image) -> tuple[Module, dict[str, int]]:
        if image.key not in self._modules:
            module = image.module
            symbols = {}
            for variable in module.variables.values():
                if variable.space in ("global", "const") and not variable.problem:
                    made = self.arena.allocate(variable.size, f"the variable {variable.name}")
                    data = np.frombuffer(variable.data.ljust(variable.size, b"\0"), np.uint8)
                    made.fill(0, data)
                    symbols[variable.name] = made.base
            self._modules[image.key] = (module, symbols)
        return self._modules[image.key]

    def launch(
        self,
        kernel: SimKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: tuple[Any, ...],
        shared: int,
        blocks: Sequence[int] | None = None,
    ) -> None:
        """Execute at once; ``blocks`` are the linear numbers of those to run, all by default."""
        self._check_launch(kernel, grid, block, shared)
        given = pack(kernel.program, args)
        launch = Launch(
            program=kernel.program,
            grid=grid,
            block=block,
            shared=shared,
            parameters=given.data,
            arena=self.arena,
            findings=self.findings,
            symbols=kernel.symbols,
            tracked=read_and_written(kernel.program, given, kernel.symbols, self.arena),
            nulls=given.nulls,
            reverse=self.reverse,
            detailed=self.detailed,
            touched=[] if self.tracing else None,
            steps_limit=self.steps_limit,
        )
        self.launches.append(launch)
        SimDevice.launched += 1
        run(launch, blocks)

    def _registers(self, image: Image, kernel: str) -> int:
        """Registers a thread, by ptxas's report; 0 where there is none."""
        try:
            return of_kernel(image, kernel).registers
        except ToolOutputError:
            return 0

    def _check_launch(
        self, kernel: SimKernel, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int
    ) -> None:
        flat = kernel.program.flat
        why = refusal(
            self.gpu,
            grid,
            block,
            flat.cluster,
            registers=kernel.registers,
            static_shared=flat.static_shared,
            dynamic_shared=shared,
            max_threads=flat.max_threads,
            required_block=flat.required_block,
        )
        if why:
            raise DeviceError(f"launching {kernel.name} with grid {grid}, block {block}: {why}")

    def synchronize(self) -> None:
        """Raise :class:`SimulationError` with all findings if there is an error among them; warnings alone are kept."""
        if any(finding.severity == ERROR for finding in self.findings.all()):
            raise SimulationError(self.take_findings())

    def take_findings(self) -> tuple[Finding, ...]:
        """Errors and warnings since the last call, which are then forgotten."""
        found, self.findings = self.findings.all(), Findings()
        return found

    def take_launches(self) -> list[Launch]:
        """The launches since the last call, with what they counted."""
        found, self.launches = self.launches, []
        return found

    def release(self) -> None:
        self.launches.clear()
        self.findings = Findings()


class _Owner:
    """Frees an allocation when the last array over it is gone."""

    def __init__(self, arena: Arena, allocation: Allocation) -> None:
        self.arena = arena
        weakref.finalize(self, arena.free, allocation)
