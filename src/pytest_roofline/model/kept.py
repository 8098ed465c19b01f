"""Counts and modelled times kept on disk from one run to the next, as JSON.

An entry is found by everything that can change what is counted: the code of this package, the images, launches,
arrays, inputs and scalars of the build, and the figures of the GPU model. The answer's errors are taken from disk only
where the reference and the tolerances of today say of it what they said then.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..declare.shape import at
from ..declare.values import Contents, Picked, make_inputs, reference, scalars_at
from ..run.build import Build
from ..run.compare import Accuracy
from ..run.sample import pick
from ..sim.isa.floats import Array
from ..sim.observe.traffic import Counts, Touch
from .count import ITEMS, Counted, unchecked
from .l2 import Dram
from .sol import LaunchSol
from .work import Work

SHORT = 16  # numbers that are written as they are


@cache
def own_code() -> str:
    """A digest of this package's source files: what counts and models may be another at the next commit."""
    root = Path(__file__).parents[1]
    found = hashlib.sha256(np.__version__.encode())
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def key_of(build: Build) -> str:
    """The key of a build's count; see the module."""
    plan = build.plan
    operator = plan.case.variant.operator
    images = {}
    for source, image in build.images.items():
        text = json.dumps([image.name, image.arch, image.ptx, image.log, image.defines])
        images[source] = hashlib.sha256(image.cubin + text.encode()).hexdigest()
    launches = [
        [one.kernel, one.source, one.args, one.grid, one.block, one.shared, one.cluster] for one in plan.launches
    ]
    arrays = [
        [one.name, one.shape, one.dtype.name, one.alignment, one.declared.role, one.declared.initial]
        for one in plan.arrays.values()
    ]
    inputs = {name: digest_of([held.tile]) for name, held in make_inputs(operator, plan.shape, items=ITEMS).items()}
    parts = [own_code(), images, launches, arrays, inputs, scalars_at(operator, plan.shape), asdict(plan.gpu)]
    shape = [plan.shape.extents, plan.shape.dtype]
    return hashlib.sha256(json.dumps([*parts, shape], default=str).encode()).hexdigest()


def digest_of(arrays: Iterable[Array]) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def verdict_of(build: Build, counted: Counted) -> str:
    """A digest of all that the verdict on the answer came from, but for the answer itself."""
    plan = build.plan
    operator, shape = plan.case.variant.operator, plan.shape
    if not counted.accuracy.values:
        return json.dumps([counted.accuracy.not_checked, unchecked(build), sorted(pick(operator, shape))])
    inputs: Mapping[str, Contents] = make_inputs(operator, shape, items=counted.items)
    want = reference(operator, shape, inputs, None, counted.picked)
    limits = [[a.name, a.rtol, at(f"atol of {a.name!r}", a.atol, shape), a.ulps] for a in operator.outputs]
    return digest_of(want[a.name] for a in operator.outputs) + json.dumps(limits, default=float)


def encoded(values: Array) -> Any:
    """A one-dimensional array of whole numbers: as it is, as start, step and count, or packed."""
    if len(values) <= SHORT:
        return values.tolist()
    steps = np.diff(values)
    if (steps == steps[0]).all():
        return {"start": int(values[0]), "step": int(steps[0]), "count": len(values)}
    return {"packed": base64.b64encode(zlib.compress(values.astype("<i8").tobytes())).decode()}


def decoded(given: Any) -> Array:
    if isinstance(given, list):
        return np.array(given, np.int64)
    found: Array
    if "packed" in given:
        found = np.frombuffer(zlib.decompress(base64.b64decode(given["packed"])), "<i8").astype(np.int64, copy=False)
    else:
        found = given["start"] + given["step"] * np.arange(given["count"], dtype=np.int64)
    return found


def counted_to_json(counted: Counted, verdict: str) -> bytes:
    """``verdict`` is that of :func:`verdict_of`."""
    works = [
        {
            **{name: getattr(work, name) for name in ("kernel", "blocks", "executed", "special", "ragged")},
            "buffers": [[name, astuple(counts)] for name, counts in work.buffers.items()],
            "lines": [[*place, astuple(counts)] for place, counts in work.lines.items()],
            "issued": dict(work.issued),
            "touched": None if work.touched is None else [_touch_to_json(one) for one in work.touched],
        }
        for work in counted.works
    ]
    picked = {name: encoded(index) for name, index in counted.picked.items()}
    found = {"works": works, "accuracy": asdict(counted.accuracy), "items": counted.items, "picked": picked}
    return json.dumps({**found, "verdict": verdict}, allow_nan=False).encode()


def _touch_to_json(one: Touch) -> Any:
    return [encoded(one.blocks), encoded(one.first), encoded(one.end), one.write]


def counted_from_json(data: bytes) -> tuple[Counted, str]:
    """What :func:`counted_to_json` was given."""
    found = json.loads(data)
    picked: Picked = {name: decoded(index) for name, index in found["picked"].items()}
    works = tuple(_work_from_json(one) for one in found["works"])
    return Counted(works, Accuracy(**found["accuracy"]), found["items"], picked), found["verdict"]


def _work_from_json(given: dict[str, Any]) -> Work:
    touched = given.pop("touched")
    buffers, lines = given.pop("buffers"), given.pop("lines")
    return Work(
        **given,
        buffers={name: Counts(*counts) for name, counts in buffers},
        lines={(place, name): Counts(*counts) for place, name, counts in lines},
        touched=None
        if touched is None
        else tuple(Touch(decoded(a), decoded(b), decoded(c), write) for a, b, c, write in touched),
    )


def launches_to_json(launches: Iterable[LaunchSol]) -> bytes:
    """DRAM traffic and ceilings of each launch, without its work."""
    return json.dumps([[one.dram and astuple(one.dram), one.limits] for one in launches], allow_nan=False).encode()


def launches_from_json(data: bytes, works: Iterable[Work]) -> tuple[LaunchSol, ...]:
    return tuple(
        LaunchSol(work, Dram(*moved) if moved else None, limits)
        for work, (moved, limits) in zip(works, json.loads(data), strict=True)
    )
