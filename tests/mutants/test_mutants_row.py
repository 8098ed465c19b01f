"""Teeth against faults of the variants of one block: n5, n6, s5, s6, s7 and what they share in row.cuh."""

from __future__ import annotations

import pytest
from mutant import (
    H200,
    LONG_SOFTMAX,
    NORM,
    REDUCE,
    ROW,
    SHAPE,
    SOFTMAX,
    VECTOR,
    Mutant,
    answers_or_memcheck_see,
    assert_applies,
    counted_of_x,
    everywhere,
    one,
    only_a_negative_constant_sees,
    only_minus_infinity_sees,
    only_rising_rows_see,
    over,
    simulate,
)

from pytest_roofline import Shape
from pytest_roofline.errors import StaticCheckError, WrongAnswerError
from pytest_roofline.run.static import check_accesses, check_resources
from pytest_roofline.sanitize.report import FINDINGS
from pytest_roofline.sim.device import SimDevice

BARRIERS = [
    Mutant("row-barrier", variant, ((ROW, "__syncthreads();", ";", None),), tool="racecheck")
    for variant in ("n6", "s6")
]
FILL_SUM = "    pad_partials(partial, 0.0f);\n"
FILL_MAXIMUM = "    pad_partials(maximum, EMPTY.m);\n"
FILL_EXPONENTIALS = "    pad_partials(sum, EMPTY.s);\n"
NOT_FILLED = [one("padding-not-written", r, fill, "", ROW) for r, fill in (("n6", FILL_SUM), ("s6", FILL_MAXIMUM))]
MILLION_FOR_SUM = one("padding-of-a-million", "n6", FILL_SUM, FILL_SUM.replace("0.0f", "1e6f"), ROW)
ONE_FOR_EXPONENTIALS = one("padding-of-one", "s6", FILL_EXPONENTIALS, FILL_EXPONENTIALS.replace("EMPTY.s", "1.0f"), ROW)
ZERO_FOR_MAXIMUM = one("padding-of-zero", "s6", FILL_MAXIMUM, FILL_MAXIMUM.replace("EMPTY.m", "0.0f"), ROW)
WRONG_PLACES = [*NOT_FILLED, MILLION_FOR_SUM, ONE_FOR_EXPONENTIALS, ZERO_FOR_MAXIMUM]
RAGGED_COLUMNS = 5000  # of few rows: 12 warps in n6 and 20 in s6, padded to 16 and 32

LOWEST, ZERO = "constexpr float LOWEST = -3.402823466e+38f;", "constexpr float LOWEST = 0.0f;"
ZERO_IDENTITY = [
    one("zero-as-identity-of-max", "s5", LOWEST, ZERO, f"../common/{REDUCE}"),
    *(one("zero-as-identity-of-max", r, LOWEST, ZERO, REDUCE) for r in ("s6", "s7", "s8")),
]
LAST_FACTOR = ("__fdividef(__expf(m - all.m), all.s)", "1.0f / all.s")
RESCALE = [
    *(one("sums-not-rescaled", r, "sum[i] * __expf(maximum[i] - m)", "sum[i]", ROW) for r in ("s6", "s8")),
    one("last-factor-dropped", "s6", *LAST_FACTOR, SOFTMAX),
    *(one("last-factor-dropped", r, *LAST_FACTOR, LONG_SOFTMAX) for r in ("s8", "s9")),
]

