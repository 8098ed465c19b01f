"""The model of the L2 cache: by hand on small sequences, and on the ladder against what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_roofline.cards import card
from pytest_roofline.device import POISON
from pytest_roofline.ladder import Shape
from pytest_roofline.modelled import Models
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.l2 import LINE, Cache, Dram, Sweep, whole_grid
from pytest_roofline.sim.traffic import Touch

ROOM = 8  # lines of the small caches below, which have one set


def rows(blocks, nlines, write=False, start=0, shared=False):
    """Block b touches ``nlines`` lines of its own, or all of them the same."""
    every = np.arange(blocks)
    first = LINE * (start + nlines * every * (not shared))
    return Touch(every, first, first + LINE * nlines, write)


def small(partitions=1):
    return Cache(ROOM * LINE * partitions, partitions, ways=ROOM, others=0)


def test_a_second_sweep_over_more_than_fits_misses_every_line():
    """Least recently used keeps nothing of a sequence one line longer than itself, and all of one that fits."""
    for blocks, again in ((ROOM + 1, ROOM + 1), (ROOM, 0)):
        cache, sweep = small(), Sweep((rows(blocks, 1),), blocks, in_flight=1)
        assert cache.run(sweep) == Dram(blocks * LINE, 0)
        assert cache.run(sweep, 1) == Dram(again * LINE, 0)


def test_a_repeated_read_is_free_while_all_in_flight_fit():
    """A block reads its row twice: from DRAM twice only if the rows of all blocks in flight exceed the cache."""
    row = rows(32, 2)
    for in_flight, reads in ((4, 1), (5, 2)):
        assert small().run(Sweep((row, row), 32, in_flight)).read >= reads * 32 * 2 * LINE * 0.9
    assert small().run(Sweep((row, row), 32, 4)).read == 32 * 2 * LINE


def test_writes_reach_dram_when_they_are_pushed_out():
    """What is still in the cache at the end was not written; warm, as much of the run before is pushed out instead."""
    cache, sweep = small(), Sweep((rows(100, 1, write=True),), 100, in_flight=1)
    assert cache.run(sweep) == Dram(0, (100 - ROOM) * LINE)
    assert cache.run(sweep, 1) == Dram(0, 100 * LINE)


def test_a_line_read_from_the_other_partition_takes_two_places():
    """Of two partitions each keeps what its own SMs read: a line all of them read lies in both, and is read once."""
    cache = small(partitions=2)
    lines = ROOM // 2
    everyone = Sweep((rows(64, lines, shared=True),), 64, in_flight=64)
    assert cache.run(everyone) == Dram(lines * LINE, 0)
    assert sum(len(content) for content in cache.content) == 2 * lines


def test_a_write_leaves_no_old_copy():
    """A line written from one partition is not read in its old form in the other: the home alone has it to write."""
    cache = small(partitions=2)
    cache.access(0, own=0, home=1, write=False)
    cache.access(0, own=1, home=1, write=True)
    assert [dict(content) for content in cache.content] == [{0: False}, {0: True}]
    cache.access(0, own=0, home=1, write=True)
    assert [dict(content) for content in cache.content] == [{0: False}, {0: True}]
    assert (cache.read, cache.written) == (1, 0)


def test_the_whole_grid_is_read_off_a_few_blocks():
    """Three blocks at a steady distance stand for all; at an unsteady one, or of different sizes, they do not."""
    blocks = np.array([0, 1, 9])

    def touched(first, size=64):
        first = np.array(first)
        return [Touch(blocks, first, first + size, write=False)]

    (found,) = whole_grid(touched([100, 164, 676]), 10)
    assert found.first.tolist() == list(range(100, 740, 64))
    assert (found.end - found.first == 64).all()
    (same,) = whole_grid(touched([100, 100, 100]), 10)
    assert same.first.tolist() == [100] * 10
    assert whole_grid(touched([100, 164, 677]), 10) is None
    assert whole_grid(touched([100, 164, 676], np.array([64, 64, 32])), 10) is None


@pytest.fixture(scope="module")
def modelled():
    """``modelled(ladder, rung, shape, card, state)``: the floor."""
    models = {}

    def run(ladder, rung, shape, name, state):
        found, _ = models.setdefault(name, Models(ladder, card(name))).floor(rung, shape, state)
        return found

    return run


# DRAM bytes a row in multiples of N, read and written together, as an H200's counters gave them at 8192 rows: cold
# (flushed before the rung) and warm. By ncu, driver 580.159.04, 2026-11-30.
MEASURED_H200 = {
    "n1": (11.16, 11.97),
    "n2": (7.22, 8.00),
    "n3": (7.07, 7.95),
    "n4": (7.08, 7.96),
    "s1": (14.54, 15.94),
    "s2": (10.54, 11.93),
    "s3": (6.62, 7.95),
    "s4": (6.57, 7.93),
}


@pytest.mark.parametrize("state", ["cold", "warm"])
def test_the_ladder_on_an_h200(modelled, ladder, rung, state):
    """At 8192 rows the model is within 5 % of the DRAM traffic that was counted on an H200, cold as warm."""
    shape = Shape(8192, rung.operator.default_shape.N)
    found = modelled(ladder, rung, shape, "h200", state).dram
    measured = MEASURED_H200[rung.name][state == "warm"]
    assert (found.read + found.written) / (shape.M * shape.N) == pytest.approx(measured, rel=0.05)


def test_the_second_read_of_n2_is_free_on_an_rtx_4090(modelled, ladder):
    """n2 reads x twice, and 72 MiB of L2 hold what its blocks in flight touch: 8N, where n1 moves 12N."""
    shape = Shape(8192, 3584)
    for name, each in (("n1", 12), ("n2", 8), ("n3", 8)):
        found = modelled(ladder, ladder.rung(name), shape, "rtx4090", "warm").dram
        assert (found.read + found.written) / (shape.M * shape.N) == pytest.approx(each, rel=0.01), name


def test_few_rows_stay_in_the_cache(modelled, ladder, rung):
    """At 32 rows nothing goes to DRAM when warm; cold, x and the weight are read once and nothing is written yet."""
    shape = Shape(32, rung.operator.default_shape.N)
    assert modelled(ladder, rung, shape, "h200", "warm").dram == Dram(0, 0)
    cold = modelled(ladder, rung, shape, "h200", "cold").dram
    assert 4 <= cold.read / (shape.M * shape.N) < 4.2
    assert cold.written == 0


def test_sparse_memory_is_read_where_nothing_was_touched():
    """Bytes of a page that nobody touched are the poison, also when reading them makes the page."""
    array = SimDevice(sparse_above=2**10).empty((2**20,), "uint8")
    assert set(array[70000:70010].get()) == {POISON}
