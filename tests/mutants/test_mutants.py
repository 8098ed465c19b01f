"""The suite's own teeth: each kernel is broken in one known way, and the named check must catch it.

A mutant is made from the shipped source by one replacement. If the text is no longer there, that is an error of the
mutant and not a pass.
"""

from __future__ import annotations

import pytest
from mutant import (
    H200,
    ROW,
    SHAPE,
    Mutant,
    answers_or_memcheck_see,
    assert_applies,
    counted_of_x,
    one,
    only_a_negative_constant_sees,
    only_minus_infinity_sees,
    only_rising_rows_see,
    over,
    simulate,
)
from rounding import wrongly_rounded

from pytest_roofline import Shape
from pytest_roofline.declare.values import TILE_ABOVE
from pytest_roofline.errors import CompileError, StaticCheckError, WrongAnswerError
from pytest_roofline.run.build import Build
from pytest_roofline.run.device import SIMULATED
from pytest_roofline.run.gpu.child import case_job, run_child
from pytest_roofline.run.run import check
from pytest_roofline.run.static import check_accesses, check_resources
from pytest_roofline.sanitize.report import FINDINGS
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import SimulationError

HEADER = "../common/reduce.cuh"
MINUS_INFINITY = "-__int_as_float(0x7f800000)"

# The barriers of reduce.cuh in order: two in block_sum, two in block_max, two in block_merge.
BARRIERS = [
    Mutant(f"barrier-{number}", variant, ((HEADER, "__syncthreads();", ";", number),), tool="racecheck")
    for number, variant in enumerate(("n3", "n3", "s1", "s1", "s3", "s3"))
]

XOR, DOWN = "__shfl_xor_sync(ALL_LANES, v, offset)", "__shfl_down_sync(ALL_LANES, v, offset)"
# In n1 and s1 thread 0 alone uses the result, and lane 0 of warp 0 has it either way: no mutant there.
SHUFFLES = [
    one("shfl-down", "n3", f"v += {XOR}", f"v += {DOWN}", HEADER),
    one("shfl-down-max", "s3", "__shfl_xor_sync(ALL_LANES, v.m", "__shfl_down_sync(ALL_LANES, v.m", HEADER),
    one("shfl-down-sum", "s3", "__shfl_xor_sync(ALL_LANES, v.s", "__shfl_down_sync(ALL_LANES, v.s", HEADER),
]

EMPTY_INFINITY = f"MaxSum v = {{{MINUS_INFINITY}, 0.0f}};"
THREAD_IDENTITY = [one("infinity-in-a-thread", r, "MaxSum v = EMPTY;", EMPTY_INFINITY) for r in ("s2", "s3", "s4")]
STAGE_IDENTITY = [
    one("infinity-in-the-second-workload", r, "v = EMPTY;", f"v = {{{MINUS_INFINITY}, 0.0f}};", HEADER)
    for r in ("s2", "s3", "s4")
]
LOWEST = "constexpr float LOWEST = -3.402823466e+38f;"
ZERO_IDENTITY = [
    one("zero-as-identity-of-max", r, LOWEST, "constexpr float LOWEST = 0.0f;", HEADER)
    for r in ("s1", "s2", "s3", "s4")
]
MERGED = "a.s * __expf(a.m - m) + b.s * __expf(b.m - m)"
RESCALE = [one("rescale-dropped", r, MERGED, "a.s + b.s", HEADER) for r in ("s2", "s3")]

STORE, LOOP = "if (i < N) y[offset + i]", "for (int i = threadIdx.x; i < N; i += BLOCK) y"
BOUNDARY = [
    one("boundary-dropped", "n1", LOOP, LOOP.replace("i < N", "i <= N")),
    one("boundary-dropped", "n2", LOOP, LOOP.replace("i < N", "i <= N")),
    one("boundary-dropped", "n3", STORE, "y[offset + i]"),
    one("boundary-dropped", "n4", "if (i < groups) {", "{"),
    one("boundary-dropped", "s1", LOOP, LOOP.replace("i < N", "i <= N")),
    one("boundary-dropped", "s2", "i < N; i += BLOCK) v", "i <= N; i += BLOCK) v"),
    one("boundary-dropped-store", "s3", STORE, "y[offset + i]"),
    one("boundary-dropped-store", "s4", "if (i < groups) {", "{"),
    one("boundary-dropped-load", "n3", "i < N ? x[offset + i] : 0.0f", "x[offset + i]"),
    one("boundary-dropped-load", "s3", "i < N ? x[offset + i] : LOWEST", "x[offset + i]"),
]
# What lies past the row is LOWEST in registers: merging it too changes nothing, unless there is nothing else.
MERGE_GUARD = [
    one("merge-unguarded", "s3", "if (i < N) v =", "v ="),
    one("merge-unguarded", "s4", "if (i < groups) v =", "v ="),
]