INSIDES = {"n8": "", "s8": LONG_SOFTMAX, "s9": LONG_SOFTMAX, "a2": ""}  # where each has its one test
INSIDE = "return k < FULL || at.vector(k) < vectors;"
BOUNDARY = [
    *(one("boundary-dropped-load", r, "k < FULL || i < groups ? x", "true ? x") for r in ("n5", "s5")),
    one("boundary-dropped-store", "n5", "if (k < FULL || i < groups) {", "{"),
    one("boundary-dropped-store", "s5", "if (k < FULL || i < groups)", "if (true)"),
    one("boundary-dropped-load", "n6", "k < FULL || i < vectors ? load<", "true ? load<", NORM),
    one("boundary-dropped-weight", "n6", "k < FULL || i < vectors ? load(w", "true ? load(w", NORM),
    one("boundary-dropped-store", "n6", "if (k < FULL || i < vectors)", "if (true)", NORM),
    one("boundary-dropped-load", "s6", "k < FULL || i < vectors ? load<", "true ? load<", SOFTMAX),
    one("boundary-dropped-store", "s6", "if (k < FULL || i < vectors)", "if (true)", SOFTMAX),
    *(one("boundary-dropped", r, INSIDE, "return true;", file) for r, file in INSIDES.items()),
    *(everywhere("full-one-too-large", r, "k < FULL", "k <= FULL", 2) for r in ("n5", "s5")),
    everywhere("full-one-too-large", "n6", "k < FULL", "k <= FULL", 3, NORM),
    everywhere("full-one-too-large", "s6", "k < FULL", "k <= FULL", 2, SOFTMAX),
    *(one("full-one-too-large", r, "k < FULL", "k <= FULL", file) for r, file in INSIDES.items()),
]
# What lies past the row is to vanish from maximum and sum in a row of any values, all -inf among them.
NOTHING = "filled(minus_infinity())"
NOTHINGS = "make_float4(NOTHING, NOTHING, NOTHING, NOTHING)"
LOWESTS = "make_float4(LOWEST, LOWEST, LOWEST, LOWEST)"
LOWEST_PADDING = [
    one("padding-of-lowest", "s5", NOTHINGS, LOWESTS),
    one("padding-of-lowest", "s6", NOTHING, "filled(LOWEST)", SOFTMAX),
    everywhere("padding-of-lowest", "s8", NOTHING, "filled(LOWEST)", 2, LONG_SOFTMAX),
]
ZERO_PADDING = [
    one("padding-of-zero", "s5", NOTHINGS, "make_float4(0.0f, 0.0f, 0.0f, 0.0f)"),
    one("padding-of-zero", "s6", NOTHING, "filled(0.0f)", SOFTMAX),
    everywhere("padding-of-zero", "s8", NOTHING, "filled(0.0f)", 2, LONG_SOFTMAX),
]

# In s5, n6, s6 and a2 the same edit is no mutant: the compiler resolves the index, and nothing goes to local memory.
RUNNING_INDEX = Mutant(
    "running-index",
    "n5",
    (
        ("", "float4 v = xs[k];", "float4 v = xs[n++ % VECTORS];", None),
        ("", "xs[VECTORS];", "xs[VECTORS]; int n = N >> 30;", None),
    ),
)
AGAIN = "load<READ>(x + offset + i * WIDTH)"
READ_TWICE = one("x-read-twice", "n6", "unpack(xs[k], v);", f"unpack({AGAIN}, v);", NORM, 1)
FROM_FLOATS = "reinterpret_cast<const float*>(x) + 4 * (offset + i)"
FOUR = ", ".join(f"({FROM_FLOATS})[{j}]" for j in range(4))
WORDS = "v.word[0] = w.x, v.word[1] = w.y, v.word[2] = w.z, v.word[3] = w.w;"
WORD = "reinterpret_cast<const unsigned*>(from)"
SCALAR_LOADS = [
    *(one("scalar-loads", r, "? x[offset + i] :", f"? make_float4({FOUR}) :") for r in ("n5", "s5")),
    *(
        one("scalar-loads", r, WORDS, "".join(f"v.word[{j}] = __ldg({WORD} + {j});" for j in range(4)), VECTOR)
        for r in ("n6", "s6", "a2")
    ),
]
SCALAR_STORES = one(
    "scalar-stores",
    "n6",
    "*reinterpret_cast<uint4*>(to) = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);",
    "for (int i = 0; i < 4; ++i) reinterpret_cast<unsigned*>(to)[i] = v.word[i];",
    VECTOR,
)

ALL = [m for group in (BARRIERS, WRONG_PLACES, ZERO_IDENTITY, RESCALE, BOUNDARY) for m in group]
ALL += [*LOWEST_PADDING, *ZERO_PADDING, RUNNING_INDEX, READ_TWICE, *SCALAR_LOADS, SCALAR_STORES]


@over(ALL)
def test_a_mutant_applies_and_compiles(suite, mutant):
    """Each mutant differs from the shipped source by its edit, compiles, and takes the same parameters."""
    assert_applies(mutant, suite)


@pytest.mark.sanitizer
@pytest.mark.parametrize("volatile", [False, True], ids=["plain", "volatile"])
@over(BARRIERS)
def test_a_removed_barrier_is_caught_by_racecheck(mutant, suite, device, sanitize, volatile):
    """Without the one barrier of a row the partials race, in the plain build as in the volatile one."""
    images = mutant.images(suite, device.gpu, SHAPE, volatile=volatile)
    report = sanitize(mutant.variant, "racecheck", SHAPE, volatile=volatile, images=images)
    assert report.verdict == FINDINGS, str(report)
    # compute-sanitizer names no file for what is inlined from a lambda, here the read of the partials.
    named = {file for finding in report.findings for file, _ in finding.sources() if file}
    assert named == {"row.cuh"}, str(report)


@pytest.mark.sanitizer
@over(BARRIERS)
def test_the_second_schedule_finds_the_race_too(mutant, suite):
    """The removed barrier is a race of row.cuh whichever lanes and blocks of code go first."""
    for reverse in (False, True):
        device = SimDevice(reverse=reverse)
        simulate(suite, mutant, SHAPE, device)
        assert any(found.kind == "race" and "row.cuh" in found.places[0] for found in device.take_findings())


