"""The model of the L2 cache: by hand on small sequences, and on the ladder against what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_roofline.check import Job
from pytest_roofline.ladder import Shape
from pytest_roofline.measure import facts_of
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.l2 import LINE, Dram, Segment, Sweep, dram, segments
from pytest_roofline.sim.traffic import Touch


def rows(start, nbytes, write=False, shared=False):
    return Segment(start, 0 if shared else nbytes, nbytes, write)


def test_a_second_sweep_over_more_than_fits_misses_every_line():
    """Least recently used keeps nothing of a sequence one line longer than itself, and all of one that fits."""
    sweep = Sweep((rows(0, LINE),), blocks=9, in_flight=1)
    assert dram([sweep, sweep], 8 * LINE, warm=False) == Dram(18 * LINE, 0)
    assert dram([sweep, sweep], 9 * LINE, warm=False) == Dram(9 * LINE, 0)
    assert dram([sweep], 9 * LINE, warm=True) == Dram(0, 0)


def test_a_repeated_read_is_free_while_all_in_flight_fit():
    """A block reads its row twice: from DRAM twice only if the rows of all blocks in flight exceed the cache."""
    row = [rows(n * LINE, 4 * LINE) for n in range(1)]
    twice = Sweep((*row, *row), blocks=32, in_flight=4)
    assert dram([twice], 16 * LINE, warm=False).read == 32 * 4 * LINE
    assert dram([twice], 15 * LINE, warm=False).read > 32 * 4 * LINE


def test_writes_reach_dram_when_they_are_pushed_out():
    """What is still in the cache at the end was not written; warm, as much of the run before is pushed out instead."""
    sweep = Sweep((rows(0, LINE, write=True),), blocks=100, in_flight=1)
    assert dram([sweep], 10 * LINE, warm=False) == Dram(0, 90 * LINE)
    assert dram([sweep], 10 * LINE, warm=True) == Dram(0, 100 * LINE)


def test_segments_are_read_off_a_few_blocks():
    """Three blocks at a steady distance stand for all; at an unsteady one, or of different sizes, they do not."""
    blocks = np.array([0, 1, 9])

    def touched(first, size=64):
        first = np.array(first)
        return [Touch(blocks, first, first + size, write=False)]

    assert segments(touched([100, 164, 676])) == (Segment(100, 64, 64, False),)
    assert segments(touched([100, 100, 100])) == (Segment(100, 0, 64, False),)
    assert segments(touched([100, 164, 677])) is None
    assert segments(touched([100, 164, 676], np.array([64, 64, 32]))) is None


@pytest.fixture(scope="module")
def modelled():
    """``modelled(ladder, rung, shape, card, warm)``: DRAM bytes read and written in multiples of N a row."""

    def run(ladder, rung, shape, card, warm):
        device = SimDevice(card)
        device.tracing = True
        job = Job(device, ladder, rung, shape)
        job.program.run([0, 1, shape.M // 2, shape.M - 1])
        sweeps = []
        for launch, figures in zip(device.take_launches(), facts_of(job).launches, strict=True):
            found = segments(launch.touched)
            assert found is not None
            sweeps.append(Sweep(found, shape.M, device.card.sms * figures.occupancy.blocks))
        moved = dram(sweeps, device.card.l2_bytes, warm)
        return moved.read / (shape.M * shape.N), moved.written / (shape.M * shape.N)

    return run


# DRAM bytes a row in multiples of N, read and written together, as an H200's counters gave them at 8192 rows, warm.
MEASURED_H200 = {"n1": 12.0, "n2": 8.0, "n3": 8.0, "n4": 8.0, "s1": 15.9, "s2": 12.0, "s3": 8.0, "s4": 7.9}


def test_the_ladder_on_an_h200(modelled, ladder, rung):
    """At 8192 rows the model is within 5 % of the DRAM traffic that was counted on an H200."""
    shape = Shape(8192, rung.operator.default_shape.N)
    assert sum(modelled(ladder, rung, shape, "h200", True)) == pytest.approx(MEASURED_H200[rung.name], rel=0.05)


def test_the_second_read_of_n2_is_free_on_an_rtx_4090(modelled, ladder):
    """n2 reads x twice, and 72 MiB of L2 hold what its blocks in flight touch: 8N, where n1 moves 12N."""
    shape = Shape(8192, 3584)
    assert sum(modelled(ladder, ladder.rung("n1"), shape, "rtx4090", True)) == pytest.approx(12, rel=0.01)
    assert sum(modelled(ladder, ladder.rung("n2"), shape, "rtx4090", True)) == pytest.approx(8, rel=0.01)


def test_few_rows_stay_in_the_cache(modelled, ladder, rung):
    """At 32 rows nothing goes to DRAM when warm; cold, x and the weight are read once and nothing is written yet."""
    shape = Shape(32, rung.operator.default_shape.N)
    assert modelled(ladder, rung, shape, "h200", True) == (0, 0)
    read, written = modelled(ladder, rung, shape, "h200", False)
    assert 4 <= read < 4.2
    assert written == 0
