"""Shapes drawn from a declaration: boundaries of every extent, pairs of them, past each limit, past 2^32 elements.

A case varies one extent at a time around a small shape, and pairs of extents together; only shapes that the limits
allow are taken, and where one is not, the nearest in the other extents that is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from ..declare.shape import MOST, Shape
from ..declare.suite import Suite
from ..declare.values import independent
from ..declare.variant import Variant
from ..errors import RooflineError
from ..run.plan import planned
from ..run.run import SAMPLE_UNITS
from ..run.sample import units_of
from .boundaries import (
    FEW,
    GPU,
    LONG_RAGGED,
    RAGGED,
    SMALLEST,
    TYPED,
    boundary_values,
    contiguous,
    covered,
    limit_numbers,
)
from .pairs import Row, pairwise

LARGE = (65536, 70000)  # past what 16 bits count, and what a grid has in y and z
ELEMENTS = 2**17  # of the largest array of a case
LONG_ELEMENTS = 2**20 + 64  # where one extent alone is at a limit, or what limits ask of others leaves no smaller one
SAMPLED_ELEMENTS = 2**23  # of the largest array of a case with a large extent, of which some blocks are run
PAST = (2**32, 2**31)  # elements
LARGEST_Y = 65535  # blocks of a grid in y and z
SERIAL = 128  # elements of the largest array for each thread, with a large extent: a longer loop is slow to simulate
TRIED = 4096  # shapes that are tried to find one that the limits allow
GROWN = tuple(2**n for n in range(1, 63))  # sizes that are tried to break a limit that names no number


def base_shape(suite: Suite, variant: Variant, most: int = FEW) -> Shape | None:
    """A small shape that the variant runs, each extent at most ``most`` where limits allow; None if none is found."""
    default = suite.default(variant.operator).replace(dtype=variant.dtypes[0])
    wanted = default.replace(**{name: min(most, value) for name, value in default.extents.items()})
    return nearest(suite, variant, wanted)


def nearest(suite: Suite, variant: Variant, wanted: Shape, fixed: str = "", tried: int = TRIED) -> Shape | None:
    """``wanted``, or one with few other extents that the variant's limits allow, ``fixed`` kept; None if none is found.

    What is tried are the numbers that limits name, their multiples and those beside, the default and small numbers.
    """
    if not variant.broken_limit(wanted):
        return wanted
    lists = [_instead(suite, variant, wanted, name) if name != fixed else [wanted[name]] for name in wanted.extents]
    free = max(1, sum(len(one) > 1 for one in lists))
    lists = [one[: max(2, int(tried ** (1 / free)))] for one in lists]
    places = sorted(itertools.product(*(range(len(one)) for one in lists)), key=lambda at: (sum(at), at))
    for at in places:
        extents = {name: one[n] for name, one, n in zip(wanted.extents, lists, at, strict=True)}
        if not variant.broken_limit(shape := wanted.replace(**extents)):
            return shape
    if fixed:
        return None
    return next((s for s in suite.shapes(variant.operator) if not variant.broken_limit(s)), None)


def _instead(suite: Suite, variant: Variant, wanted: Shape, name: str) -> list[int]:
    """Values to try of one extent: itself, what limits name by closeness, the default, small numbers, one more or less
    than what limits name.
    """
    value, numbers = wanted[name], limit_numbers(suite, variant)[name]
    named = {n * -(-value // n) for n in numbers} | {n * (value // n) for n in numbers if value >= n} | numbers
    near = sorted(named, key=lambda n: (abs(n - value), n))
    beside = [n + step for n in sorted(numbers) for step in (1, -1) if n + step > 0]
    return list(dict.fromkeys([value, *near, suite.default(variant.operator)[name], *SMALLEST, *beside]))


def largest(variant: Variant, shape: Shape) -> int:
    """Elements of the largest array; more than anything for a shape at which an array can't be."""
    try:
        return max((math.prod(array.shape(shape)) for array in variant.arrays.values()), default=0)
    except RooflineError:
        return MOST