@over(NOT_FILLED)
def test_places_past_the_partials_that_nobody_fills_are_caught_as_uninitialised(suite, mutant):
    """12 and 20 warps are padded to 16 and 32, which lanes read all the same; 4 warps need no padding."""
    device = SimDevice("h200")
    for shape, kinds in ((SHAPE, set()), (Shape(M=4, N=RAGGED_COLUMNS), {"uninitialised"})):
        simulate(suite, mutant, shape, device)
        assert {found.kind for found in device.take_findings()} == kinds


def test_a_sum_is_filled_up_with_zeros(answers):
    """Where 12 warps are padded, the padding is part of the sum; 4 warps need none."""
    answers(MILLION_FOR_SUM, SHAPE)
    with pytest.raises(WrongAnswerError):
        answers(MILLION_FOR_SUM, Shape(M=4, N=RAGGED_COLUMNS))


def test_a_maximum_is_filled_up_with_the_lowest_float(answers):
    """Uniform inputs can't see a zero among maxima; a row of -2.45e5 can."""
    only_a_negative_constant_sees(answers, ZERO_FOR_MAXIMUM, RAGGED_COLUMNS)


def test_exponentials_are_filled_up_with_zeros(answers):
    """Ones vanish beside any other maximum; in a row all -inf they are a sum, and the row no NaN."""
    only_minus_infinity_sees(answers, ONE_FOR_EXPONENTIALS, RAGGED_COLUMNS)


@over(ZERO_IDENTITY)
def test_zero_as_identity_of_max_is_caught_by_a_negative_constant(answers, mutant):
    """Uniform inputs can't see a maximum that starts at 0; a row of -2.45e5 can."""
    only_a_negative_constant_sees(answers, mutant)


@over(RESCALE)
def test_a_dropped_rescale_is_caught_by_rising_rows(answers, mutant):
    """Constant input passes, for all warps have the same maximum; rising rows fail, each warp having its own."""
    only_rising_rows_see(answers, mutant)


@over(BOUNDARY)
def test_a_dropped_boundary_is_caught(answers, mutant, suite, device, sanitize):
    """Idle threads in the last trip: the answers are wrong, or memcheck sees the access."""
    answers_or_memcheck_see(answers, mutant, suite, device, sanitize)


@over(LOWEST_PADDING)
def test_padding_of_lowest_is_caught_by_a_row_of_minus_infinity(answers, mutant):
    """Ordinary rows can't see -FLT_MAX past their end; in a row all -inf it is the maximum, and the row no NaN."""
    only_minus_infinity_sees(answers, mutant)


@over(ZERO_PADDING)
def test_padding_of_zero_is_caught_by_the_answers(answers, mutant):
    """A zero past the end of the row adds to the sum of ordinary rows."""
    with pytest.raises(WrongAnswerError):
        answers(mutant, SHAPE)


def test_a_running_index_is_caught_by_the_stack_frame(suite):
    """A run-time index into the register array moves it to local memory, and the static check says so."""
    (launch,) = RUNNING_INDEX.build(suite, H200, Shape(M=8, N=8192)).launches
    with pytest.raises(StaticCheckError, match=r"keeps data in local memory.* [1-9]\d* bytes of stack frame"):
        check_resources(launch)


def test_a_second_read_is_caught_by_the_count_of_loads(suite):
    """Reading x again instead of the registers shows in the number of global loads in the PTX, and in the traffic."""
    build = READ_TWICE.build(suite, H200, SHAPE)
    with pytest.raises(StaticCheckError, match=r"4 global loads of x of 16 bytes.*each element once.* are 2"):
        check_accesses(build, build.launches[0])
    assert counted_of_x(suite, "n6", SHAPE, READ_TWICE).bytes == 8 * 8 * 1000


@over(SCALAR_LOADS)
def test_scalar_loads_are_caught_by_their_width(suite, mutant):
    """Four scalar loads in place of a vector of 16 bytes show in the widths of the global loads in the PTX."""
    build = mutant.build(suite, H200, SHAPE)
    with pytest.raises(StaticCheckError, match=r"loads of \w of 16 bytes, others of \{4: \d+\} bytes; declared"):
        check_accesses(build, build.launches[0])


def test_scalar_stores_are_caught_by_their_width(suite):
    """Four scalar stores in place of a vector show in the widths of the global stores in the PTX."""
    build = SCALAR_STORES.build(suite, H200, SHAPE)
    with pytest.raises(StaticCheckError, match=r"0 global stores to y of 16 bytes, others of \{4: 8\} bytes"):
        check_accesses(build, build.launches[0])
