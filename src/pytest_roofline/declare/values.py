"""Contents of inputs, and the reference evaluated on them or on a part of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..errors import DeclarationError, RefusedError
from ..hardware.dtypes import INTEGERS, is_floating
from ..hardware.host import enough_memory
from .array import Array
from .operator import Operator, Values
from .shape import Shape, called

TILE_ABOVE = 2**27  # elements from which an input repeats itself, so that the host does not have to hold it
ITEMS = 1009  # different items of a large input: a prime, so that an offset that wraps at 2^32 lands on other values
LOOSE_TILE = 2**20  # elements of a repeated part where items are larger than the host should hold, at least
LEAST_TILE = 2**15  # elements of a repeated part: of small items more are different
TRIAL_ELEMENTS = 2**22  # of all extents multiplied, at most, where an operator is tried
SMALL = 6  # extents of the shape at which an operator is tried when it is declared: even, for one may be halved
EXACT = 1e-9  # relative difference of two float64 evaluations that are the same but for the order of sums

Picked = Mapping[str, np.ndarray]  # by extent, the indices that are looked at; all of an extent that is not named


@dataclass(frozen=True, eq=False)
class Contents:
    """An array of ``shape`` whose element i, counted in C order, is ``tile[i % len(tile)]``."""

    tile: np.ndarray
    shape: tuple[int, ...]

    @classmethod
    def of(cls, values: np.ndarray) -> Contents:
        return cls(np.ascontiguousarray(values).reshape(-1), values.shape)

    @property
    def dtype(self) -> np.dtype:
        return self.tile.dtype

    @property
    def whole(self) -> bool:
        """Whether the host holds all of it."""
        return self.tile.size == math.prod(self.shape)

    def full(self) -> np.ndarray:
        """All of it, repeated where it repeats."""
        size = math.prod(self.shape)
        if self.whole:
            return self.tile.reshape(self.shape)
        with enough_memory(f"an array of {self.shape}", size * self.dtype.itemsize):
            return np.resize(self.tile, size).reshape(self.shape)

    def take(self, indices: Sequence[np.ndarray]) -> np.ndarray:
        """The elements at the product of ``indices``, one array of them for each dim."""
        flat = np.zeros((1,) * len(self.shape), np.int64)
        for axis, index in enumerate(indices):
            stride = math.prod(self.shape[axis + 1 :])
            flat = flat + (index.astype(np.int64) * stride).reshape([-1 if d == axis else 1 for d in range(flat.ndim)])
        taken: np.ndarray = self.tile[flat % self.tile.size]
        return taken

    def at(self, flat: np.ndarray) -> np.ndarray:
        """The elements at flat indices."""
        found: np.ndarray = self.tile[flat % self.tile.size]
        return found


def make_inputs(operator: Operator, shape: Shape, seed: int = 0, items: int | None = None) -> dict[str, Contents]:
    """Contents of every input by name, from a fixed ``seed``.

    Beyond ``TILE_ABOVE`` elements, or where ``items`` asks for it, an array repeats itself after so many items: an item
    is what the operator's independent extents leave of it. Where those are too large, as of b in a matrix product a b,
    it repeats itself after a prime number of elements, whatever they belong to.
    Errors: :class:`DeclarationError` for what ``make`` returns, :class:`DeviceMemoryError` for an array too large.
    """
    return _drawn(operator, shape, seed, lambda array, extents: _tile(operator, array, extents, items))


def _drawn(
    operator: Operator, shape: Shape, seed: int, tile: Callable[[Array, tuple[int, ...]], int]
) -> dict[str, Contents]:
    """Contents of every input, which repeat themselves after ``tile`` elements."""
    found = {}
    for index, array in enumerate(operator.inputs):
        rng = np.random.default_rng([seed, index, *shape.extents.values()])
        extents = array.shape(shape)
        found[array.name] = Contents(_values(array, shape, rng, tile(array, extents)), extents)
    return found


def _tile(operator: Operator, array: Array, extents: tuple[int, ...], items: int | None) -> int:
    """Elements after which the array repeats itself."""
    size = math.prod(extents)
    if array.make is not None or (items is None and size <= TILE_ABOVE):
        return size
    free = independent(operator)
    leading = 0
    while leading < len(array.dims) and array.dims[leading] in free:
        leading += 1
    item = math.prod(extents[leading:])
    wanted = (items or ITEMS) if leading else 1
    if leading and wanted * item < LEAST_TILE:
        wanted = next_prime(-(-LEAST_TILE // item))
    tile = min(size, wanted * item)
    return tile if tile <= TILE_ABOVE else next_prime(LOOSE_TILE)


def next_prime(number: int) -> int:
    """The least prime of at least ``number``."""
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _values(array: Array, shape: Shape, rng: np.random.Generator, count: int) -> np.ndarray:
    """``count`` elements of the array, flat."""
    dtype = array.dtype_at(shape)
    with enough_memory(f"{array.name} of {array.shape(shape)}", count * max(4, dtype.itemsize)):
        if array.make is not None:
            return _made(array, shape, rng)
        low, high = array.bounds(shape)
        if dtype.name == "bool":
            return rng.integers(0, 2, count).astype(bool)
        if dtype.name in INTEGERS:
            return _integers(array, rng, count, low, high)
        wide = np.float64 if dtype.name == "float64" else np.float32
        values = rng.random(count, dtype=wide)
        values *= wide(high - low)
        values += wide(low)
        return values.astype(dtype, copy=False)


def _integers(array: Array, rng: np.random.Generator, count: int, low: float, high: float) -> np.ndarray:
    kind = np.dtype(array.dtype)
    info = np.iinfo(kind)
    least, most = math.ceil(low), max(math.ceil(low) + 1, math.ceil(high))
    if least < info.min or most - 1 > info.max:
        raise RefusedError(f"array {array.name!r} is {array.dtype}, which does not hold [{least}, {most})")
    return rng.integers(least, most, count, dtype=kind, endpoint=False)


def _made(array: Array, shape: Shape, rng: np.random.Generator) -> np.ndarray:
    what = f"the contents of array {array.name!r}"
    assert array.make is not None
    made = called(what, array.make, shape, rng)
    wanted, dtype = array.shape(shape), array.dtype_at(shape)
    if not isinstance(made, np.ndarray) or made.shape != wanted:
        found = made.shape if isinstance(made, np.ndarray) else repr(made)
        raise DeclarationError(f"{what} at {shape!r}: make returned {found}, wanted an array of {wanted}")
    return np.ascontiguousarray(made).astype(dtype, copy=False).reshape(-1)


def scalars_at(operator: Operator, shape: Shape, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """The value of every scalar: as given, or as declared."""
    given = given or {}
    return {s.name: given[s.name] if s.name in given else s.at(shape) for s in operator.scalars}


def reference(
    operator: Operator,
    shape: Shape,
    inputs: Mapping[str, Contents],
    scalars: Mapping[str, float] | None = None,
    picked: Picked | None = None,
) -> dict[str, np.ndarray]:
    """Every output in float64 (integers as they are); only at the ``picked`` indices of some extents, where given.

    Errors: :class:`DeclarationError` where the reference raises, or returns other outputs or shapes than declared.
    """
    picked = picked or {}
    host = {}
    for array in operator.inputs:
        contents = inputs[array.name]
        values = contents.take(indices_of(array, shape, picked)) if picked else contents.full()
        host[array.name] = values.astype(np.float64) if is_floating(values.dtype) else values
    seen = Values(shape, host, scalars_at(operator, shape, scalars))
    with np.errstate(all="ignore"):
        outputs = called_reference(operator, seen)
    found = {}
    for array in operator.outputs:
        wanted = tuple(len(index) for index in indices_of(array, shape, picked))
        values = np.asarray(outputs[array.name])
        if values.shape != wanted:
            raise DeclarationError(
                f"operator {operator.name!r} at {shape!r}: its reference returns {array.name} of {values.shape}, "
                f"declared is {wanted}"
            )
        found[array.name] = values
    return found


def called_reference(operator: Operator, seen: Values) -> Mapping[str, np.ndarray]:
    """What the reference returns, by name; of a single output the array alone will do."""
    what, names = f"operator {operator.name!r}: its reference", {a.name for a in operator.outputs}
    try:
        outputs = operator.reference(seen)
    except Exception as error:
        raise DeclarationError(f"{what} fails at {seen.shape!r}: {type(error).__name__}: {error}") from error
    if not isinstance(outputs, Mapping) and len(names) == 1:
        return {next(iter(names)): outputs}
    if not isinstance(outputs, Mapping) or {*outputs} != names:
        given = ", ".join(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise DeclarationError(f"{what} must return all of {', '.join(sorted(names))}; it returned {given}")
    return outputs


def indices_of(array: Array, shape: Shape, picked: Picked) -> tuple[np.ndarray, ...]:
    """For each dim of ``array`` the indices that are looked at."""
    return tuple(
        picked[dim] if isinstance(dim, str) and dim in picked else np.arange(extent)
        for dim, extent in zip(array.dims, array.shape(shape), strict=True)
    )


def trial_shapes(operator: Operator) -> list[Shape]:
    """Shapes to try an operator at: small extents, each another; then extents that more numbers divide."""
    dtype = operator.default.dtype if operator.default else "float32"
    small = Shape(dtype=dtype, **{name: SMALL + 2 * n for n, name in enumerate(operator.extents)})
    even = [Shape(dtype=dtype, **dict.fromkeys(operator.extents, size)) for size in (32, 128)]
    return [small, *even, *([operator.require(operator.default)] if operator.default else [])]


@dataclass(frozen=True, eq=False)
class Trial:
    """An operator evaluated at one shape: its inputs and what the reference makes of them."""

    shape: Shape
    inputs: Mapping[str, Contents]
    outputs: Mapping[str, np.ndarray]


@lru_cache(maxsize=256)
def trial(operator: Operator) -> Trial:
    """The operator at the first of its trial shapes at which the reference can be evaluated.

    Errors: :class:`DeclarationError` of the first one where it can be evaluated at none.
    """
    first: DeclarationError | None = None
    for shape in trial_shapes(operator):
        if math.prod(shape.extents.values()) > TRIAL_ELEMENTS:
            continue
        try:
            inputs = _drawn(operator, shape, 0, lambda _, extents: math.prod(extents))  # none repeats itself
            return Trial(shape, inputs, reference(operator, shape, inputs))
        except DeclarationError as error:
            first = first or error
        except RefusedError as error:
            first = first or DeclarationError(str(error))
    raise first or DeclarationError(f"operator {operator.name!r} has no shape small enough to try it at")


@lru_cache(maxsize=256)
def independent(operator: Operator) -> tuple[str, ...]:
    """The extents along which outputs do not depend on each other: rows of a softmax, M and N of a matrix product.

    Found by evaluating the reference at a small shape with some indices of an extent left out: what is computed for the
    others must be the same. So a part of a large shape can be checked without computing all of it. Where the
    reference can't do with less (it counts on a whole extent, or numbers positions) the extent is not independent.
    """
    try:
        tried = trial(operator)
    except DeclarationError:
        return ()
    found: list[str] = []
    for extent in operator.extents:
        if all(extent in array.dims for array in operator.outputs) and _is_free(operator, tried, (*found, extent)):
            found.append(extent)
    return tuple(found)


def _is_free(operator: Operator, tried: Trial, extents: Sequence[str]) -> bool:
    """Whether the outputs at some indices of ``extents`` are what the reference makes of the inputs there alone."""
    shape = tried.shape
    for picks in ((1, 4), (0, 3, 5), (2,)):
        picked = {extent: np.array([n for n in picks if n < shape[extent]]) for extent in extents}
        try:
            part = reference(operator, shape, tried.inputs, picked=picked)
        except DeclarationError:
            return False
        for array in operator.outputs:
            whole = tried.outputs[array.name]
            want = whole[np.ix_(*indices_of(array, shape, picked))] if array.dims else whole
            close = EXACT * float(np.max(np.abs(whole), initial=0.0, where=np.isfinite(whole)))
            if not np.allclose(part[array.name], want, rtol=EXACT, atol=close, equal_nan=True):
                return False
    return True
