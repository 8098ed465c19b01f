"""The verdict on an answer has teeth: what is wrong is named by array and index."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from specimens import built

from pytest_roofline import Array, Operator, Shape
from pytest_roofline.declare import values
from pytest_roofline.declare.values import make_inputs, reference
from pytest_roofline.errors import DeclarationError, DeviceMemoryError, RefusedError, WrongAnswerError
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.compare import compare
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run, check
from pytest_roofline.run.sample import CHECK_ALL, pick

SHAPE = Shape(M=5, N=64)


@pytest.fixture
def checked(shipped, fake_device):
    """``checked(body, inputs)`` checks s3 at 5x64 with a Python function in place of its kernel."""
    build = built(shipped, "s3", M=5, N=64)

    def run(body=None, inputs=None):
        return check(fake_device(**({} if body is None else {"sm_s3": body})), build, inputs)

    return run


@pytest.fixture
def y(shipped):
    return shipped.operators["softmax"].arrays[1]


@pytest.mark.parametrize("name", ["n3", "s3"])
def test_a_right_kernel_passes(shipped, fake_device, name):
    """Right answers pass, and the errors that are reported are those of float32."""
    found = check(fake_device(), built(shipped, name, M=5, N=64))
    assert found.values == 5 * 64
    assert 0 < found.of_tolerance < 1


def broken(change):
    """sm_s3 with ``change(y)`` at the end."""

    def body(grid, x, y, N):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y[...] = e / e.sum(axis=1, keepdims=True)
        change(y)

    return body


def put(row, column, value):
    def change(y):
        y[row, column] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(4, 63, np.nan), r"1 of 320 values.*y\[4, 63\]: got nan, want 0"),
        (put(0, 0, np.inf), r"y\[0, 0\]"),
        (put(2, 7, 0.0), r"y\[2, 7\]: got 0, want 0"),
        (lambda y: np.multiply(y, 1.003, out=y), "320 of 320 values.*times the tolerance"),
    ],
)
def test_a_wrong_value_is_named(checked, change, message):
    """NaN, infinity, zero and 0.3 % too much each fail, with place, value, count and largest error."""
    with pytest.raises(WrongAnswerError, match=f"(?s)s3 5x64.*{message}"):
        checked(broken(change))


def test_an_unwritten_element_fails(checked):
    """The output is poisoned before the run, so an element that no thread writes is told."""

    def body(grid, x, y, N):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y[:, :-1] = (e / e.sum(axis=1, keepdims=True))[:, :-1]

    with pytest.raises(WrongAnswerError, match=r"5 of 320 values of y were never written, the first is y\[0, 63\]"):
        checked(body)


def test_an_unwritten_value_fails_where_nan_is_due(checked):
    """The poison is NaN, but does not pass for the NaN that a row of -inf gives: it was never written."""

    def lazy(grid, x, y, N):
        rows = np.isfinite(x).all(axis=1)
        e = np.exp(x[rows] - x[rows].max(axis=1, keepdims=True))
        y[rows] = e / e.sum(axis=1, keepdims=True)

    x = np.random.default_rng(0).random((5, 64), dtype=np.float32)
    x[0] = -np.inf
    assert checked(None, {"x": x}).values == 5 * 64
    with pytest.raises(WrongAnswerError, match="64 of 320 values of y were never written"):
        checked(lazy, {"x": x})


def test_a_write_past_the_end_fails(shipped, fake_device):
    """One byte changed behind the output is found, although every answer is right."""
    run = Run(fake_device(), built(shipped, "s3", M=5, N=64))
    run.run()
    run.guards["y"][3] = 0.0
    with pytest.raises(WrongAnswerError, match="wrote past the end of y, first at byte 12 behind it, 4 bytes"):
        run.verify()


def test_a_kernel_that_changes_its_input_fails(checked):
    """The answer is right, but x is not what it was: the second run would be wrong."""

    def greedy(grid, x, y, N):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y[...] = e / e.sum(axis=1, keepdims=True)
        x[1, 2] = 0

    with pytest.raises(WrongAnswerError, match=r"the kernel changed its input x, first x\[1, 2\]"):
        checked(greedy)


def test_long_rows_of_zeros_fail(y):
    """At 262144 columns the values are 4e-6, yet an answer of zeros does not pass."""
    want = np.full((1, 262144), 1 / 262144)
    with pytest.raises(WrongAnswerError, match="262144 of 262144"):
        compare(y, Shape(M=1, N=262144), np.zeros_like(want, np.float32), want)


def test_a_wrong_element_of_a_selection_has_its_own_index(y):
    """Where only some elements are compared, the failure names them by their place in the array."""
    want, at = np.full(2, 0.25), np.array([[70000, 0], [70001, 3]])
    with pytest.raises(WrongAnswerError, match=r"(?s)y\[70000, 0\].*y\[70001, 3\]"):
        compare(y, Shape(M=80000, N=4), np.zeros(2, np.float32), want, at)


def test_some_items_of_a_large_case_are_checked(shipped):
    """Small shapes are checked in full, large ones at 8 rows at least and always the first and the last."""
    operator = shipped.operators["softmax"]
    assert pick(operator, Shape(M=64, N=1000)) == {}
    rows = pick(operator, Shape(M=70000, N=CHECK_ALL))["M"]
    assert rows[0] == 0
    assert rows[-1] == 69999
    assert len(rows) >= 8
    assert len(set(rows.tolist())) == len(rows)


def test_inputs_repeat_after_some_items(shipped, fake_device, monkeypatch):
    """With a limit of items row r of the input is row r modulo them, and answers are still compared row by row."""
    monkeypatch.setattr(values, "LEAST_TILE", 1)
    run = Run(fake_device(), built(shipped, "s3", M=8, N=32), items=3)
    assert run.inputs["x"].tile.size == 3 * 32
    run.run()
    assert run.verify().values == 8 * 32
    run.arrays["y"][[0, 1]] = run.arrays["y"][[1, 0]]
    with pytest.raises(WrongAnswerError, match=r"y\[0, 0\]"):
        run.verify()


def test_inputs_are_fixed_by_seed_and_shape(shipped):
    """The same seed gives the same inputs, another seed others."""
    operator = shipped.operators["softmax"]
    first, again, other = (make_inputs(operator, SHAPE, seed)["x"].full() for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_refusal_allocates_and_launches_nothing(shipped, fake_device):
    """A shape past a limit, and inputs of the wrong names, are refused before the device is asked for anything."""
    device = fake_device()
    device.empty = device.upload = device.repeat = None
    with pytest.raises(RefusedError, match="s3 can't run 2x152064"):
        Case(shipped.variant("s3"), Shape(M=2, N=152064), shipped)
    with pytest.raises(RefusedError, match="softmax takes x"):
        check(device, built(shipped, "s3", M=5, N=64), {"z": np.zeros((5, 64), np.float32)})


def test_the_worst_of_several_outputs_is_reported(shipped, fake_device):
    """With two outputs the accuracy is that of the worse one, whichever comes first."""
    a1 = shipped.variant("a1")
    loose = tuple(dataclasses.replace(a, rtol=1e-3) if a.role == "output" else a for a in a1.operator.arrays)
    variant = dataclasses.replace(a1, operator=dataclasses.replace(a1.operator, arrays=loose))
    build = Build.of(Plan(Case(variant, SHAPE), fake_device().gpu))
    for factors in ((1, 1.0005), (1.0005, 1)):
        run = Run(fake_device(), build)
        want = reference(run.operator, run.plan.shape, run.inputs)
        for name, factor in zip(want, factors, strict=True):
            run.arrays[name][...] = want[name] * factor
        assert 0.1 < run.verify().of_tolerance < 1


def test_another_scalar_reaches_the_reference_too(shipped, fake_device):
    """eps of a run is what kernel and reference both use."""
    inputs = {"x": np.full((2, 64), 1e-3, np.float32), "w": np.ones(64, np.float32)}
    run = Run(fake_device(), built(shipped, "n3", M=2, N=64), inputs, scalars={"eps": 3e-6})
    run.run()
    assert run.verify().of_tolerance < 1
    assert np.allclose(run.arrays["y"], 0.5, rtol=1e-3)


def test_no_memory_on_the_host_is_an_error_with_the_sizes():
    """Contents that the host can't hold are an error with their extents, so that a test is skipped and not broken."""
    x = Array("x", ("M", "N"), make=lambda shape, rng: np.zeros((shape.M, shape.N), np.float32))
    operator = Operator("op", "", (x, Array("y", ("M", "N"), role="output")), reference=lambda v: v.x)
    with pytest.raises(DeviceMemoryError, match=r"no memory for x of \(1009000, 2147483391\)"):
        make_inputs(operator, Shape(M=1009000, N=2**31 - 257))


