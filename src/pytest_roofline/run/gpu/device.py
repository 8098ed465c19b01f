"""A CUDA device through CuPy, behind the Protocol of :mod:`pytest_roofline.run.device`.

CuPy is used for memory, loading and launching only: none of its own compiled operations (elementwise kernels,
reductions, random numbers), so no toolkit, cuBLAS or cuRAND has to be there.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...build.nvrtc import Image, compile_source
from ...build.source import Source
from ...errors import DeviceError, DeviceMemoryError, RefusedError
from ...hardware.dtypes import dtype_of
from ...hardware.gpus import Gpu
from ..device import MEASURED, POISON, ArrayView

# CUDA Programming Guide, "Thread Block Clusters": more than 8 blocks have to be allowed for each function.
PORTABLE_CLUSTER = 8
NON_PORTABLE_CLUSTER_ALLOWED = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
NULL = np.uint64(0)  # a pointer to nothing, as CuPy takes one
OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY


def import_cupy() -> Any:
    """The package cupy, or :class:`DeviceError` that says what to install."""
    try:
        import cupy
    except Exception as error:  # a broken installation raises whatever it likes
        raise DeviceError(
            f"CuPy can't be imported ({type(error).__name__}: {error}); install it with: "
            "pip install 'pytest-roofline[cuda12]' (or [cuda13])"
        ) from error
    return cupy


def count() -> int:
    """Usable CUDA devices; :class:`DeviceError` says why there is none (no driver, driver too old, no GPU)."""
    cupy = import_cupy()
    try:
        found = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"no usable NVIDIA driver or device, {str(error).split(':')[0]}") from error
    if found == 0:
        raise DeviceError("the driver shows no CUDA device (is CUDA_VISIBLE_DEVICES empty?)")
    return found


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn CuPy's CUDA and memory errors into this package's, with ``what`` was being done."""
    cupy = import_cupy()
    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        free, total = cupy.cuda.runtime.memGetInfo()
        raise DeviceMemoryError(f"{what}: {error}; {free} of {total} bytes are free on the GPU") from error
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        if error.status == OUT_OF_MEMORY:  # what an allocation without CuPy's pool raises
            raise DeviceMemoryError(f"{what}: {error}") from error
        raise DeviceError(f"{what}: {error}") from error


