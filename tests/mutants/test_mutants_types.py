"""Teeth against faults of 16-bit types, and of the residual add with its norm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mutant import LONG_SOFTMAX, NORM, SOFTMAX, VECTOR, Mutant, assert_applies, one, over
from rounding import wrongly_rounded

from pytest_roofline import Shape
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run, check
from pytest_roofline.sim.errors import SimulationError

BFLOAT, HALF = Shape(M=8, N=1000, dtype="bfloat16"), Shape(M=8, N=1000, dtype="float16")
STAGED = [
    Shape(M=700, N=1000, dtype=dtype) for dtype in ("bfloat16", "float16")
]  # too many rows to be held in registers
NARROW = Shape(M=8, N=8, dtype="bfloat16")  # where the rounding of h moves the mean of its squares
VARIANTS = ("n6", "s6", "n8", "s8")

BFLOATS = "make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u))"
SWAPPED_BFLOATS = "make_float2(__uint_as_float(word & 0xffff0000u), __uint_as_float(word << 16))"
HALVES, SWAPPED_HALVES = "cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi;", "cvt.f32.f16 %0, hi; cvt.f32.f16 %1, lo;"
TO_BFLOAT, TO_HALF = "cvt.rn.bf16x2.f32 %0, %1, %2;", "cvt.rn.f16x2.f32 %0, %1, %2;"
PACKED = [(text, text.replace("%1, %2", "%2, %1")) for text in (TO_BFLOAT, TO_HALF)]
CUT_OFF = [(text, text.replace("rn", "rz")) for text in (TO_BFLOAT, TO_HALF)]
SWAPPED = [
    *((one("packed-swapped", r, *PACKED[0], VECTOR), BFLOAT) for r in VARIANTS),
    *((one("packed-swapped", r, *PACKED[1], VECTOR), HALF) for r in VARIANTS),
    *((one("read-swapped", r, BFLOATS, SWAPPED_BFLOATS, VECTOR), BFLOAT) for r in VARIANTS),
    *((one("read-swapped", r, HALVES, SWAPPED_HALVES, VECTOR), HALF) for r in VARIANTS),
]

NEAREST = "__uint_as_float((__float_as_uint({0}) + 0x7fff + ((__float_as_uint({0}) >> 16) & 1)) & 0xffff0000u)"
SCALED = "v[j] = v[j] * scale * g[j];"
CAST_FIRST = f"{{ v[j] = v[j] * scale; v[j] = {NEAREST.format('v[j]')} * g[j]; }}"
ROUNDED_TWICE = Mutant(
    "exponentials-rounded-in-shared-memory",
    "s8",
    (
        (LONG_SOFTMAX, "if (sizeof(Element) == 4) in_shared", "in_shared", None),
        (LONG_SOFTMAX, "v[j] = exp2_of((v[j] - m) * LOG2E + power);", "v[j] *= scale;", None),
    ),
)
AS_STORED = "        unpack(hs[k], v);  // as it was stored\n"
UNROUNDED = Mutant(
    "norm-of-the-unrounded-h",
    "a2",
    (
        ("", "Vector hs[VECTORS]", "float f[VECTORS][WIDTH]; Vector hs[VECTORS]", None),
        ("", AS_STORED, "        for (int j = 0; j < WIDTH; ++j) f[k][j] = v[j];\n", None),
        ("", SCALED, "v[j] = f[k][j] * scale * g[j];", None),
    ),
)
EXPONENTIAL = ("e[k][j] *= scale;", f"e[k][j] = {NEAREST.format('e[k][j]')} * scale;")
ROUNDING = [
    *((one("cut-off", r, *CUT_OFF[0], VECTOR), BFLOAT) for r in VARIANTS),
    *((one("cut-off", r, *CUT_OFF[1], VECTOR), HALF) for r in VARIANTS),
    (one("cast-before-the-weight", "n6", SCALED, CAST_FIRST, NORM), BFLOAT),
    (one("cast-before-the-weight", "n8", SCALED, CAST_FIRST), BFLOAT),
    (one("exponentials-rounded", "s6", *EXPONENTIAL, SOFTMAX), BFLOAT),
    *((ROUNDED_TWICE, shape) for shape in STAGED),
    (UNROUNDED, BFLOAT),
    (UNROUNDED, HALF),
    (one("mean-of-the-unrounded-h", "a2", AS_STORED, ""), NARROW),
]

HALF_SUM = one(
    "sum-in-float16",
    "n6",
    "sum += v[j] * v[j];",
    '{ sum += v[j] * v[j]; asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h; }" : "+f"(sum)); }',
    NORM,
)
WRONG_SUMS = [
    one(
        "h-not-written-at-the-end-of-a-row",
        "a2",
        "if (inside(k)) store<Y_CACHE>(h +",
        "if (k < FULL) store<Y_CACHE>(h +",
    ),
    one("h-not-written", "a1", "store(h + offset + i * WIDTH, pack(a));", ""),
    *(
        one("r-ignored", variant, f"{v}[j] += b[j];", f"{v}[j] += 0.0f * b[j];")
        for variant, v in (("a1", "a"), ("a2", "v"))
    ),
    one("x-added-to-itself", "a2", "(r + offset + at", "(x + offset + at"),
    one("x-as-h", "a2", "hs[k] = pack(v);", ""),
]
ALL = [*SWAPPED, *ROUNDING, (HALF_SUM, HALF), *((mutant, Shape(M=8, N=1000)) for mutant in WRONG_SUMS)]


def at(cases):
    return pytest.mark.parametrize(("mutant", "shape"), cases, ids=str)


@at(ALL)
def test_a_mutant_applies_and_compiles(suite, mutant, shape):
    """Each mutant differs from the shipped source by its edit, compiles, and takes the same parameters."""
    assert_applies(mutant, suite, shape)


@at(SWAPPED)
def test_swapped_halves_are_caught_by_the_answers(answers, mutant, shape):
    """Two elements of a word that change places are wrong, where the word is read and where it is written."""
    with pytest.raises(WrongAnswerError):
        answers(mutant, shape)


@at(ROUNDING)
def test_a_second_rounding_is_caught_by_the_check_of_rounding(device, suite, mutant, shape):
    """Cut off or rounded twice a value may be within one unit in the last place, and is not the right one rounded."""
    run = Run(device, mutant.build(suite, device.gpu, shape))
    run.run()
    device.synchronize()
    assert wrongly_rounded(run)["y"] > 0.005 * shape.M * shape.N


def test_a_sum_in_float16_is_caught_by_a_row_of_300(answers):
    """C10: squares of 300 overflow float16; ordinary rows of few elements a thread can't see it."""
    shape = Shape(M=2, N=2048, dtype="float16")
    answers(HALF_SUM, shape)
    inputs = {"x": np.full((2, 2048), 300, np.float16), "w": np.ones(2048, np.float16)}
    with pytest.raises(WrongAnswerError, match="want 1"):
        answers(HALF_SUM, shape, inputs)


@over(WRONG_SUMS)
def test_a_wrong_residual_is_caught_by_the_answers(answers, mutant):
    """h that is not the sum of both, or not written to its end, is wrong, or read before anybody wrote it."""
    with pytest.raises((WrongAnswerError, SimulationError)):
        answers(mutant, Shape(M=8, N=1000))


def test_a_norm_of_x_instead_of_h_is_caught_by_the_answers(device, suite):
    """a1 with a second launch that is given x has a right h and a wrong y."""
    variant = suite.variant("a1")
    add, norm = variant.launches
    mutant = replace(variant, launches=(add, replace(norm, args=("x", *norm.args[1:]), reads=("x",))))
    with pytest.raises(WrongAnswerError, match="values of y are wrong"):
        check(device, Build.of(Plan(Case(mutant, Shape(M=8, N=1000)), device.gpu)))
