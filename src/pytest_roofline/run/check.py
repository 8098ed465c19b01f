"""Inputs, the float64 reference, and the verdict on an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..build.nvrtc import Image, compile_source
from ..build.source import Source
from ..declare.suite import Operator, Shape, Stored, Suite, Variant
from ..errors import DeclarationError, NotCheckedError, RefusedError, WrongAnswerError
from ..hardware.dtypes import SIXTEEN_BIT, as_stored, beside, dtype_of, is_floating
from ..hardware.gpus import GPUS, Gpu
from ..hardware.host import enough_memory
from .arguments import Program, bind
from .device import POISON, SIMULATED, Device

CHECK_ALL = 2**20  # elements up to which every row is checked
SELECT_ABOVE = 2**27  # elements from which a simulated run takes the blocks of the checked rows only
TILE_ABOVE = 2**27  # elements from which the rows of an input repeat, so that the host does not have to hold them
TILE_ROWS = 1009  # prime: a row offset that wraps at a power of two lands on a row of other values
GUARD = 4096  # bytes of poison behind each output that must still be poison after the run
SHOWN = 5


@dataclass(frozen=True)
class Accuracy:
    """The largest errors over all values compared; ``of_tolerance`` <= 1 means that every value passed."""

    absolute: float
    of_tolerance: float
    values: int
    rows: int


def make_inputs(operator: Operator, shape: Shape, seed: int = 0, rows: int | None = None) -> dict[str, np.ndarray]:
    """Inputs by name, uniform in the declared range, from a fixed ``seed``.

    Beyond ``TILE_ABOVE`` elements an array that goes by rows has ``TILE_ROWS`` rows only, or ``rows`` in any case:
    row r of the real input is row r modulo that.
    """
    inputs = {}
    for index, array in enumerate(operator.at(shape).inputs):
        extents = array.shape(shape)
        if array.by_row and operator.rowwise and (rows or math.prod(extents) > TILE_ABOVE):
            extents = (min(extents[0], rows or TILE_ROWS), *extents[1:])
        rng = np.random.default_rng([seed, index, shape.M, shape.N])
        with enough_memory(f"{array.name} of {extents}", 4 * math.prod(extents)):
            values = rng.random(extents, dtype=np.float32)
        values *= np.float32(array.high - array.low)
        values += np.float32(array.low)
        if np.issubdtype(dtype_of(array.dtype), np.integer):
            values = np.floor(values)
        inputs[array.name] = values.astype(dtype_of(array.dtype), copy=False)
    return inputs


def rows_to_check(operator: Operator, shape: Shape, seed: int = 0) -> np.ndarray:
    """Every row of a small shape; of a large one the first, the last and 8 random ones."""
    if not operator.rowwise or shape.M * shape.N <= CHECK_ALL:
        return np.arange(shape.M)
    drawn = np.random.default_rng([seed, shape.M]).choice(shape.M, size=min(8, shape.M), replace=False)
    return np.unique(np.append(drawn, (0, shape.M - 1)))


def reference(
    operator: Operator, inputs: Mapping[str, np.ndarray], rows: np.ndarray, scalars: Mapping[str, float] | None = None
) -> dict[str, np.ndarray]:
    """The outputs in float64; rows ``rows`` of them where the operator goes by rows."""
    values = {s.name: (scalars or {}).get(s.name, s.value) for s in operator.scalars}
    chosen = {}
    for array in operator.inputs:
        host = inputs[array.name]
        if array.by_row and operator.rowwise:
            host = host[rows % len(host)]
        chosen[array.name] = host.astype(np.float64)
    more: tuple[Stored, ...] = ()
    if operator.stores_between:
        stored = next(inputs[a.name].dtype for a in operator.inputs if is_floating(inputs[a.name].dtype))
        more = (lambda exact: as_stored(exact, stored).astype(np.float64),)
    outputs = operator.reference(chosen, values, *more)
    names = {a.name for a in operator.outputs}
    if not isinstance(outputs, Mapping) or {*outputs} != names:
        given = ", ".join(outputs) if isinstance(outputs, Mapping) else repr(outputs)
        raise DeclarationError(
            f"the reference of {operator.name} must return all of {', '.join(sorted(names))}; it returned {given}"
        )
    return outputs


def compare(
    operator: Operator, name: str, got: np.ndarray, want: np.ndarray, rows: np.ndarray, columns: int
) -> Accuracy:
    """Compare an output with its reference, |got - want| <= rtol * |want| + atol(columns), NaN only where NaN is due.

    16-bit values are right up to one unit in the last place of the reference rounded to their type, or up to the
    smallest normal float32: what is below may flush to zero, and so may a subnormal bfloat16 input.
    Errors: :class:`WrongAnswerError` with the first wrong elements, how many there are and the largest error.
    """
    if got.shape != want.shape:
        raise WrongAnswerError(f"{operator.name}: {name} has shape {got.shape}, the reference {want.shape}")
    with np.errstate(invalid="ignore"):
        raw, got = got, got.astype(np.float64)
        allowed = operator.rtol * np.abs(want) + operator.atol(columns)
        if raw.dtype.name in SIXTEEN_BIT:
            allowed = one_ulp(raw, want)
        error = np.abs(got - want)
        # An infinite reference allows an infinite error: there only the same infinity is right.
        right = (np.isfinite(want) & (error <= allowed)) | (got == want) | (np.isnan(got) & np.isnan(want))
    finite = np.isfinite(error) & np.isfinite(allowed)
    shares = np.where(error > 0, np.inf, 0.0)  # where nothing is allowed
    np.divide(error, allowed, out=shares, where=finite & (allowed > 0))
    found = Accuracy(
        absolute=float(np.max(error, initial=0.0, where=finite)),
        of_tolerance=float(np.max(shares, initial=0.0, where=finite)),
        values=want.size,
        rows=len(rows),
    )
    if right.all():
        return found
    wrong = np.argwhere(~right)
    lines = [
        f"  row {rows[at[0]] if operator.rowwise else at[0]}, column {', '.join(map(str, at[1:]))}: "
        f"got {got[tuple(at)]:.9g}, want {want[tuple(at)]:.9g}"
        for at in wrong[:SHOWN]
    ]
    raise WrongAnswerError(
        f"{operator.name}: {len(wrong)} of {want.size} values of {name} are wrong; the largest error among finite "
        f"values is {found.absolute:.3g}, {found.of_tolerance:.3g} times the tolerance\n" + "\n".join(lines)
    )


def one_ulp(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """What each 16-bit value of ``got`` may be off ``want``: up to the neighbour, on its side, of the rounded."""
    stored = as_stored(want, got.dtype)
    above, below = (beside(stored, step).astype(np.float64) for step in (1, -1))
    room = np.where(got.astype(np.float64) >= want, above - want, want - below)
    return np.maximum(room, float(np.finfo(np.float32).tiny))


def refuse_poison(operator: Operator, name: str, got: np.ndarray, rows: np.ndarray) -> None:
    """Refuse values that still hold the poison they were filled with, which is NaN and would pass where NaN is due.

    A NaN that the GPU computes is 0x7fffffff (PTX ISA, "Floating point comparisons"), the poison 0xffffffff.
    """
    if not is_floating(got.dtype) or not got.size:
        return
    raw = np.ascontiguousarray(got).view(np.uint8).reshape(*got.shape, got.dtype.itemsize)
    unwritten = np.argwhere((raw == POISON).all(axis=-1))
    if len(unwritten):
        first = unwritten[0]
        row = rows[first[0]] if operator.rowwise else first[0]
        raise WrongAnswerError(
            f"{operator.name}: {len(unwritten)} of {got.size} values of {name} were never written, the first in row "
            f"{row}, column {', '.join(map(str, first[1:]))}"
        )


def check_inputs(operator: Operator, shape: Shape, inputs: Mapping[str, np.ndarray]) -> None:
    """Refuse host inputs of the wrong names, shapes or dtypes before anything is allocated."""
    if {*inputs} != {a.name for a in operator.inputs}:
        raise RefusedError(
            f"{operator.name} takes {', '.join(a.name for a in operator.inputs)}; given: {', '.join(inputs) or 'none'}"
        )
    for array in operator.at(shape).inputs:
        host, wanted = inputs[array.name], array.shape(shape)
        if not isinstance(host, np.ndarray):
            raise RefusedError(f"{operator.name}: {array.name} is a {type(host).__name__}, allowed is a numpy.ndarray")
        if host.shape != wanted or host.dtype != dtype_of(array.dtype):
            raise RefusedError(
                f"{operator.name}: {array.name} is refused, nothing was launched: it is {host.shape} of {host.dtype}, "
                f"allowed is {wanted} of {array.dtype} at {shape}"
            )


def images_of(suite: Suite, variant: Variant, arch: str, volatile: bool = False) -> dict[str, Image]:
    """The variant's sources compiled for ``arch``, by the path in the declaration.

    Errors: :class:`DeclarationError` for a variant whose kernels are compiled for a shape, and that is not fixed for one.
    """
    if tuned := [launch.kernel for launch in variant.launches if launch.tune is not None]:
        raise DeclarationError(
            f"{variant.name}: {', '.join(tuned)} is compiled for a shape; give variant.at(shape, gpu)"
        )
    images = {}
    for launch in variant.launches:
        path = variant.source_of(launch)
        source = Source.read(suite.root / path)
        images[path] = compile_source(
            source.with_volatile_shared() if volatile else source, arch, defines=launch.defines
        )
    return images


def gpu_of(arch: str) -> Gpu:
    """A gpu of the table with that architecture, or the first one where there is none."""
    return next((gpu for gpu in GPUS.values() if gpu.arch == arch), next(iter(GPUS.values())))


class Job:
    """A variant on a device at a shape, with inputs uploaded and poisoned outputs: run it, verify it, time it.

    ``inputs`` default to :func:`make_inputs`; ``images`` to the variant's own sources. ``guard`` is the number of bytes
    watched behind each output; 0 gives each output exactly its size. ``rows`` limits the different rows of the inputs.
    A shape or an input that is refused is refused
    before anything is allocated; whatever is refused, nothing was launched.
    """

    def __init__(
        self,
        device: Device,
        suite: Suite,
        variant: Variant,
        shape: Shape,
        inputs: Mapping[str, np.ndarray] | None = None,
        images: Mapping[str, Image] | None = None,
        scalars: Mapping[str, float] | None = None,
        guard: int = GUARD,
        rows: int | None = None,
    ) -> None:
        suite.require(variant, shape, device.gpu)
        variant = variant.at(shape, device.gpu)
        self.device, self.variant, self.shape, self.scalars = device, variant, shape, scalars
        if inputs is not None:
            check_inputs(variant.operator, shape, inputs)
        self.inputs = make_inputs(variant.operator, shape, rows=rows) if inputs is None else inputs
        images = images_of(suite, variant, device.arch) if images is None else images
        self.arrays = {a.name: self._upload(a.by_row, self.inputs[a.name]) for a in variant.operator.inputs}
        self.guards: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        for array in variant.operator.outputs:
            extents = array.shape(shape)
            count, spare = math.prod(extents), guard // dtype_of(array.dtype).itemsize
            base = device.empty((count + spare,), array.dtype)
            self.outputs[array.name] = base[:count].reshape(extents)
            if spare:
                self.guards[array.name] = base[count:]
        self.selected = self._selected()
        self.program: Program = bind(device, variant, shape, {**self.arrays, **self.outputs}, images, scalars)

    def _upload(self, by_row: bool, host: np.ndarray) -> Any:
        if by_row and self.variant.operator.rowwise and len(host) < self.shape.M:
            return self.device.repeat_rows(host, self.shape.M)
        return self.device.upload(host)

    def _selected(self) -> np.ndarray | None:
        """The rows to which a simulated run of a very large shape is limited; None for all of them.

        Errors: :class:`NotCheckedError` where rows are not blocks, so that none can be left out.
        """
        shape = self.shape
        if self.device.evidence != SIMULATED or shape.M * shape.N <= SELECT_ABOVE:
            return None
        if not self.variant.operator.rowwise or not all(one.goes_by_rows(shape) for one in self.variant.launches):
            raise NotCheckedError(
                f"{self.variant.name} {shape} is too large to simulate in full, and its launches are not of a block a row"
            )
        return rows_to_check(self.variant.operator, shape)

    def run(self) -> None:
        """Queue the launches of the variant."""
        self.program.run(None if self.selected is None else [int(row) for row in self.selected])

    def verify(self, rows: np.ndarray | None = None, outputs: Mapping[str, Any] | None = None) -> Accuracy:
        """Wait for the device and compare the outputs with the reference; the worst comparison of all outputs.

        ``outputs`` are those of another run on the same inputs, by name; the job's own by default.
        Errors: :class:`WrongAnswerError`, also where the kernel wrote past the end of an output.
        """
        operator = self.variant.operator
        rows = rows_to_check(operator, self.shape) if rows is None else rows
        self.device.synchronize()
        for name, guard in self.guards.items():
            watched = self.device.download(guard).view(np.uint8)
            touched = np.flatnonzero(watched != POISON)
            if touched.size:
                raise WrongAnswerError(
                    f"{self.variant.name} {self.shape}: the kernel wrote past the end of {name}, first at byte "
                    f"{touched[0]} behind it, {touched.size} bytes within the {watched.size} that are watched"
                )
        self._refuse_changed_inputs()
        found = []
        outputs = self.outputs if outputs is None else outputs
        for name, want in reference(operator, self.inputs, rows, self.scalars).items():
            try:
                got = self._download(outputs[name], rows)
                refuse_poison(operator, name, got, rows)
                found.append(compare(operator, name, got, want, rows, self.shape.N))
            except WrongAnswerError as error:
                raise WrongAnswerError(f"{self.variant.name} {self.shape}: {error}") from None
        return max(found, key=lambda accuracy: accuracy.of_tolerance)

    def _refuse_changed_inputs(self) -> None:
        """A kernel that writes its inputs would be right once. Small shapes only, for large ones take long to fetch."""
        for name, host in self.inputs.items():
            small = math.prod(self.arrays[name].shape) <= CHECK_ALL and len(host) == len(self.arrays[name])
            if small and self.device.download(self.arrays[name]).tobytes() != np.ascontiguousarray(host).tobytes():
                raise WrongAnswerError(f"{self.variant.name} {self.shape}: the kernel changed its input {name}")

    def _download(self, output: Any, rows: np.ndarray) -> np.ndarray:
        if not self.variant.operator.rowwise or len(rows) == self.shape.M:
            return self.device.download(output)
        return np.stack([self.device.download(output[int(row)]) for row in rows])


def check(
    device: Device,
    suite: Suite,
    variant: Variant,
    shape: Shape,
    inputs: Mapping[str, np.ndarray] | None = None,
    images: Mapping[str, Image] | None = None,
) -> Accuracy:
    """Run ``variant`` once at ``shape`` and compare with the reference; :class:`WrongAnswerError` or the errors found."""
    job = Job(device, suite, variant, shape, inputs, images)
    job.run()
    return job.verify()
