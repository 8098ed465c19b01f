"""The checks without pytest: what a script or a notebook calls."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import pytest_roofline
from pytest_roofline import Shape, Suite, check, load, modelled, occupancy, sanitize, time, traffic
from pytest_roofline.devices import Devices
from pytest_roofline.errors import DeviceError, RefusedError, UnknownNameError, WrongAnswerError
from pytest_roofline.run.gpu import device as driver

AXPBY = Path(__file__).parents[1] / "axpby"
SHAPE = Shape(M=4, N=100)


@pytest.fixture
def no_gpu(monkeypatch):
    """A machine without a GPU, whatever this one has."""

    def count() -> int:
        raise DeviceError("no usable NVIDIA driver or device")

    monkeypatch.setattr(driver, "count", count)


@pytest.fixture(scope="module")
def axpby() -> Suite:
    return load(AXPBY / "suite.py")


@pytest.fixture
def racing(tmp_path) -> Suite:
    """The same kernel with a race in shared memory before it."""
    for name in ("suite.py", "axpby.cu"):
        (tmp_path / name).write_text((AXPBY / name).read_text())
    source = tmp_path / "axpby.cu"
    race = "__shared__ float s[128]; s[threadIdx.x] = a; if (s[threadIdx.x ^ 64] != a) return;\n"
    source.write_text(source.read_text().replace("    long long offset", f"    {race}    long long offset"))
    return load(tmp_path / "suite.py")


def test_a_right_answer_says_where_it_was_had(no_gpu, axpby):
    """A variant as declared, or its name with the suite; the result reads as a sentence and has the errors."""
    for found in (check(axpby.variant("axpby"), SHAPE), check("axpby", SHAPE, suite=axpby, device="sim", gpu="h200")):
        assert found.evidence == "simulated"
        assert 0 < found.accuracy.values == SHAPE.M * SHAPE.N
        assert str(found).startswith(f"axpby 4x100: right, simulated on {found.gpu}: 400 values, largest error ")
    assert found.gpu == "NVIDIA H200"


def test_inputs_are_the_callers(no_gpu, axpby):
    """Host arrays by name; one of another shape is refused before anything runs."""
    ones = {"x": np.ones((4, 100), np.float32), "y": np.zeros((4, 100), np.float32)}
    assert check("axpby", SHAPE, ones, suite=axpby).accuracy.of_tolerance <= 1
    with pytest.raises(RefusedError, match="x"):
        check("axpby", SHAPE, {**ones, "x": np.ones((4, 99), np.float32)}, suite=axpby)


def test_a_wrong_answer_is_an_error(no_gpu, axpby):
    """Held against another reference than the kernel's, it names the output."""
    variant = axpby.variant("axpby")
    other = dataclasses.replace(variant.operator, reference=lambda v: {"z": v.a * v.x - v.y})
    with pytest.raises(WrongAnswerError, match=r"axpby 4x100: .*values of z are wrong"):
        check(dataclasses.replace(variant, operator=other), SHAPE)


def test_memory_is_given_back_whatever_happens(no_gpu, axpby, monkeypatch):
    """After a right answer and after an error the devices of the call are released."""
    released = []
    monkeypatch.setattr(Devices, "release", lambda self: released.append(self))
    check("axpby", SHAPE, suite=axpby)
    sanitize("axpby", SHAPE, suite=axpby)
    with pytest.raises(RefusedError):
        check("axpby", Shape(M=1, N=4097), suite=axpby)
    assert len(released) == 3


