"""The model of the L2 cache, which takes many accesses at a time, agrees to the byte with one that takes each line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import l2_by_line
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_roofline import Shape, Suite
from pytest_roofline.build.cache import Store
from pytest_roofline.hardware.gpus import Gpu, gpu_named
from pytest_roofline.model import l2, lru, recency, sol, spans
from pytest_roofline.model.l2 import LINE, Dram, Geometry, Sweep, dram, traffic, whole_grid
from pytest_roofline.model.models import Models
from pytest_roofline.model.spans import EvenTouch
from pytest_roofline.model.work import union_bytes
from pytest_roofline.run.case import Case
from pytest_roofline.sim.observe.traffic import Touch

GEOMETRIES = st.builds(Geometry, st.integers(1, 4), st.integers(1, 3), st.integers(1, 9))
SIZES = (1, 100, LINE, LINE + 100, 3 * LINE)


def even(blocks: int, start: int, stride: int, size: int, write: bool) -> EvenTouch:
    every = np.arange(blocks)
    first = start + stride * every
    return EvenTouch(every, first, first + size, write, start, stride, size)


@st.composite
def touches(draw: st.DrawFn, blocks: int, lines: int) -> Touch:
    """By all blocks at a steady distance, the same by all, or by some of them anywhere."""
    write, size = draw(st.booleans()), draw(st.sampled_from(SIZES))
    if draw(st.booleans()):
        stride = draw(st.sampled_from((0, 64, LINE, 2 * LINE, 3 * LINE)))
        return even(blocks, LINE * draw(st.integers(0, lines)) + draw(st.sampled_from((0, 17))), stride, size, write)
    some = np.array(sorted(draw(st.sets(st.integers(0, blocks - 1)))), np.int64)
    places = st.lists(st.integers(0, lines * LINE), min_size=len(some), max_size=len(some))
    first = np.array(draw(places), np.int64)
    return Touch(some, first, first + size, write)


@st.composite
def launches(draw: st.DrawFn) -> list[Sweep]:
    """Up to three launches on few lines, which come back to what they or those before them touched."""
    lines, found, before = draw(st.integers(1, 60)), [], []
    for _ in range(draw(st.integers(1, 3))):
        blocks = draw(st.integers(1, 24))
        here = [one for one in before if not len(one.blocks) or one.blocks[-1] < blocks]
        again = st.sampled_from(here) if here else touches(blocks, lines)
        taken = draw(st.lists(st.one_of(again, touches(blocks, lines)), max_size=6))
        taken += draw(st.lists(st.sampled_from(taken), max_size=6)) if taken else []
        before += taken
        found.append(Sweep(tuple(taken), blocks, draw(st.integers(1, 30))))
    return found


# So that few accesses come by every way in which many are counted.
SMALL = {
    "as it is": (),
    "content worked out at once": ((recency, "MANY", 0),),
    "content worked out after each chunk": ((recency, "BEHIND", 0),),
    "content worked out late": ((recency, "BEHIND", 3), (recency, "MANY", 3)),
    "short chunks": ((spans, "LONGEST", 7), (lru, "FILLED", 0.3)),
    "few lines numbered at once": ((spans, "TOGETHER", 4), (lru, "SCANNED", 3)),
    "every cut": ((spans, "NEAR", 0),),
}


@pytest.mark.parametrize("small", SMALL)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sweeps=launches(), geometry=GEOMETRIES)
def test_few_accesses(monkeypatch: pytest.MonkeyPatch, small: str, sweeps: list[Sweep], geometry: Geometry) -> None:
    """Reads and writes of a few lines in tiny caches of one to three partitions, launch after launch."""
    with monkeypatch.context() as patch:
        for module, name, value in SMALL[small]:
            patch.setattr(module, name, value)
        assert list(traffic(sweeps, geometry)) == l2_by_line.traffic(sweeps, geometry)


def many(seed: int) -> list[Sweep]:
    """Two launches of some hundred blocks that go through rows as kernels do: read, read again, written, in pieces."""
    random = np.random.default_rng(seed)
    blocks = int(random.integers(50, 400))
    size, row = (
        int(random.choice([512, 1024, LINE, 3000])),
        int(random.integers(1, 12)) * LINE + int(random.choice([0, 512])),
    )
    x, y, shared = 0, 2**24, 2**25
    found = []
    for _ in range(2):
        taken: list[Touch] = []
        for at in range(0, row, size):
            read, write = even(blocks, x + at, row, size, False), even(blocks, y + at, row, size, True)
            other = even(blocks, shared + at, 0, size, False)
            taken += [[read], [read, write], [read, other, write], [read, write, read]][random.integers(4)]
        taken += [even(blocks, x + at, row, size, bool(random.integers(2))) for at in range(0, row, size)]
        found.append(Sweep(tuple(taken), blocks, int(random.integers(1, blocks + 1))))
    return found


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_many_accesses(seed: int, partitions: int) -> None:
    """Launches that move several times what the cache holds, or a part of it, first cold, then warm."""
    sweeps = many(seed) * 2
    geometry = Geometry(sets=1 + 7 * (seed % 5), partitions=partitions, ways=31 if seed % 2 else 15)
    assert list(traffic(sweeps, geometry)) == l2_by_line.traffic(sweeps, geometry)


@pytest.mark.parametrize("others", range(8, 48, 4))
def test_the_last_of_repeated_accesses_counts(others: int) -> None:
    """Lines written twice, with others written in between, age from the second time on, in both partitions."""
    twice, between = even(16, 0, LINE, LINE, True), even(16, 2**20, LINE, LINE, True)
    new = even(others, 2**21, LINE, LINE, False)
    # Blocks of the second wave have another partition in each launch: they ask the home.
    sweeps = [Sweep((twice, between, twice), 16, 8), Sweep((new,), others, 8), Sweep((twice,), 16, 8)]
    for sets in range(4, 24):
        geometry = Geometry(sets, partitions=2, ways=3)
        assert list(traffic(sweeps, geometry)) == l2_by_line.traffic(sweeps, geometry)


@pytest.mark.parametrize("name", ["h200", "rtx4090"])
@pytest.mark.parametrize("variant", ["n1", "n4", "s1", "s9", "a2"])
def test_the_shipped_suite(
    monkeypatch: pytest.MonkeyPatch, shipped: Suite, tmp_path: Path, variant: str, name: str
) -> None:
    """Variants of the shipped suite at 2048 rows, cold and warm, with caches that hold an eighth of what they move."""
    asked = []

    def noted(sweeps: list[Sweep], gpu: Gpu, warm: bool) -> tuple[Dram, ...]:
        asked.append(sweeps)
        return dram(sweeps, gpu, warm)

    monkeypatch.setattr(sol, "dram", noted)
    chosen = shipped.variant(variant)
    shape = Shape(M=2048, N=chosen.operator.default.N)
    gpu = dataclasses.replace(gpu_named(name), l2_bytes=4 * 2**20)
    models = Models(gpu, Store(tmp_path))
    found = [
        one.dram for state in ("cold", "warm") for one in models.sol(Case(chosen, shape, shipped), state)[0].launches
    ]
    sweeps = asked[0]
    want = l2_by_line.traffic([*sweeps, *sweeps], Geometry.of(gpu))
    assert found == want
    assert sum(one.written for one in found) > 2 * 2**20


def test_a_write_leaves_no_old_copy() -> None:
    """A line written from one partition is not read in its old form in the other: the home alone has it to write."""
    cache = l2_by_line.LineByLine(Geometry(sets=1, partitions=2, ways=8))
    cache.access(0, own=0, home=1, write=False)
    cache.access(0, own=1, home=1, write=True)
    assert cache.content == [{0: False}, {0: True}]
    cache.access(0, own=0, home=1, write=True)
    assert cache.content == [{0: False}, {0: True}]
    assert (cache.read, cache.written) == (1, 0)


def test_nothing_touched() -> None:
    """Launches whose blocks touch nothing move nothing."""
    none = Touch(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), False)
    assert [one.read + one.written for one in traffic([Sweep((), 3, 2), Sweep((none,), 3, 2)], Geometry(1))] == [0, 0]


def test_traffic_is_json() -> None:
    """Bytes are Python's own whole numbers."""
    (moved,) = traffic([Sweep((even(9, 0, LINE, LINE, True), even(9, 0, LINE, LINE, False)), 9, 2)], Geometry(1, 1, 4))
    assert json.loads(json.dumps([moved.read, moved.written])) == [0, 5 * LINE]


