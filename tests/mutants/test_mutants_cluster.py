"""Teeth against faults of the variants that split a row over a cluster of blocks and copy it asynchronously.

The simulator starts all blocks of a cluster together, in lockstep, and keeps their shared memory to the end; so what
one block reads of another's writing is held against the barriers of the cluster that both have passed. Not seen: an
arrival that is relaxed and does not release, and a write over what its owner still reads.
"""

from __future__ import annotations

import pytest
from mutant import (
    H200,
    LONG_SOFTMAX,
    ROW,
    SHAPE,
    Mutant,
    assert_applies,
    constant,
    counted_of_x,
    one,
    over,
    rising,
    simulate,
)

from pytest_roofline import Shape
from pytest_roofline.errors import StaticCheckError, WrongAnswerError
from pytest_roofline.run.static import check_accesses
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import SimulationError

SPLIT = Shape(M=8, N=20000)  # over four blocks in n8, s8 and s9, two in a2
VARIANTS = ("n8", "s8", "a2")

ARRIVE = (ROW, "        cluster_arrive();  //", "        //", None)
WAIT = (ROW, "        cluster_wait();    //", "        //", None)
FIRST_WAIT = {"n8": 0, "s8": 1, "s9": 1, "a2": 0}  # of the two reductions of row.cuh
ARRIVES_FIRST = ("    cluster_arrive();", "    ", None)
BLOCK_BARRIER = (
    "    if constexpr (CLUSTER == 1) {\n        __syncthreads();",
    "    if constexpr (true) {\n        __syncthreads();",
    ROW,
)

NO_ORDER = [
    *(Mutant("no-cluster-barrier", variant, (ARRIVE, WAIT)) for variant in VARIANTS),
    *(Mutant("cluster-barrier-without-wait", variant, (WAIT,)) for variant in VARIANTS),
    *(one("no-first-wait", variant, "\n    cluster_wait();", "\n", ROW, at) for variant, at in FIRST_WAIT.items()),
    *(
        Mutant("no-first-barrier", variant, (("", *ARRIVES_FIRST), (ROW, "\n    cluster_wait();", "\n", at)))
        for variant, at in FIRST_WAIT.items()
    ),
    *(one("barrier-of-the-block-alone", variant, *BLOCK_BARRIER) for variant in VARIANTS),
]
NO_ARRIVAL = [
    *(Mutant("cluster-barrier-without-arrival", variant, (ARRIVE,)) for variant in VARIANTS),
    *(one("no-first-arrival", variant, *ARRIVES_FIRST[:2]) for variant in FIRST_WAIT),
]
WRONG_HANDS = [
    *(one("partials-to-the-own-block", r, '"r"(at.lane));', '"r"(at.rank));', ROW) for r in VARIANTS),
    *(one("partials-on-top-of-others", r, "4 * (at.rank * ROW_WARPS + at.warp)", "4 * at.warp", ROW) for r in VARIANTS),
    *(one("partials-to-one-block-fewer", r, "at.lane < CLUSTER", "at.lane < CLUSTER - 1", ROW) for r in VARIANTS),
    *(one("last-lanes-left-out", r, "lane % LANES * OWN", "lane % (LANES / 2) * OWN", ROW) for r in VARIANTS),
    *(one("the-same-part-in-each-block", r, "rank(blockIdx.x % CLUSTER)", "rank(0)", ROW) for r in VARIANTS),
]
MANY_WARPS = Shape(M=2, N=200000)  # of a row: at least 128, of which a lane takes several
LANES = "PADDED / OWN < WARP ? PADDED / OWN : WARP"
TOO_FEW = [
    *(one("more-lanes-than-a-warp", r, LANES, "PADDED / OWN", ROW) for r in VARIANTS),
    *(one("one-round", r, "round < PADDED;", "round < 0;", ROW) for r in VARIANTS),
]
SUMS = one("sums-not-rescaled", "s8", "sum[i] * __expf(maximum[i] - m)", "sum[i]", ROW)
LAST_FACTOR = one("last-factor-dropped", "s8", "__fdividef(__expf(m - all.m), all.s)", "1.0f / all.s", LONG_SOFTMAX)
COPIES = [
    one("copies-not-waited-for", variant, "    finish_copies();\n", "", file)
    for variant, file in (("n8", ""), ("s8", LONG_SOFTMAX), ("s9", LONG_SOFTMAX))
]
READ_TWICE = one(
    "x-read-twice",
    "n8",
    "finish(k, in_shared[k * THREADS]);",
    "if (inside(k)) finish(k, load(x + offset + at.vector(k) * WIDTH));",
)
ASYNC = 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from) : "memory");'
NARROW = (
    'for (int i = 0; i < 4; ++i) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(there + 4 * i), '
    '"l"(reinterpret_cast<const float*>(from) + i) : "memory");'
)
SCALAR_COPIES = [one("scalar-copies", variant, ASYNC, NARROW, "vector.cuh") for variant in ("n8", "s8")]