def test_what_does_not_exist_is_named(no_gpu, axpby):
    """A name without a suite, unknown variants, devices, GPUs, states and tools, and a GPU that is not there."""
    for said, call in {
        "give the suite too": lambda: check("axpby", SHAPE),
        "there is no variant 'k'; the suite has axpby": lambda: traffic("k", SHAPE, suite=axpby),
        "there is no device 'gpu'; there are auto, cuda, sim": lambda: check("axpby", SHAPE, suite=axpby, device="gpu"),
        "gtx1": lambda: occupancy("axpby", SHAPE, suite=axpby, gpu="gtx1"),
        "there is no state 'tepid'": lambda: traffic("axpby", SHAPE, suite=axpby, state="tepid"),
        "there is no state 'lukewarm'": lambda: modelled("axpby", SHAPE, suite=axpby, state="lukewarm"),
        "has no tool 'racechk'; it has racecheck": lambda: sanitize("axpby", SHAPE, "racechk", suite=axpby),
    }.items():
        with pytest.raises(UnknownNameError, match=said):
            call()
    for call in (lambda: time("axpby", SHAPE, suite=axpby), lambda: check("axpby", SHAPE, suite=axpby, device="cuda")):
        with pytest.raises(DeviceError, match="no usable NVIDIA driver or device"):
            call()


def test_races_are_found_in_the_simulator(no_gpu, axpby, racing):
    """Without a GPU the report is the simulator's: clean, or with what it found; the suite is not needed."""
    assert sanitize(axpby.variant("axpby"), SHAPE).verdict == "clean"
    report = sanitize(racing.variant("axpby"), SHAPE)
    assert report.verdict == "findings"
    assert "racecheck of axpby 4x100, simulated" in str(report)
    assert sanitize("axpby", SHAPE, "memcheck", suite=racing).verdict == "clean"


def test_traffic_and_record_of_a_gpu_model(no_gpu, axpby):
    """Speed of light and counts on any GPU of the table; a faster one is faster, a warm cache reads nothing."""
    shape = Shape(M=4096, N=4096)
    h200, rtx = (traffic("axpby", shape, suite=axpby, gpu=name) for name in ("h200", "rtx4090"))
    assert h200.sol.seconds < rtx.sol.seconds
    assert str(h200).startswith("axpby 4096x4096: ")
    assert "speed of light on NVIDIA H200, modelled, not measured, bound by DRAM, cold L2; " in str(h200)
    (launch,) = h200.sol.launches
    assert launch.work.buffers["x"].bytes == 4 * shape.M * shape.N
    record = modelled("axpby", shape, suite=axpby, gpu="h200")
    assert (record.evidence, record.sol_us) == ("simulated", h200.sol.seconds * 1e6)
    small = traffic("axpby", SHAPE, suite=axpby, state="warm")
    assert small.sol.dram is not None
    assert small.sol.dram.read == 0


def test_occupancy_of_each_launch(no_gpu, axpby):
    """Registers, blocks an SM and waves of a launch, on any GPU of the table."""
    (found,) = occupancy("axpby", Shape(M=4096, N=64), suite=axpby, gpu="h200")
    assert (found.kernel, found.occupancy.blocks, found.occupancy.limited_by) == ("axpby", 16, "threads")
    assert found.waves == pytest.approx(4096 / (132 * 16))
    assert str(found).startswith("axpby: ")
    assert "16 blocks an SM (100% occupancy, limited by threads), 1.94 waves" in str(found)


def test_everything_public_is_listed():
    """What ``import *`` gives is there, each with a docstring."""
    for name in pytest_roofline.__all__:
        one = getattr(pytest_roofline, name)
        assert name == "NULL" or one.__doc__, name


def test_on_a_gpu_it_is_measured(cuda_device, axpby):
    """The same call measures where there is a GPU; time gives the record of a benchmark."""
    assert check("axpby", SHAPE, suite=axpby).evidence == "measured"
    record = time("axpby", Shape(M=4096, N=4096), suite=axpby, samples=5)
    assert (record.evidence, record.variant, record.bytes_moved) == ("measured", "axpby", 12 * 4096 * 4096)
    assert 20 < record.mbu_percent < 130
    assert time(axpby.variant("axpby"), SHAPE, samples=2).median_us > 0