def test_the_same_traffic_is_modelled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that differ in nothing that counts share a result; any figure that differs is modelled anew."""
    runs = []
    monkeypatch.setattr(l2, "_known", {})
    monkeypatch.setattr(l2, "traffic", lambda sweeps, geometry: runs.append(1) or traffic(sweeps, geometry))
    gpu = gpu_named("rtx4090")
    touch = {"blocks": 40, "start": 0, "stride": LINE, "size": LINE, "write": False}
    changes = [{}, {}, {"start": LINE}, {"stride": 0}, {"size": 1}, {"write": True}, {"blocks": 39}]
    for change in changes:
        dram([Sweep((even(**{**touch, **change}),), 40, 8)], gpu, False)
    assert len(runs) == len(changes) - 1
    one = even(**touch)
    dram([Sweep((one,), 40, 9)], gpu, False)
    dram([Sweep((one,), 41, 8)], gpu, False)
    dram([Sweep((one,), 40, 8)], gpu_named("h200"), False)
    dram([Sweep((one,), 40, 8)], gpu, True)
    dram([Sweep((one.spread(1, 2),), 40, 8)], gpu, False)
    dram([Sweep((one, one), 40, 8)], gpu, False)
    assert len(runs) == len(changes) + 5
    for _ in range(2):  # blocks that are not alike
        dram([Sweep((Touch(one.blocks, one.first, one.end, False),), 40, 8)], gpu, False)
    assert len(runs) == len(changes) + 7


def test_even_touches_say_what_their_arrays_say() -> None:
    """Those of a whole grid, and of one rank of each cluster, are known by a few figures."""
    blocks = np.array([0, 3, 9])
    (found,) = whole_grid([Touch(blocks, 500 + 96 * blocks, 532 + 96 * blocks, True)], 10)
    assert isinstance(found, EvenTouch)
    for one in (found, found.spread(1, 4), found.spread(1, 4).spread(0, 2)):
        every = np.arange(10)
        assert (one.blocks == one.rank + one.apart * every).all()
        assert (one.first == one.start + one.stride * every).all()
        assert (one.end == one.first + one.size).all()
    assert found.spread(1, 4).figures == (10, 1, 4, 500, 96, 32, True)


EVEN = st.builds(
    even,
    st.integers(1, 5),
    st.integers(0, 120),
    st.sampled_from((0, 4, 8, 32, 40)),
    st.integers(1, 40),
    st.just(False),
)


@settings(max_examples=300, deadline=None)
@given(touched=st.lists(EVEN, max_size=5))
def test_distinct_bytes(touched: list[EvenTouch]) -> None:
    """Bytes that blocks and accesses share count once, by the figures of even touches and by their arrays."""
    pieces = [range(first, end) for one in touched for first, end in zip(one.first, one.end, strict=True)]
    want = len({byte for piece in pieces for byte in piece})
    plain = [Touch(one.blocks, one.first, one.end, one.write) for one in touched]
    assert union_bytes(touched) == union_bytes(plain) == want
    assert spans.even_bytes(touched) in (want, None)


def test_rows_of_several_arrays_are_counted_by_their_figures() -> None:
    """Rows in pieces, of two arrays beside each other, with weights that all blocks share: no array is looked at."""
    row, x, y, weights = 96, 0, 96 * 8, 4000
    touched = [even(8, base + at, row, 32, False) for base in (x, y) for at in (0, 32, 64)]
    touched += [even(8, weights, 0, 96, False), even(8, x + 16, row, 32, False)]
    assert spans.even_bytes(touched) == 2 * 8 * 96 + 96
    assert spans.even_bytes([*touched, even(8, x, 2 * row, 32, False)]) is None
    assert spans.even_bytes([even(8, 0, 32, 48, False)]) is None
    assert spans.even_bytes([even(8, 0, -32, 16, False)]) is None
    assert spans.even_bytes([*touched[:2], Touch(*((np.array([3]),) * 3), False)]) is None