def boundary_shapes(suite: Suite, variant: Variant) -> list[Shape]:
    """Shapes that the variant runs, each once: boundaries, pairs of them, usual and large ones; for its first type."""
    base, least = base_shape(suite, variant), base_shape(suite, variant, 1)
    if base is None or least is None:
        return []
    values = {name: boundary_values(suite, variant, base, name) for name in base.extents}
    found = [
        base,
        *(_beside(suite, variant, base, least, name, n) for name in values for n in values[name]),
        *_pairs(suite, variant, base),
        *_usual(suite, variant),
        *_large(suite, variant, base, least),
    ]
    return list(dict.fromkeys(shape for shape in found if shape is not None))


def _at(suite: Suite, variant: Variant, base: Shape, name: str, value: int, most: int) -> Shape | None:
    """``base`` with one extent at a value, others near if it must be; None if it can't be or is too large."""
    if value > MOST:
        return None
    shape = nearest(suite, variant, base.replace(**{name: value}), name, TRIED // 8)
    return shape if shape is not None and largest(variant, shape) <= most else None


def _beside(suite: Suite, variant: Variant, base: Shape, least: Shape, name: str, value: int) -> Shape | None:
    """``base`` with one extent at a value; where that is too large, the least of the others that limits allow."""
    shape = _at(suite, variant, base, name, value, ELEMENTS)
    if shape is not None:
        return shape
    shape = _at(suite, variant, least, name, value, LONG_ELEMENTS)
    return shape if shape is not None and _is_quick(variant, shape) else None


def _pairs(suite: Suite, variant: Variant, base: Shape) -> Iterator[Shape]:
    """Every two extents together at: the least, a ragged one, and one past what a block covers or a warp."""
    if len(base.extents) < 2:
        return
    named = limit_numbers(suite, variant)
    values = {}
    for name in base.extents:
        cover = covered(variant, base, name)
        ragged = RAGGED[1] if name in contiguous(variant.operator) or len(base.extents) < 3 else 5
        wanted = (1, ragged, cover + 1 if cover > 1 else 3)
        shapes = (nearest(suite, variant, base.replace(**{name: n}), name, TRIED // 8) for n in (*wanted, *named[name]))
        values[name] = list(dict.fromkeys(s[name] for s in shapes if s is not None))[:3] or [base[name]]

    def allowed(row: Row) -> bool:
        shape = base.replace(**row)
        return largest(variant, shape) <= ELEMENTS and not variant.broken_limit(shape)

    for row in pairwise(values, allowed):
        yield base.replace(**row)


def _usual(suite: Suite, variant: Variant) -> Iterator[Shape]:
    """The default with 64, and with 1, of its independent extents; and the default itself, where it is small."""
    default = suite.default(variant.operator).replace(dtype=variant.dtypes[0])
    free = independent(variant.operator)
    for most in (64, 1):
        shape = default.replace(**{name: min(default[name], most) for name in free})
        if not variant.broken_limit(shape) and largest(variant, shape) <= LONG_ELEMENTS:
            yield shape
    if not variant.broken_limit(default) and largest(variant, default) <= ELEMENTS:
        yield default


def _large(suite: Suite, variant: Variant, base: Shape, least: Shape) -> Iterator[Shape | None]:
    """Past 2^16 of each extent, and of a grid's; only some blocks are run where they do not need each other."""
    for name in base.extents:
        for start in (base, least) if len(base.extents) <= 2 else (least,):
            values = dict.fromkeys((*LARGE, covered(variant, base, name) * LARGEST_Y + 1))
            shapes = (_at(suite, variant, start, name, value, SAMPLED_ELEMENTS) for value in values if value > 1)
            found = [shape for shape in shapes if shape is not None and _is_quick(variant, shape)]
            yield from found
            if found:
                break


def _is_quick(variant: Variant, shape: Shape) -> bool:
    """Whether some of the blocks can be run alone, or all of them have few threads, and those little to do each."""
    plan = planned(variant, shape, GPU)
    if plan is None:
        return True  # that it is refused is told where it is run
    threads = max(launch.blocks * launch.threads for launch in plan.launches)
    if independent(variant.operator) and (units_of(plan) or 0) >= SAMPLE_UNITS:
        return plan.largest <= SERIAL * threads
    return threads <= ELEMENTS and plan.largest <= SERIAL * threads


def typed_shapes(suite: Suite, variant: Variant) -> list[Shape]:
    """Fewer shapes for each further type: what is done with other vectors and in the memory of narrow elements."""
    base, least = base_shape(suite, variant), base_shape(suite, variant, 1)
    if base is None or least is None or len(variant.dtypes) < 2:
        return []
    found: list[Shape | None] = [base]
    for name in base.extents:
        numbers = {n for n in limit_numbers(suite, variant)[name] if n * largest(variant, base) <= ELEMENTS * FEW}
        wide = name in contiguous(variant.operator)
        wanted = {*(TYPED if wide else (1, *RAGGED)), *numbers, *(n + 1 for n in numbers)}
        found += [_at(suite, variant, base, name, n, ELEMENTS) for n in sorted(wanted)]
        if wide:
            longest = _at(suite, variant, least, name, LARGE[1], LONG_ELEMENTS)
            found += [longest] if longest is not None and _is_quick(variant, longest) else []
    shapes = dict.fromkeys(shape for shape in found if shape is not None)
    return [shape.replace(dtype=dtype) for dtype in variant.dtypes[1:] for shape in shapes]


def refused_shapes(suite: Suite, variant: Variant) -> list[Shape]:
    """For each limit a shape just past it, where one is found."""
    base = base_shape(suite, variant)
    if base is None:
        return []
    found = (next(_breaking(suite, variant, base, limit.reason), None) for limit in variant.limits)
    return list(dict.fromkeys(shape for shape in found if shape is not None))


def _breaking(suite: Suite, variant: Variant, base: Shape, reason: str) -> Iterator[Shape]:
    """Shapes that break this limit and none before it: beside what it names, small, or growing."""
    named = limit_numbers(suite, variant)
    beside = [(name, n + step) for name in named for n in sorted(named[name]) for step in (1, -1)]
    grown = [(name, n) for n in (*SMALLEST, *GROWN) for name in base.extents]
    for name, value in (*beside, *grown):
        if 0 < value <= MOST and variant.broken_limit(shape := base.replace(**{name: value})) == reason:
            yield shape


def huge_shape(suite: Suite, variant: Variant) -> Shape | None:
    """A shape with an array of over 2^32 elements, or else 2^31, that the variant runs; None if there is none.

    The default grows along an independent extent: of several, the one that makes the most blocks of a grid that a GPU
    takes. Each has little to do then, and some of them can be run.
    """
    default = suite.default(variant.operator).replace(dtype=variant.dtypes[0])
    start = nearest(suite, variant, default)
    if start is None:
        return None
    for past in PAST:
        found = {s: _blocks(variant, s) for s in _grown(variant, start, past) if not variant.broken_limit(s)}
        if any(found.values()):
            return max(found, key=found.__getitem__)
    return None


def _grown(variant: Variant, start: Shape, past: int) -> Iterator[Shape]:
    """``start`` with one independent extent so large that an array with it has more than ``past`` elements."""
    for name in independent(variant.operator):
        arrays = [array for array in variant.operator.arrays if name in array.dims]
        each = max((math.prod(array.shape(start)) // start[name] for array in arrays), default=0)
        if each:
            yield start.replace(**{name: past // each + 9})


def _blocks(variant: Variant, shape: Shape) -> int:
    """Blocks of the largest grid; 0 where the shape is refused."""
    plan = planned(variant, shape, GPU)
    return max(launch.blocks for launch in plan.launches) if plan else 0


def ragged_shape(suite: Suite, variant: Variant) -> Shape | None:
    """A small ragged shape, for checks that look at every access: loops over what blocks do not share out go round.

    Few are the independent extents, of which more make more blocks; a contiguous one is cut to a ragged number.
    """
    operator = variant.operator
    default = suite.default(operator).replace(dtype=variant.dtypes[0])
    few = {*independent(operator)} - contiguous(operator)
    ragged = {name: min(value, FEW if name in few else LONG_RAGGED[1]) for name, value in default.extents.items()}
    return nearest(suite, variant, default.replace(**ragged))
