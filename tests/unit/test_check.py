"""The verdict on an answer has teeth, and inputs are what they say."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pytest_roofline.run.check import CHECK_ALL, Job, check, compare, make_inputs, reference, rows_to_check

from pytest_roofline import Array, Launch, Shape
from pytest_roofline.errors import DeclarationError, DeviceMemoryError, RefusedError, WrongAnswerError
from pytest_roofline.run import check as checking

SHAPE = Shape(M=5, N=64)


def test_a_right_kernel_passes(shipped, fake_device):
    """Right answers pass, and the errors that are reported are those of float32."""
    for name in ("n3", "s3"):
        found = check(fake_device(), shipped, shipped.variant(name), SHAPE)
        assert found.values == 5 * 64
        assert 0 < found.of_tolerance < 0.1


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
        (put(4, 63, np.nan), "1 of 320 values.*row 4, column 63: got nan, want 0"),
        (put(0, 0, np.inf), "row 0, column 0"),
        (put(2, 7, 0.0), "row 2, column 7: got 0, want 0"),
        (lambda y: np.multiply(y, 1.003, out=y), "320 of 320 values.*1.5 times the tolerance"),
        (lambda y: None, None),
    ],
)
def test_a_wrong_value_is_named(shipped, fake_device, change, message):
    """NaN, infinity, zero and 0.3 % too much each fail, with place, value, count and largest error."""
    device = fake_device(sm_s3=broken(change))
    if message is None:
        check(device, shipped, shipped.variant("s3"), SHAPE)
        return
    with pytest.raises(WrongAnswerError, match=f"(?s)s3 5x64.*{message}"):
        check(device, shipped, shipped.variant("s3"), SHAPE)


def test_an_unwritten_element_fails(shipped, fake_device):
    """The output is poisoned before the run, so an element that no thread writes is NaN and fails."""

    def body(grid, x, y, N):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y[:, :-1] = (e / e.sum(axis=1, keepdims=True))[:, :-1]

    with pytest.raises(WrongAnswerError, match="5 of 320 values"):
        check(fake_device(sm_s3=body), shipped, shipped.variant("s3"), SHAPE)


def test_a_write_past_the_end_fails(shipped, fake_device):
    """One byte changed behind the output is found, although every answer is right."""
    job = Job(fake_device(), shipped, shipped.variant("s3"), SHAPE)
    job.run()
    job.guards["y"][3] = 0.0
    with pytest.raises(WrongAnswerError, match="wrote past the end of y, first at byte 12 behind it, 4 bytes"):
        job.verify()


def test_long_rows_of_zeros_fail(shipped):
    """At 262144 columns the values are 4e-6, yet an answer of zeros does not pass."""
    operator = shipped.operators["softmax"]
    want = np.full((1, 262144), 1 / 262144)
    with pytest.raises(WrongAnswerError, match="262144 of 262144"):
        compare(operator, "y", np.zeros_like(want, np.float32), want, np.arange(1), 262144)


def test_a_wrong_row_number_is_the_real_one(shipped):
    """Where only some rows are compared, the failure names the row of the array, not of the selection."""
    want = np.full((2, 4), 0.25)
    with pytest.raises(WrongAnswerError, match="row 70000, column 0"):
        compare(shipped.operators["softmax"], "y", np.zeros((2, 4)), want, np.array([70000, 70001]), 4)


def test_rows_to_check(shipped):
    """Small shapes check every row, large ones at least 8 rows and always the first and the last."""
    operator = shipped.operators["softmax"]
    assert rows_to_check(operator, Shape(M=64, N=1000)).tolist() == list(range(64))
    rows = rows_to_check(operator, Shape(M=70000, N=CHECK_ALL))
    assert rows[0] == 0
    assert rows[-1] == 69999
    assert 8 <= len(rows) <= 10
    assert len(set(rows)) == len(rows)


def test_inputs_repeat_rows_past_the_tile(shipped, fake_device, monkeypatch):
    """Beyond the tile limit row r of the input is row r modulo the tile, and answers are still compared row by row."""
    monkeypatch.setattr(checking, "TILE_ABOVE", 100)
    monkeypatch.setattr(checking, "TILE_ROWS", 3)
    job = Job(fake_device(), shipped, shipped.variant("s3"), Shape(M=8, N=32))
    assert job.inputs["x"].shape == (3, 32)
    job.run()
    assert job.verify().rows == 8
    swapped = job.outputs["y"][[0, 1]]
    job.outputs["y"][[1, 0]] = swapped
    with pytest.raises(WrongAnswerError, match="row 0"):
        job.verify()


def test_inputs_are_fixed_by_seed_and_shape(shipped):
    """The same seed gives the same inputs, another seed others."""
    operator = shipped.operators["softmax"]
    first, again, other = (make_inputs(operator, SHAPE, seed)["x"] for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_refusal_allocates_and_launches_nothing(shipped, fake_device):
    """A shape past a limit, and inputs of the wrong names, are refused before the device is asked for anything."""
    device = fake_device()
    device.empty = device.upload = None
    with pytest.raises(RefusedError, match="s3 can't run 2x152064"):
        Job(device, shipped, shipped.variant("s3"), Shape(M=2, N=152064))
    with pytest.raises(RefusedError, match="softmax takes x"):
        check(device, shipped, shipped.variant("s3"), SHAPE, {"z": np.zeros((5, 64), np.float32)})


def test_an_unwritten_value_fails_where_nan_is_due(shipped, fake_device):
    """The poison is NaN, but does not pass for the NaN that a row of -inf gives: it was never written."""

    def lazy(grid, x, y, N):
        rows = np.isfinite(x).all(axis=1)
        e = np.exp(x[rows] - x[rows].max(axis=1, keepdims=True))
        y[rows] = e / e.sum(axis=1, keepdims=True)

    x = np.random.default_rng(0).random((2, 64), dtype=np.float32)
    x[0] = -np.inf
    shape, variant = Shape(M=2, N=64), shipped.variant("s3")
    assert check(fake_device(), shipped, variant, shape, {"x": x}).rows == 2
    with pytest.raises(WrongAnswerError, match="64 of 128 values of y were never written"):
        check(fake_device(sm_s3=lazy), shipped, variant, shape, {"x": x})


def test_a_reference_must_return_every_output(shipped):
    """A reference that leaves an output out, or returns something else, is an error and not a pass."""
    operator = shipped.operators["softmax"]
    inputs = make_inputs(operator, SHAPE)
    for wrong in (lambda a, s: {}, lambda a, s: {"z": a["x"]}, lambda a, s: None):
        with pytest.raises(DeclarationError, match="must return all of y"):
            reference(dataclasses.replace(operator, reference=wrong), inputs, np.arange(5))


def test_a_kernel_that_changes_its_input_fails(shipped, fake_device):
    """The answer is right, but x is not what it was: the second run would be wrong."""

    def greedy(grid, x, y, N):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y[...] = e / e.sum(axis=1, keepdims=True)
        x[0, 0] = 0

    with pytest.raises(WrongAnswerError, match="the kernel changed its input x"):
        check(fake_device(sm_s3=greedy), shipped, shipped.variant("s3"), SHAPE)


def test_the_worst_of_several_outputs_is_reported(shipped, fake_device):
    """With two outputs the accuracy is that of the worse one, whichever comes first."""
    for order in ((1.0, 1.001), (1.001, 1.0)):
        outputs = (Array("a", ("M", "N")), Array("b", ("M", "N")))
        operator = dataclasses.replace(
            shipped.operators["softmax"], outputs=outputs, reference=lambda a, s: {"a": a["x"], "b": a["x"]}
        )
        launch = Launch("sm_s3", ("x", "a", "N"), reads=("x",), writes=("a", "b"))
        variant = dataclasses.replace(shipped.variant("s3"), operator=operator, launches=(launch,))
        job = Job(fake_device(sm_s3=lambda *_: None), shipped, variant, SHAPE)
        for name, factor in zip("ab", order, strict=True):
            job.outputs[name][...] = job.inputs["x"] * factor
        assert 0.1 < job.verify().of_tolerance < 1


def test_another_scalar_reaches_the_reference_too(shipped, fake_device):
    """eps of a job is what kernel and reference both use."""
    inputs = {"x": np.full((2, 64), 1e-3, np.float32), "w": np.ones(64, np.float32)}
    job = Job(fake_device(), shipped, shipped.variant("n3"), Shape(M=2, N=64), inputs, scalars={"eps": 3e-6})
    job.run()
    assert job.verify().of_tolerance < 0.1
    assert np.allclose(job.outputs["y"], 0.5, rtol=1e-3)


def test_no_memory_on_the_host_is_an_error_with_the_sizes(shipped):
    """Inputs that the host can't hold are an error with their extents, so that a test is skipped and not broken."""
    with pytest.raises(DeviceMemoryError, match=r"no memory for x of \(1009, 2147483391\)"):
        make_inputs(shipped.operators["softmax"], Shape(M=1009, N=2**31 - 257))