def test_integer_inputs_are_whole_numbers_of_the_range(shipped):
    """Integers are drawn from [low, high), the negative ones too, and not cut towards zero."""
    softmax = shipped.operators["softmax"]
    x = dataclasses.replace(softmax.arrays[0], dtype="int8", low=-2.0, high=2.0)
    operator = dataclasses.replace(softmax, arrays=(x, softmax.arrays[1]))
    values = make_inputs(operator, Shape(M=64, N=64))["x"].full()
    assert values.dtype == np.int8
    counts = np.bincount(values.ravel() + 2, minlength=4)
    assert len(counts) == 4
    assert counts.min() > 0.8 * counts.mean()


def test_an_infinite_reference_takes_the_same_infinity_only(y):
    """Where the reference is +inf, -inf and a finite value fail."""
    want, shape = np.array([[np.inf]]), Shape(M=1, N=1)
    assert compare(y, shape, np.array([[np.inf]]), want).values == 1
    for wrong in (-np.inf, 5.0, np.nan):
        with pytest.raises(WrongAnswerError, match="1 of 1 values"):
            compare(y, shape, np.array([[wrong]]), want)


def test_an_exact_output_can_pass(y):
    """With no tolerance at all equal values pass with an error of 0, and the smallest difference fails."""
    exact = dataclasses.replace(y, rtol=0.0, atol=lambda s: 0.0)
    want, shape = np.array([[0.0, 1.0, np.inf]]), Shape(M=1, N=3)
    assert compare(exact, shape, want, want).of_tolerance == 0
    with pytest.raises(WrongAnswerError, match="inf times the tolerance"):
        compare(exact, shape, want + np.array([[0, 1e-15, 0]]), want)


@pytest.mark.parametrize(
    "host", [np.zeros((3, 64), np.float32), np.zeros((0, 64), np.float32), np.zeros((5, 64)), [[0.0]]]
)
def test_inputs_of_another_shape_or_dtype_are_refused(checked, host):
    """Inputs with fewer rows than the shape, or of another dtype, are refused and never repeated or cast."""
    with pytest.raises(RefusedError, match=r"x is .*nothing was launched"):
        checked(None, {"x": host})


def test_a_tolerance_that_accepts_zeros_is_a_wrong_declaration(shipped):
    """An output that declares 0.1 where values are 1/N would take anything."""
    y = dataclasses.replace(shipped.operators["softmax"].arrays[1], atol=1.0)
    softmax = shipped.operators["softmax"]
    operator = dataclasses.replace(softmax, arrays=(softmax.arrays[0], y))
    variant = dataclasses.replace(shipped.variant("s3"), operator=operator)
    with pytest.raises(DeclarationError, match="the tolerance of y accepts an answer of zeros"):
        dataclasses.replace(shipped, variants=(variant,), rules={}, workloads={})