WIDE = "static_cast<long long>(blockIdx.x)"
# In n4, s4, n5 and s5 offsets count groups of four: they pass 2^31 where no test goes.
NARROW_OFFSET = [
    *(one("offset-of-32-bits", r, WIDE, "static_cast<int>(blockIdx.x)") for r in ("n2", "n3", "s3", "a1")),
    *(one("offset-of-32-bits", r, "long long row;", "int row;", ROW) for r in ("n6", "s7", "n8", "s8", "a2")),
]
# Unsigned, an offset goes as far as 2^32 elements, and then on to a row that another block does right.
UNSIGNED_OFFSET = [one("unsigned-offset", r, "long long row;", "unsigned row;", ROW) for r in ("n6", "s7", "s8", "a2")]

# Partials added up in whatever order the warps come: right, and not the same in every run.
ATOMIC_SUM = Mutant(
    "float-atomics",
    "n4",
    (
        (
            HEADER,
            "if (lane == 0) partial[warp] = v;",
            "if (lane < WARPS && warp == 0) partial[lane] = 0.0f; __syncthreads(); "
            "if (lane == 0) for (int p = 0; p < WARPS; ++p) atomicAdd(&partial[p], v);",
            0,
        ),
        (HEADER, "v = warp_sum(lane < WARPS ? partial[lane] : 0.0f);", "v = partial[lane % WARPS];", None),
    ),
)
CUT = "__uint_as_float(__float_as_uint(v.x * scale * g.x) & 0xffffe000u)"  # 10 bits after the point are left
CUT_OFF = one("cut-to-11-bits", "n4", "make_float4(v.x * scale * g.x,", f"make_float4({CUT},")

# In n4, s3 and s4 the same edit is no mutant: the compiler resolves the index and nothing goes to local memory.
RUNNING_INDEX = [
    Mutant(
        "running-index",
        "n3",
        (
            ("", "xs[k] = i < N ? x[offset + i] : 0.0f;", "if (i < N) xs[n++] = x[offset + i];", None),
            ("", "float xs[PER_THREAD];", "float xs[PER_THREAD] = {}; int n = 0;", None),
        ),
    )
]

VOLATILE_X = "static_cast<const volatile float*>(x)[offset + i]"
READ_TWICE = [
    one("x-read-twice", "n3", "y[offset + i] = xs[k]", f"y[offset + i] = {VOLATILE_X}"),
    one("x-read-twice", "s3", "__expf(xs[k] - v.m)", f"__expf({VOLATILE_X} - v.m)"),
]
FLOATS = "reinterpret_cast<const float*>(x) + 4 * (offset + i)"
SCALAR_LOADS = [
    one("scalar-loads", r, "x[offset + i]", f"make_float4(({FLOATS})[0], ({FLOATS})[1], ({FLOATS})[2], ({FLOATS})[3])")
    for r in ("n4", "s4")
]


ALL = [m for group in (SHUFFLES, THREAD_IDENTITY, STAGE_IDENTITY, ZERO_IDENTITY, RESCALE, BOUNDARY) for m in group]
ALL += [m for group in (MERGE_GUARD, BARRIERS, NARROW_OFFSET, RUNNING_INDEX, READ_TWICE, SCALAR_LOADS) for m in group]
ALL += [*UNSIGNED_OFFSET, ATOMIC_SUM, CUT_OFF]


@over(ALL)
def test_a_mutant_applies_and_compiles(suite, mutant):
    """Each mutant differs from the shipped source by its edit, compiles, and takes the same parameters."""
    assert_applies(mutant, suite)


