"""The suite in the simulator: what it counts, how long it takes, and that the order of execution does not matter."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from specimens import built

from pytest_roofline import Shape
from pytest_roofline.errors import NotCheckedError
from pytest_roofline.model.count import count
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run
from pytest_roofline.sanitize.checks import images_of
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.observe.traffic import by_buffer, exponentials, instructions

ROWS = 64
BLOCK, WARP, ROUNDS = 256, 32, 5
# A merge of two pairs (m, s) takes two exponentials; each of five rounds merges in every lane, in all warps of the
# block and then once more in warp 0.
MERGES = 2 * ROUNDS * (BLOCK + WARP)
# Exponentials an element: s1 sums exp(x - m), then divides exp(x - m). s2 and s3 merge (x, 1) into the running pair,
# which is two, and divide. s4 summarises four with four exponentials and merges the group with two.
EXPONENTIALS = {"s1": 2.0, "s2": 3.0, "s3": 3.0, "s4": 2.5}
# Bytes a row as a multiple of N, where it is not 8.
MOVED = {"n1": 12, "n2": 12, "s1": 16, "s2": 12, "a1": 20, "a2": 16}
LONG_ROWS = [Shape(M=2, N=n) for n in (8193, 9999, 65536, 152064, 262143)] + [Shape(M=2, N=60000, dtype="bfloat16")]
SPLIT = Shape(M=4, N=60000)  # over a cluster of blocks in n8, s8, s9 and a2, and in the second launch of a1


@pytest.fixture(scope="module")
def simulator():
    return SimDevice()


@pytest.fixture(scope="module")
def clusters():
    """A simulated device with clusters of blocks."""
    return SimDevice("h200")


@pytest.fixture
def counted(simulator, suite):
    """``counted(variant, shape, device=None)``: the launches of one run of the variant."""

    def run(variant, shape, device=None):
        device = device or simulator
        run = Run(device, Build.of(Plan(Case(variant, shape, suite), device.gpu)))
        device.take_launches()
        run.run()
        device.synchronize()
        return device.take_launches()

    return run


def of_array(plan, launches, name):
    """Counts of the accesses to the array ``name``, over all launches of ``plan``."""
    buffers = by_buffer(launches)
    found = []
    for launch in plan.launches:
        if name in launch.args:
            prefix = f"argument {launch.args.index(name)} of {launch.kernel} ("
            found += [counts for buffer, counts in buffers.items() if buffer.startswith(prefix)]
    return found


def crossed(plan, launches):
    """Bytes of all accesses to the arrays that are among the bytes moved, by array."""
    names = dict.fromkeys(name for launch in plan.launches for name in (*launch.reads, *launch.writes))
    return {name: sum(counts.bytes for counts in of_array(plan, launches, name)) for name in names}


def test_the_bytes_counted_are_the_bytes_moved(counted, simulator, suite, variant):
    """Each array crosses the memory interface exactly as often as the declaration says, to the byte."""
    shape = Shape(M=ROWS, N=variant.operator.default.N)
    plan = Plan(Case(variant, shape, suite), simulator.gpu)
    total = sum(crossed(plan, counted(variant, shape)).values())
    assert total == plan.bytes_moved
    assert total == MOVED.get(variant.name, 8) * ROWS * shape.N


@pytest.mark.parametrize("shape", LONG_ROWS, ids=str)
@pytest.mark.parametrize("name", ["n8", "s8", "s9", "a2"])
def test_a_split_row_is_read_and_written_once(counted, clusters, suite, name, shape):
    """A row in the shared memory of a cluster, or in its registers: each byte of each array crosses once, at any N."""
    plan = Plan(Case(suite.variant(name), shape, suite), clusters.gpu)
    assert plan.launches[0].cluster > 1 or name == "a2"
    found = crossed(plan, counted(suite.variant(name), shape, clusters))
    assert set(found) == {*plan.launches[0].reads, *plan.launches[0].writes}
    assert set(found.values()) == {shape.M * shape.N * (4 if shape.dtype == "float32" else 2)}


def test_rows_start_staggered_in_s9(clusters, suite):
    """The wait of a row is its group's number times STAGGER_CYCLES: none in the first group, or where that is 0."""
    shape = Shape(M=8, N=20000)
    shipped = suite.variant("s9")
    (fixed,) = shipped.configured(shape, clusters.gpu)

    def executed(rows, cycles):
        stagger = {"STAGGER_GROUP": str(rows), "STAGGER_CYCLES": str(cycles)}
        defines = tuple((name, stagger.get(name, value)) for name, value in fixed.defines)
        variant = replace(shipped, launches=(replace(fixed, defines=defines),))
        run = Run(clusters, Build.of(Plan(Case(variant, shape, suite), clusters.gpu)))
        clusters.take_launches()
        run.run()
        clusters.synchronize()
        run.verify()
        return sum(instructions(clusters.take_launches()).values())

    cycles = 6400
    without = executed(1, 0)
    one = (executed(1, cycles) - without) / sum(range(8))  # instructions of a group's wait
    assert one > 0.01 * without
    for rows in (2, 3, 8):
        waited = executed(rows, cycles) - without
        assert abs(waited - one * sum(row // rows for row in range(8))) < 0.5 * one, rows
    assert abs(executed(1, 2 * cycles) - without - 2 * one * sum(range(8))) < 0.05 * one * sum(range(8))


def test_waiting_is_no_work(clusters, suite):
    """s9 at a shape of five groups: a few rows stand for all, whatever their group, and move what those of s8 do."""
    shape = Shape(M=70, N=40000)
    assert dict(built(suite, "s9", **shape.extents).plan.launches[0].defines)["STAGGER_GROUP"] == "16"
    try:
        (waiting,) = count(built(suite, "s9", **shape.extents)).works
    except NotCheckedError as error:
        pytest.fail(str(error))  # or it would be a skip
    (plain,) = count(built(suite, "s8", **shape.extents)).works
    assert waiting.uniform
    assert waiting.buffers == plain.buffers
    assert waiting.special == plain.special
    assert sum(waiting.issued.values()) < 1.1 * sum(plain.issued.values())


@pytest.mark.parametrize(("scalar", "vector"), [("n3", "n4"), ("s3", "s4")])
def test_float4_takes_a_quarter_of_the_instructions(counted, suite, scalar, vector):
    """n4 and s4 issue exactly a quarter of the global memory instructions, per warp, of n3 and s3."""

    def requests(name):
        variant = suite.variant(name)
        buffers = by_buffer(counted(variant, Shape(M=ROWS, N=variant.operator.default.N)))
        return sum(counts.requests for buffer, counts in buffers.items() if buffer != "shared")

    assert 4 * requests(vector) == requests(scalar)


def test_exponentials_are_counted_and_explained(counted, suite):
    """Two exponentials an element for s1, three for s2 and s3, two and a half for s4, and those of the reduction."""
    for name, each in EXPONENTIALS.items():
        variant = suite.variant(name)
        columns = variant.operator.default.N
        reduction = 0 if name == "s1" else MERGES
        assert exponentials(counted(variant, Shape(M=ROWS, N=columns))) == ROWS * (each * columns + reduction), name


@pytest.mark.parametrize(
    ("staged", "rows", "each", "tries"), [(False, 64, 0.025, 10), (False, 512, 0.125, 3), (True, 64, 0.1, 10)]
)
def test_it_is_fast_enough_to_be_used(simulator, suite, staged, rows, each, tries):
    """With every check on, once translated, a variant takes 25 ms of one core for 64 rows and 125 ms for 512.

    On average over the variants, that is.
    That is 0.2 s and 1 s for the eight variants n1 to s4. Rows in shared memory, all accesses of which are watched for
    races, take up to four times as long.
    """
    variants = [variant for variant in suite.variants if (variant.name in ("n8", "s8", "s9")) == staged]
    seconds = each * len(variants)
    shapes = [Shape(M=rows, N=variant.operator.default.N) for variant in variants]
    builds = [Build.of(Plan(Case(v, s, suite), simulator.gpu)) for v, s in zip(variants, shapes, strict=True)]
    jobs = [Run(simulator, build) for build in builds]
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
def test_the_second_schedule_gives_the_same_bits(suite, variant, columns):
    """Highest block of code first, last chunk first, lanes reversed: the same result, bit for bit, and no finding."""
    shape = Shape(M=8, N=columns or variant.operator.default.N)
    if variant.broken_limit(shape):
        shape = Shape(M=8, N=columns + 4 - columns % 4)
    outputs = []
    for reverse in (False, True):
        device = SimDevice(reverse=reverse)
        run = Run(device, Build.of(Plan(Case(variant, shape, suite), device.gpu)))
        run.run()
        assert device.take_findings() == ()
        outputs.append(device.download(run.arrays["y"]))
    np.testing.assert_array_equal(*[output.view(np.uint32) for output in outputs])


def cases_of(suite, shape):
    return [variant for variant in suite.variants if not variant.broken_limit(shape)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_second_schedule_gives_the_same_bits_on_clusters(suite, dtype):
    """Blocks of a cluster, too, may run in any order: the same result, bit for bit, and no finding."""
    shape = Shape(M=SPLIT.M, N=SPLIT.N, dtype=dtype)
    for variant in cases_of(suite, shape):
        outputs = []
        for reverse in (False, True):
            device = SimDevice("h200", reverse=reverse)
            run = Run(device, Build.of(Plan(Case(variant, shape, suite), device.gpu)))
            run.run()
            assert device.take_findings() == ()
            outputs.append(device.download(run.arrays["y"]).tobytes())
        assert outputs[0] == outputs[1], variant.name


@pytest.mark.parametrize("volatile", [False, True], ids=["plain", "volatile"])
def test_variants_are_free_of_races_under_both_schedules(suite, variant, volatile):
    """Not even a warning, as shipped and with volatile shared arrays, whichever lanes go first, on clusters too."""
    for shape in (Shape(M=8, N=1000), SPLIT):
        if not variant.broken_limit(shape):
            for reverse in (False, True):
                device = SimDevice("h200", reverse=reverse)
                plan = Plan(Case(variant, shape, suite), device.gpu)
                Run(device, Build(plan, images_of(plan, volatile))).run()
                assert device.take_findings() == ()