ALL = [*NO_ORDER, *NO_ARRIVAL, *WRONG_HANDS, *TOO_FEW, SUMS, LAST_FACTOR, *COPIES, READ_TWICE, *SCALAR_COPIES]


def simulated(suite, mutant, shape=SPLIT, reverse=False):
    """What the simulator finds in the mutant, under the one schedule or the other."""
    return simulate(suite, mutant, shape, SimDevice("h200", reverse=reverse)).device.take_findings()


@over(ALL)
def test_a_mutant_applies_and_compiles(suite, mutant):
    """Each mutant differs from the shipped source by its edit, and compiles as a cluster with the same parameters."""
    assert max(launch.cluster for launch in mutant.plan(suite, H200, SPLIT).launches) > 1
    assert_applies(mutant, suite, SPLIT)


@over(NO_ORDER)
def test_a_missing_order_between_blocks_is_caught(suite, mutant):
    """A block that may go on before the others wrote, or write before they run, races, whatever order is simulated."""
    for reverse in (False, True):
        found = simulated(suite, mutant, reverse=reverse)
        assert {finding.kind for finding in found} <= {"race", "uninitialised"}, found
        assert "race" in {finding.kind for finding in found}, found
        assert {place.partition(":")[0] for finding in found for place in finding.places} == {"row.cuh"}, found


@over(NO_ARRIVAL)
def test_a_missing_arrival_is_caught_as_a_barrier_that_nobody_passes(suite, mutant):
    """A wait for an arrival that never comes is reported under both schedules; on a GPU it would hang."""
    for reverse in (False, True):
        found = simulated(suite, mutant, reverse=reverse)
        assert [finding.kind for finding in found] == ["barrier"], found
        assert "a cluster barrier that part of the cluster never reaches" in found[0].message


@over(WRONG_HANDS)
def test_partials_in_the_wrong_hands_are_caught(answers, mutant):
    """A block that misses partials of others has a wrong sum, or reads what nobody wrote."""
    with pytest.raises((WrongAnswerError, SimulationError)):
        answers(mutant, SPLIT, clusters=True)


@over(TOO_FEW)
def test_partials_of_more_warps_than_a_warp_reads_at_a_time_are_caught(answers, mutant):
    """Up to 64 warps one round is enough, or eight times as many with eight a lane; more are left out."""
    answers(mutant, SPLIT, clusters=True)
    with pytest.raises(WrongAnswerError):
        answers(mutant, MANY_WARPS, clusters=True)


@over([SUMS, LAST_FACTOR])
def test_a_dropped_rescale_between_blocks_is_caught_by_rising_rows(answers, mutant):
    """Constant input passes; in rising rows each block has another maximum."""
    answers(mutant, Shape(M=2, N=20000), constant(1.5, 20000), clusters=True)
    with pytest.raises(WrongAnswerError):
        answers(mutant, Shape(M=2, N=20000), rising(20000), clusters=True)


@over(COPIES)
def test_copies_that_are_not_waited_for_are_caught_as_uninitialised(suite, mutant):
    """Until an asynchronous copy is waited for its shared memory holds what it held: nothing, here."""
    for shape in (SHAPE, SPLIT):
        found = simulated(suite, mutant, shape)
        assert {finding.kind for finding in found} == {"uninitialised"}, found


def test_a_second_read_is_caught_by_the_traffic(suite):
    """In a loop over the row a second read can't be counted in the PTX; the simulator counts its bytes."""
    build = READ_TWICE.build(suite, H200, SPLIT)
    check_accesses(build, build.launches[0])
    assert counted_of_x(suite, "n8", SPLIT).bytes == 4 * 8 * 20000
    assert counted_of_x(suite, "n8", SPLIT, READ_TWICE).bytes == 2 * 4 * 8 * 20000


@over(SCALAR_COPIES)
def test_scalar_copies_are_caught_by_their_requests(suite, mutant):
    """Copies of 4 bytes where 16 are declared take four times the requests for the same bytes of x."""
    scalar, vector = (counted_of_x(suite, mutant.variant, SPLIT, of) for of in (mutant, None))
    assert scalar.bytes == vector.bytes
    assert scalar.requests == 4 * vector.requests


def test_scalar_copies_of_the_only_input_are_caught_by_their_width(suite):
    """Where nothing else is loaded the static check has no access of the declared width left. n8 loads w at it."""
    build = SCALAR_COPIES[1].build(suite, H200, SPLIT)
    with pytest.raises(StaticCheckError, match=r"0 global loads of x of 16 bytes.*declared is a width of 16 bytes"):
        check_accesses(build, build.launches[0])