class CudaDevice:
    """CUDA device number ``index``, made current for this process.

    Errors: :class:`DeviceError` without a driver or GPU.
    """

    evidence = MEASURED

    def __init__(self, index: int = 0) -> None:
        self.cupy = import_cupy()
        found = count()
        if not 0 <= index < found:
            raise DeviceError(f"there is no CUDA device {index}; the driver shows {found}")
        self.index = index
        self._loaded: dict[tuple[str, str], Any] = {}
        self._allowed: dict[int, int] = {}  # bytes of dynamic shared memory by kernel; loaded kernels stay
        with translated(f"selecting CUDA device {index}"):
            self.cupy.cuda.Device(index).use()
            properties = self.cupy.cuda.runtime.getDeviceProperties(index)
            attributes = self.cupy.cuda.Device(index).attributes
        self.name = properties["name"].decode()
        self.arch = f"sm_{properties['major']}{properties['minor']}"
        self.gpu = Gpu(
            name=self.name,
            arch=self.arch,
            sms=int(attributes["MultiProcessorCount"]),
            sm_clock_mhz=attributes["ClockRate"] / 1e3,
            memory_clock_mhz=attributes["MemoryClockRate"] / 1e3,
            bus_bits=int(attributes["GlobalMemoryBusWidth"]),
            l2_bytes=int(attributes["L2CacheSize"]),
            registers_per_sm=int(attributes["MaxRegistersPerMultiprocessor"]),
            shared_per_sm=int(attributes["MaxSharedMemoryPerMultiprocessor"]),
            shared_per_block_optin=int(attributes["MaxSharedMemoryPerBlockOptin"]),
            threads_per_sm=int(attributes["MaxThreadsPerMultiProcessor"]),
            blocks_per_sm=int(attributes["MaxBlocksPerMultiprocessor"]),
            source="device attributes",
        )

    @cached_property
    def versions(self) -> dict[str, str]:
        """Versions of the driver's CUDA, the runtime CuPy was built for, and CuPy."""
        runtime = self.cupy.cuda.runtime

        def dotted(version: int) -> str:
            return f"{version // 1000}.{version % 1000 // 10}"

        return {
            "driver_cuda": dotted(runtime.driverGetVersion()),
            "runtime_cuda": dotted(runtime.runtimeGetVersion()),
            "cupy": str(self.cupy.__version__),
        }

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        with translated(f"allocating {shape} of {dtype}"):
            array = self.cupy.empty(shape, dtype_of(dtype))
            if array.nbytes:
                array.data.memset_async(POISON, array.nbytes)
        return array

    def upload(self, host: np.ndarray) -> Any:
        with translated(f"uploading {host.shape} of {host.dtype}"):
            array = self.cupy.empty(host.shape, host.dtype)
            array.set(np.ascontiguousarray(host))
        return array

    def repeat(self, tile: np.ndarray, shape: tuple[int, ...]) -> Any:
        size = math.prod(shape)
        with translated(f"allocating {shape} of {tile.dtype}"):
            source = self.upload(tile)
            array = self.cupy.empty((size,), tile.dtype)
            for start in range(0, size, len(tile)):
                part = min(len(tile), size - start) * tile.itemsize
                (array.data + start * tile.itemsize).copy_from_device_async(source.data, part)
            self.synchronize()  # before `source` goes out of scope
        return array.reshape(shape)

    def write(self, array: Any, host: np.ndarray) -> None:
        with translated(f"uploading {host.shape} of {host.dtype}"):
            array.set(np.ascontiguousarray(host).reshape(array.shape))

    def poison(self, array: Any, byte: int) -> None:
        if array.nbytes:
            array.data.memset_async(byte, array.nbytes)

    def written(self, array: Any) -> np.ndarray | None:
        return None

    def fingerprint(self, array: Any) -> int:
        """A sum over all words, each mixed with its place, by a kernel of our own."""
        found = self.upload(np.zeros(1, np.uint64))
        if array.nbytes:
            image = compile_source(Source.read(Path(__file__).with_name("fingerprint.cu")), self.arch)
            kernel = self.load(image, "roofline_fingerprint")
            args = (array, np.int64(array.nbytes), found)
            self.launch(kernel, (4 * self.gpu.sms, 1, 1), (256, 1, 1), args, 0)
        return int(self.download(found)[0])

    def download(self, array: Any) -> np.ndarray:
        with translated("downloading a result"):
            return np.asarray(array.get())

    def view(self, array: Any) -> ArrayView:
        if not isinstance(array, self.cupy.ndarray):
            raise RefusedError(
                f"a {type(array).__module__}.{type(array).__name__} is refused, nothing was launched: the array must "
                f"be a cupy.ndarray on {self.name} (cupy.asarray copies it there)"
            )
        if array.device.id != self.index:
            raise RefusedError(
                f"an array on CUDA device {array.device.id} is refused, nothing was launched: wanted {self.index}"
            )
        return ArrayView(
            pointer=int(array.data.ptr),
            nbytes=int(array.nbytes),
            shape=tuple(array.shape),
            strides=tuple(array.strides),
            dtype=array.dtype,
            contiguous=bool(array.flags.c_contiguous),
        )

    def load(self, image: Image, kernel: str) -> Any:
        """Loaded once for this process: a second copy of the code lies elsewhere, and that alone can change a time."""
        if (image.key, kernel) in self._loaded:
            return self._loaded[image.key, kernel]
        entry = image.entry(kernel)
        if image.arch != self.arch:
            raise DeviceError(f"{image.name} was compiled for {image.arch}, {self.name} is {self.arch}")
        with translated(f"loading {kernel} from {image.name}"):
            function = self.cupy.RawModule(path=str(image.path)).get_function(entry)
            function.compile()  # load now, so that a bad image fails here and not in a timed launch
            if image.cluster(kernel) > PORTABLE_CLUSTER:
                self.cupy.cuda.driver.funcSetAttribute(function.kernel.ptr, NON_PORTABLE_CLUSTER_ALLOWED, 1)
        self._loaded[image.key, kernel] = function
        return function

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: tuple[Any, ...],
        shared: int,
        blocks: Sequence[int] | None = None,
    ) -> None:
        if blocks is not None:
            raise DeviceError(f"launching {kernel.name}: a GPU runs all blocks of a grid, {len(blocks)} were chosen")
        self.allow_shared(kernel, shared)
        args = tuple(NULL if one is None else one for one in args)
        try:
            kernel(grid, block, args, shared_mem=shared)
        except self.cupy.cuda.driver.CUDADriverError as error:
            raise DeviceError(f"launching {kernel.name} with grid {grid}, block {block}: {error}") from error

    def allow_shared(self, kernel: Any, shared: int) -> None:
        """Opt ``kernel`` in to ``shared`` bytes of dynamic shared memory, where it has to be asked for."""
        if shared <= self._allowed.get(id(kernel), 0):  # a launch that is timed asks the driver nothing
            return
        fixed = int(kernel.shared_size_bytes)  # what the kernel itself declares counts towards the limit
        if shared + fixed > 48 * 1024 and kernel.max_dynamic_shared_size_bytes < shared:
            with translated(f"opting {kernel.name} in to {shared} bytes of dynamic shared memory"):
                kernel.max_dynamic_shared_size_bytes = shared
        self._allowed[id(kernel)] = shared

    def synchronize(self) -> None:
        with translated("waiting for the device (an earlier launch failed)"):
            self.cupy.cuda.get_current_stream().synchronize()

    def release(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()

    def driver_occupancy(self, kernel: Any, threads: int, shared: int) -> int:
        """Blocks of the kernel that fit an SM at once, as the driver answers."""
        driver = self.cupy.cuda.driver
        return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.kernel.ptr, threads, shared))