def test_an_edit_that_does_not_apply_is_an_error(suite):
    """Text that is not there, or there more often than said, makes no mutant."""
    with pytest.raises(CompileError, match="occurs 0 times"):
        one("gone", "n3", "no such text", "").source(suite)
    with pytest.raises(CompileError, match="occurs 6 times, wanted exactly once"):
        one("many", "n3", "__syncthreads();", ";", HEADER).source(suite)
    with pytest.raises(CompileError, match="occurs 6 times, wanted number 6"):
        one("past", "n3", "__syncthreads();", ";", HEADER, 6).source(suite)


@over(RUNNING_INDEX)
def test_a_running_index_is_caught_by_the_stack_frame(suite, mutant):
    """A run-time index into the register array moves it to local memory, and the static check says so."""
    (launch,) = mutant.build(suite, H200, SHAPE).launches
    with pytest.raises(StaticCheckError, match=r"keeps data in local memory.* [1-9]\d* bytes of stack frame"):
        check_resources(launch)


@over(READ_TWICE)
def test_a_second_read_is_caught_by_the_count_of_loads(suite, mutant):
    """Reading x again instead of the registers shows in the number of global loads in the PTX."""
    build = mutant.build(suite, H200, SHAPE)
    with pytest.raises(StaticCheckError, match=r"global loads of x of 4 bytes.*each element once.* are"):
        check_accesses(build, build.launches[0])
    assert counted_of_x(suite, mutant.variant, SHAPE, mutant).bytes == 8 * 8 * 1000


@over(SCALAR_LOADS)
def test_scalar_loads_are_caught_by_their_width(suite, mutant):
    """Four scalar loads in place of one float4 show in the widths of the global loads in the PTX."""
    build = mutant.build(suite, H200, SHAPE)
    with pytest.raises(StaticCheckError, match=r"others of \{4: 32\} bytes; declared is a width of 16"):
        check_accesses(build, build.launches[0])
    full = Shape(M=8, N=1024)
    scalar, vector = (counted_of_x(suite, mutant.variant, full, of) for of in (mutant, None))
    assert scalar.bytes == vector.bytes
    assert scalar.requests == 4 * vector.requests


@over(SHUFFLES)
def test_shfl_down_is_caught_by_the_answers(answers, mutant):
    """Without the butterfly lane 0 alone has the result, and the answers of the others are wrong."""
    with pytest.raises(WrongAnswerError):
        answers(mutant, SHAPE)


@over(THREAD_IDENTITY)
def test_minus_infinity_in_a_thread_is_caught_by_the_answers(answers, mutant):
    """Two threads without an element merge empty summaries, and NaN spreads over the row: any N < 240.

    From 240 on each idle lane of the last warp first meets a lane that has an element, and the answers are right.
    """
    for columns in (4, 128, 236):
        with pytest.raises(WrongAnswerError, match="got nan"):
            answers(mutant, Shape(M=8, N=columns))


@over(STAGE_IDENTITY)
def test_minus_infinity_in_the_second_workload_is_caught_by_the_answers(answers, mutant):
    """The idle lanes of warp 0 merge two empty summaries at any N."""
    for columns in (4, 1000, 2048):
        with pytest.raises(WrongAnswerError, match="got nan"):
            answers(mutant, Shape(M=8, N=columns))


@over(ZERO_IDENTITY)
def test_zero_as_identity_of_max_is_caught_by_a_negative_constant(answers, mutant):
    """Uniform inputs can't see a maximum that starts at 0; a row of -2.45e5 can."""
    only_a_negative_constant_sees(answers, mutant)


@over(RESCALE)
def test_a_dropped_rescale_is_caught_by_rising_rows(answers, mutant):
    """Constant input passes, for its maximum never moves again after the first element; rising rows fail."""
    only_rising_rows_see(answers, mutant)


@over(BOUNDARY)
def test_a_dropped_boundary_is_caught(answers, mutant, suite, device, sanitize):
    """N = 1000 leaves idle threads in the last trip: the answers are wrong, or memcheck sees the access."""
    answers_or_memcheck_see(answers, mutant, suite, device, sanitize)