def test_integer_inputs_are_whole_numbers_of_the_range(shipped):
    """Integers are drawn from [low, high), the negative ones too, and not cut towards zero."""
    x = dataclasses.replace(shipped.operators["softmax"].inputs[0], dtype="int8", low=-2.0, high=2.0)
    operator = dataclasses.replace(shipped.operators["softmax"], inputs=(x,))
    values = make_inputs(operator, Shape(M=64, N=64))["x"]
    assert values.dtype == np.int8
    counts = np.bincount(values.ravel() + 2, minlength=4)
    assert len(counts) == 4
    assert counts.min() > 0.8 * counts.mean()


def test_an_infinite_reference_takes_the_same_infinity_only(shipped):
    """Where the reference is +inf, -inf and a finite value fail."""
    operator, want = shipped.operators["softmax"], np.array([[np.inf]])
    assert compare(operator, "y", np.array([[np.inf]]), want, np.arange(1), 1).values == 1
    for wrong in (-np.inf, 5.0, np.nan):
        with pytest.raises(WrongAnswerError, match="1 of 1 values"):
            compare(operator, "y", np.array([[wrong]]), want, np.arange(1), 1)


def test_an_exact_operator_can_pass(shipped):
    """With no tolerance at all equal values pass with an error of 0, and the smallest difference fails."""
    exact = dataclasses.replace(shipped.operators["softmax"], rtol=0.0, atol=lambda columns: 0.0)
    want = np.array([[0.0, 1.0, np.inf]])
    assert compare(exact, "y", want, want, np.arange(1), 3).of_tolerance == 0
    with pytest.raises(WrongAnswerError, match="inf times the tolerance"):
        compare(exact, "y", want + np.array([[0, 1e-15, 0]]), want, np.arange(1), 3)


def test_inputs_of_another_shape_or_dtype_are_refused(shipped, fake_device):
    """Inputs with fewer rows than the shape, or of another dtype, are refused and never repeated or cast."""
    for host in (np.zeros((3, 64), np.float32), np.zeros((0, 64), np.float32), np.zeros((5, 64)), [[0.0]]):
        with pytest.raises(RefusedError, match="softmax: x is"):
            check(fake_device(), shipped, shipped.variant("s3"), SHAPE, {"x": host})
