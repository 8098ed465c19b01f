"""The verdict on what a build left in its arrays: outputs against the reference, inputs unchanged, nothing overrun."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..declare.array import POISON, Array
from ..declare.tolerance import is_right
from ..declare.values import indices_of, reference
from ..errors import DeclarationError, NotCheckedError, WrongAnswerError
from ..hardware.dtypes import is_floating
from .compare import Accuracy, compare, element, worst
from .device import POISON as POISON_BYTE
from .held import Held
from .plan import PlannedArray
from .sample import CHECK_ALL, flat_indices, gather, pick, picked_from, units_of

COMPARED = 2**27  # elements that a reference may compute with at once
OTHER_POISON = 0x55
LEAST_LOOSE = 64  # values of an output from which all of them are near 0 by no chance
PART = 2**24  # elements that are fetched at a time to find one that changed


def verify_all(held: Held, outputs: Mapping[str, Any]) -> Accuracy:
    shape = held.plan.shape
    held.picked = picked = pick(held.operator, shape)
    if not picked and held.plan.largest > COMPARED:
        return Accuracy(0.0, 0.0, 0, f"the reference of {held.operator.name} needs all of its inputs, too many here")
    want = reference(held.operator, shape, held.inputs, held.scalars, picked)
    found = []
    for array in held.operator.outputs:
        planned = held.plan.arrays[array.name]
        flat = flat_indices(planned, indices_of(array, shape, picked))
        got = _download(held, outputs[array.name], planned, flat)
        _refuse_unwritten(held, array, planned, got, flat, outputs[array.name])
        at = np.stack(np.unravel_index(flat.reshape(-1), planned.shape), axis=-1) if planned.shape else None
        found.append(compare(array, shape, got, want[array.name], at))
        _refuse_loose(held, array, want[array.name])
    return worst(found)


def _refuse_loose(held: Held, array: Array, want: np.ndarray) -> None:
    """Refuse a tolerance that fits small shapes and takes an answer of zeros at this one: it checks nothing here."""
    if not held.drawn or want.size < LEAST_LOOSE or not np.any(want):
        return
    zeros = np.zeros(want.shape, held.plan.arrays[array.name].dtype)
    if is_right(array, zeros, want, held.plan.shape)[0].all():
        raise DeclarationError(
            f"{held.plan.case}: the tolerance of {array.name} accepts an answer of zeros at {held.plan.shape!r}; make "
            "rtol and atol smaller, or atol a function of the shape"
        )


def verify_written(held: Held, written: Mapping[str, np.ndarray]) -> Accuracy:
    """Compare exactly the elements which the units that ran have written: sorted flat indices by output."""
    shape = held.plan.shape
    held.picked = picked = picked_from(held.plan.arrays, written, held.operator)
    size = max(math.prod(map(len, indices_of(a, shape, picked))) for a in held.operator.arrays)
    if size > COMPARED:
        raise NotCheckedError(f"{held.plan.case}: to compare what the blocks that ran wrote takes {size} values")
    want = reference(held.operator, shape, held.inputs, held.scalars, picked)
    found = []
    for array in held.operator.outputs:
        planned, flat = held.plan.arrays[array.name], written[array.name]
        _refuse_incomplete(held, array, planned, flat, picked)
        at = np.unravel_index(flat, planned.shape)
        place = tuple(
            np.searchsorted(index, one) for index, one in zip(indices_of(array, shape, picked), at, strict=True)
        )
        got = gather(held.device, held.arrays[array.name], flat)
        found.append(compare(array, shape, got, want[array.name][place], np.stack(at, axis=-1)))
        _refuse_loose(held, array, want[array.name][place])
    return worst(found)


def _download(held: Held, array: Any, planned: PlannedArray, flat: np.ndarray) -> np.ndarray:
    """The elements at flat indices, in their shape."""
    if planned.size <= CHECK_ALL:
        whole: np.ndarray = held.device.download(array).reshape(-1)[flat]
        return whole
    order = np.argsort(flat, axis=None, kind="stable")
    values = gather(held.device, array, flat.reshape(-1)[order])
    got = np.empty(flat.size, values.dtype)
    got[order] = values
    found: np.ndarray = got.reshape(flat.shape)
    return found


def refuse_overrun(held: Held) -> None:
    for name, guard in held.guards.items():
        watched = held.device.download(guard).view(np.uint8)
        touched = np.flatnonzero(watched != POISON_BYTE)
        if touched.size:
            raise WrongAnswerError(
                f"the kernel wrote past the end of {name}, first at byte {touched[0]} behind it, {touched.size} "
                f"bytes within the {watched.size} that are watched"
            )


def refuse_changed_inputs(held: Held) -> None:
    """A kernel that writes its inputs would be right once."""
    for array in held.only_read():
        name = array.name
        if held.device.fingerprint(held.arrays[name]) == held.fingerprints[name]:
            continue
        planned, changed = held.plan.arrays[name], _first_change(held, name)
        if changed is not None:
            raise WrongAnswerError(
                f"the kernel changed its input {name}, first {element(name, index_at(planned, changed))}; where "
                'that is meant give it role="inout"'
            )


def _first_change(held: Held, name: str) -> int | None:
    """Flat index of the first element of an input that is not what it was."""
    array, contents = held.arrays[name], held.inputs[name]
    size = math.prod(contents.shape)
    written = held.device.written(array)
    for start in range(0, size, PART):
        flat = np.arange(start, min(size, start + PART))
        flat = flat if written is None else np.intersect1d(flat, written, assume_unique=True)
        now, then = gather(held.device, array, flat), contents.at(flat)
        other = np.flatnonzero((now.view(np.uint8) != then.view(np.uint8)).reshape(len(flat), -1).any(axis=1))
        if other.size:
            return int(flat[other[0]])
    return None


def _refuse_unwritten(
    held: Held, array: Array, planned: PlannedArray, got: np.ndarray, flat: np.ndarray, output: Any
) -> None:
    """Refuse an output that was poisoned and in which elements were never written."""
    if array.role == "inout" or array.initial != POISON or not got.size:
        return
    written = held.device.written(output) if output is held.arrays[array.name] else None
    missing = _still_poisoned(held, array, planned, got, flat) if written is None else ~np.isin(flat, written)
    if missing.any():
        first = index_at(planned, int(flat[missing][0]))
        raise WrongAnswerError(
            f"{int(missing.sum())} of {got.size} values of {array.name} were never written, the first is "
            f"{element(array.name, first)}"
        )


def _still_poisoned(held: Held, array: Array, planned: PlannedArray, got: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Elements that hold the poison; of types in which it may be an answer, those that hold any poison.

    A NaN that the GPU computes is 0x7fffffff (PTX ISA, "Floating point comparisons"), the poison 0xffffffff. In
    other types a second run on another poison tells.
    """
    missing = _all_bytes(got, POISON_BYTE)
    if not missing.any() or (is_floating(got.dtype) and got.dtype.itemsize > 1):
        return missing
    held.restore(OTHER_POISON)
    held.program.run()
    held.device.synchronize()
    again = _download(held, held.arrays[array.name], planned, flat)
    held.restore()
    held.program.run()
    held.device.synchronize()
    still: np.ndarray = missing & _all_bytes(again, OTHER_POISON)
    return still