@over(MERGE_GUARD)
def test_an_unguarded_merge_is_caught_by_a_row_of_minus_infinity(answers, mutant):
    """Ordinary rows can't see elements of -FLT_MAX past the end; in a row all -inf they are the maximum, not NaN."""
    only_minus_infinity_sees(answers, mutant)


@over(NARROW_OFFSET)
def test_a_row_offset_of_32_bits_is_caught_past_2_31_elements(mutant, suite, device):
    """Past 2^31 elements the offset wraps and the child faults or answers wrong; apart, for a fault ends a process."""
    wraps(mutant, suite, device, 2**31, SimulationError, r"memory in .*access of \d+ bytes at")


@over(UNSIGNED_OFFSET)
def test_an_unsigned_offset_is_caught_past_2_32_elements(mutant, suite, device):
    """Past 2^32 elements the offset wraps to the first rows: those are written right, and the last ones never."""
    wraps(mutant, suite, device, 2**32, WrongAnswerError, r"computed in 32 bits")


def wraps(mutant, suite, device, past, error, told):
    """The mutant alone is wrong at a shape of over ``past`` elements; the simulator raises ``error``."""
    shape = Shape(M=past // 1024 + 9, N=1024)
    assert max(past, TILE_ABOVE) < shape.M * shape.N
    shipped, broken = Build.of(mutant.plan(suite, device.gpu, shape)), mutant.build(suite, device.gpu, shape)
    if device.evidence == SIMULATED:
        assert check(device, shipped).of_tolerance <= 1
        with pytest.raises(error, match=told):
            check(device, broken)
        return
    good = run_child(case_job(suite.file, shipped, device.index))
    assert good.proof is not None
    if good.proof.error is not None and "DeviceMemoryError" in good.proof.error:
        pytest.skip(f"not checked: {shape} is too large for the device: {good.proof.error}")
    assert good.proof.verified is True, good
    bad = run_child(case_job(suite.file, broken, device.index))
    assert bad.proof is not None, bad
    assert bad.proof.verified is not True, bad
    assert bad.proof.error is not None
    assert "illegal" in bad.proof.error.lower() or "wrong answer" in bad.proof.error, bad


def test_float_atomics_are_caught_by_the_second_schedule(suite):
    """A sum in the order in which warps come is right in any order, and not the same to the bit."""
    shape = Shape(M=32, N=1000)
    outputs = []
    for reverse in (False, True):
        run = simulate(suite, ATOMIC_SUM, shape, SimDevice("h200", reverse=reverse))
        assert run.verify().of_tolerance <= 1
        outputs.append(run.device.download(run.arrays["y"]))
    assert (outputs[0] != outputs[1]).any()


def test_a_cut_mantissa_is_caught_by_the_check_of_rounding(suite):
    """A quarter of y with 11 bits is off by up to 5e-4, which a float32 sum is far from."""
    run = simulate(suite, CUT_OFF)
    assert wrongly_rounded(run)["y"] > 0.2 * SHAPE.M * SHAPE.N


@pytest.mark.sanitizer
@over(BARRIERS)
def test_a_removed_barrier_is_caught_by_racecheck(mutant, suite, device, sanitize):
    """The race shows in the volatile build at the latest; in the plain one the racy access may be optimised away."""
    images = mutant.images(suite, device.gpu, SHAPE, volatile=True)
    report = sanitize(mutant.variant, "racecheck", SHAPE, volatile=True, images=images)
    assert report.verdict == FINDINGS, str(report)
    files = {file for finding in report.findings for file, _ in finding.sources()}
    assert files == {"reduce.cuh"}, str(report)


@pytest.mark.sanitizer
@over(BARRIERS)
def test_the_second_schedule_finds_the_same_races(mutant, suite):
    """A removed barrier gives the same set of pairs of source lines whichever lanes and blocks of code go first."""
    found = []
    for reverse in (False, True):
        device = SimDevice(reverse=reverse)
        simulate(suite, mutant, SHAPE, device, volatile=True)
        found.append({(finding.kind, finding.severity, finding.places) for finding in device.take_findings()})
    assert found[0] == found[1] != set()
