"""The ladder in the simulator: what it counts, how long it takes, and that the order of execution does not matter."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pytest_roofline.check import Job, images_of
from pytest_roofline.ladder import Shape
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.traffic import by_buffer, exponentials

ROWS = 64
BLOCK, WARP, ROUNDS = 256, 32, 5
# A merge of two pairs (m, s) takes two exponentials; each of five rounds merges in every lane, in all warps of the
# block and then once more in warp 0.
MERGES = 2 * ROUNDS * (BLOCK + WARP)
# Exponentials an element: s1 sums exp(x - m), then divides exp(x - m). s2 and s3 merge (x, 1) into the running pair,
# which is two, and divide. s4 summarises four with four exponentials and merges the group with two.
EXPONENTIALS = {"s1": 2.0, "s2": 3.0, "s3": 3.0, "s4": 2.5}


@pytest.fixture(scope="module")
def simulator():
    return SimDevice()


@pytest.fixture
def counted(simulator, ladder):
    """``counted(rung, shape, images=None)``: the launches of one run of the rung."""

    def run(rung, shape, images=None):
        job = Job(simulator, ladder, rung, shape, images=images)
        simulator.take_launches()
        job.run()
        simulator.synchronize()
        return simulator.take_launches()

    return run


def of_array(rung, launches, name):
    """Counts of the accesses to the array ``name`` of ``rung``, over all launches."""
    buffers = by_buffer(launches)
    found = []
    for launch in rung.launches:
        if name in launch.args:
            prefix = f"argument {launch.args.index(name)} of {launch.kernel} ("
            found += [counts for buffer, counts in buffers.items() if buffer.startswith(prefix)]
    return found


def test_the_bytes_counted_are_the_ledger(counted, rung):
    """x and y cross the memory interface exactly as often as the declaration says, to the byte."""
    shape = Shape(ROWS, rung.operator.default_shape.N)
    launches = counted(rung, shape)
    total = sum(c.bytes for name in ("x", "y") for c in of_array(rung, launches, name))
    assert total == rung.ledger_bytes(shape)
    assert (
        total
        == {"n1": 12, "n2": 12, "n3": 8, "n4": 8, "s1": 16, "s2": 12, "s3": 8, "s4": 8}[rung.name] * ROWS * shape.N
    )


@pytest.mark.parametrize(("scalar", "vector"), [("n3", "n4"), ("s3", "s4")])
def test_float4_takes_a_quarter_of_the_instructions(counted, ladder, scalar, vector):
    """n4 and s4 issue exactly a quarter of the global memory instructions, per warp, of n3 and s3."""

    def requests(name):
        rung = ladder.rung(name)
        buffers = by_buffer(counted(rung, Shape(ROWS, rung.operator.default_shape.N)))
        return sum(counts.requests for buffer, counts in buffers.items() if buffer != "shared")

    assert 4 * requests(vector) == requests(scalar)


def test_exponentials_are_counted_and_explained(counted, ladder):
    """Two exponentials an element for s1, three for s2 and s3, two and a half for s4, and those of the reduction."""
    for name, each in EXPONENTIALS.items():
        rung = ladder.rung(name)
        columns = rung.operator.default_shape.N
        reduction = 0 if name == "s1" else MERGES
        assert exponentials(counted(rung, Shape(ROWS, columns))) == ROWS * (each * columns + reduction), name


@pytest.mark.parametrize(("rows", "seconds", "tries"), [(64, 0.2, 10), (1024, 2.0, 3)])
def test_it_is_fast_enough_to_be_used(simulator, ladder, rows, seconds, tries):
    """All rungs together, with every check on, once translated: 64 rows in 0.2 s, 1024 in 2 s of one core."""
    jobs = [Job(simulator, ladder, rung, Shape(rows, rung.operator.default_shape.N)) for rung in ladder.rungs]
    took = []
    for _ in range(1 + tries):  # the first one translates
        begin = time.process_time()  # of this process: what else the machine does is not the simulator's time
        for job in jobs:
            job.run()
        took.append(time.process_time() - begin)
        simulator.synchronize()
        if len(took) > 1 and took[-1] < seconds:
            return
    pytest.fail(f"{rows} rows took {min(took[1:]):.3f} s at best, {seconds} s are allowed")


@pytest.mark.parametrize("columns", [33, 1000, None], ids=str)
def test_the_second_schedule_gives_the_same_bits(ladder, rung, columns):
    """Highest block of code first, last chunk first, lanes reversed: the same result, bit for bit, and no finding."""
    shape = Shape(8, columns or rung.operator.default_shape.N)
    if rung.broken_limit(shape):
        shape = Shape(8, columns + 4 - columns % 4)
    outputs = []
    for reverse in (False, True):
        device = SimDevice(reverse=reverse)
        job = Job(device, ladder, rung, shape)
        job.run()
        assert device.take_findings() == ()
        outputs.append(device.download(job.outputs["y"]))
    np.testing.assert_array_equal(*[output.view(np.uint32) for output in outputs])


@pytest.mark.parametrize("volatile", [False, True], ids=["plain", "volatile"])
def test_rungs_are_free_of_races_under_both_schedules(ladder, rung, volatile):
    """Not even a warning, as shipped and with volatile shared arrays, whichever lanes go first."""
    for reverse in (False, True):
        device = SimDevice(reverse=reverse)
        images = images_of(ladder, rung, device.arch, volatile)
        Job(device, ladder, rung, Shape(8, 1000), images=images).run()
        assert device.take_findings() == ()