def _refuse_incomplete(
    held: Held, array: Array, planned: PlannedArray, flat: np.ndarray, picked: Mapping[str, Any]
) -> None:
    """Where each unit has one item of its own, all of the item must be written."""
    if array.role == "inout" or array.initial != POISON:
        return
    if not flat.size:
        raise WrongAnswerError(f"the blocks that ran wrote nothing to {array.name}")
    items = math.prod(held.plan.shape[name] for name in picked)
    if items != units_of(held.plan) or len(picked) != 1:
        return
    wanted = np.sort(flat_indices(planned, indices_of(array, held.plan.shape, picked)), axis=None)
    at = np.minimum(np.searchsorted(flat, wanted), flat.size - 1)
    missing = wanted[flat[at] != wanted]
    if missing.size:
        index = index_at(planned, int(missing[0]))
        raise WrongAnswerError(
            f"{missing.size} values of {array.name} that the blocks which ran have to write were never written, "
            f"the first is {element(array.name, index)}"
        )


def index_at(planned: PlannedArray, flat: int) -> np.ndarray:
    """The index in an array's own dims of an element counted in C order."""
    return np.array(np.unravel_index(flat, planned.shape) if planned.shape else (), np.int64)


def _all_bytes(values: np.ndarray, byte: int) -> np.ndarray:
    raw = np.ascontiguousarray(values).reshape(*values.shape, 1).view(np.uint8)
    found: np.ndarray = (raw == byte).all(axis=-1)
    return found
