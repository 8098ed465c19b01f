"""Counts and modelled times from disk are what a fresh model gives, to the bit, and never those of something else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_roofline import Array, Launch, Operator, Shape, Variant
from pytest_roofline.bench.modelled import Modelled
from pytest_roofline.build.cache import CacheWarning, Store
from pytest_roofline.errors import WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model import count as counting
from pytest_roofline.model import kept, models
from pytest_roofline.model.kept import decoded, encoded
from pytest_roofline.model.models import Models
from pytest_roofline.run.case import Case

H200 = gpu_named("h200")


@pytest.fixture
def fresh(monkeypatch):
    """How many cases were counted, and how many sweeps modelled, since the last look."""

    class Calls(list):
        def since(self) -> list[str]:
            found, self[:] = [*self], []
            return found

    calls = Calls()
    for name in ("count", "speed_of_light"):
        real = getattr(models, name)
        monkeypatch.setattr(models, name, lambda *args, _n=name, _f=real: (calls.append(_n), _f(*args))[1])
    return calls


@pytest.mark.parametrize(
    ("name", "extents"),
    [
        ("n1", {"M": 300, "N": 1000}),  # two launches, each sampled
        ("s9", {"M": 40, "N": 9000}),  # clusters
        ("a2", {"M": 1, "N": 3584}),  # one block, two outputs
    ],
)
@pytest.mark.parametrize("state", ["cold", "warm"])
def test_a_record_from_disk_is_the_fresh_one(tmp_path, fresh, shipped, name, extents, state):
    """Every key and value is the same, and nothing is counted or modelled again."""
    case = Case(shipped.variant(name), Shape(**extents), shipped)
    first = Modelled(Models(H200, Store(tmp_path))).record(case, state)
    assert fresh.since() == ["count", "speed_of_light"]
    again = Modelled(Models(H200, Store(tmp_path))).record(case, state)
    assert fresh.since() == []
    assert again == first
    assert again.extra_info() == first.extra_info()


def test_both_states_share_one_count(tmp_path, fresh, shipped):
    """Cold and warm differ in DRAM traffic alone: the second state is modelled, not counted."""
    case = Case(shipped.variant("n3"), Shape(M=64, N=1024), shipped)
    cold, _ = Models(H200, Store(tmp_path)).sol(case, "cold")
    fresh.since()
    warm, _ = Models(H200, Store(tmp_path)).sol(case, "warm")
    assert fresh.since() == ["speed_of_light"]
    assert cold.dram.read > warm.dram.read
    assert Models(H200, Store(tmp_path)).sol(case, "cold")[0].dram == cold.dram


def parts(work):
    touched = (
        None if work.touched is None else [(*map(list, (t.blocks, t.first, t.end)), t.write) for t in work.touched]
    )
    return {**vars(work), "touched": touched}


def test_work_is_read_as_it_was_written(build):
    """Counts by array and line, instructions and what each block touches, of a uniform grid and of a ragged one."""
    counted = counting.count(build("s1", M=50, N=777))
    (work, *_) = counted.works
    odd = dataclasses.replace(work, touched=None, ragged=True)
    everything = dataclasses.replace(counted, works=(*counted.works, odd))
    again, verdict = kept.counted_from_json(kept.counted_to_json(everything, "v"))
    assert verdict == "v"
    assert [parts(one) for one in again.works] == [parts(one) for one in everything.works]
    assert (again.accuracy, again.items) == (counted.accuracy, counted.items)
    assert {n: list(i) for n, i in again.picked.items()} == {n: list(i) for n, i in counted.picked.items()}


@given(st.lists(st.integers(-(2**62), 2**62), max_size=40) | st.builds(range, st.integers(0, 9), st.integers(10, 99)))
def test_any_whole_numbers_are_read_as_they_were_written(values):
    """Whatever the numbers, few or many, at a steady step or not."""
    numbers = np.array(values, np.int64)
    found = decoded(encoded(numbers))
    assert found.dtype == np.int64
    assert (found == numbers).all()
    assert len(found) == len(numbers)


COPY = """
extern "C" __global__ void twice(const float* x, float* y, int N) {
    for (int i = threadIdx.x; i < N; i += blockDim.x) y[blockIdx.x * N + i] = 2 * x[blockIdx.x * N + i];
}
"""


@pytest.fixture
def twice(tmp_path):
    """``twice(text=..., factor=...)`` is a case of a kernel that doubles, whose reference multiplies by ``factor``."""
    folder = tmp_path / "declared"
    folder.mkdir()

    def make(text: str = COPY, factor: float = 2, rtol: float = 1e-5, high: float = 1.0, block: int = 32) -> Case:
        (folder / "twice.cu").write_text(text)
        arrays = (Array("x", ("M", "N"), high=high), Array("y", ("M", "N"), role="output", rtol=rtol))
        operator = Operator("twice", "y = 2 x", arrays, reference=lambda v: {"y": factor * v.x})
        launch = Launch("twice", args=("x", "y", "N"), grid=lambda s: s.M, block=block)
        variant = Variant("v1", operator, "twice.cu", (launch,))
        return Case(dataclasses.replace(variant, root=folder), Shape(M=40, N=100))

    return make


CHANGES = {
    "the kernel": {"text": COPY.replace("2 * x", "x[blockIdx.x * N + i] + x")},
    "the inputs": {"high": 2.0},
    "the block": {"block": 64},
    "the tolerance": {"rtol": 1e-3},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_could_change_the_result_is_counted_anew(tmp_path, fresh, twice, change):
    """Another kernel, other inputs, another block, another tolerance: nothing of the old entry is believed."""
    Models(H200, Store(tmp_path)).sol(twice(), "cold")
    fresh.since()
    Models(H200, Store(tmp_path)).sol(twice(), "cold")
    assert fresh.since() == []
    Models(H200, Store(tmp_path)).sol(twice(**CHANGES[change]), "cold")
    assert "count" in fresh.since()
    Models(dataclasses.replace(H200, sms=H200.sms - 2), Store(tmp_path)).sol(twice(), "cold")
    assert "count" in fresh.since()


def test_an_answer_is_not_right_because_it_was(tmp_path, twice):
    """Where the reference changes, what is kept says nothing: the same kernel is now wrong."""
    Models(H200, Store(tmp_path)).sol(twice(), "cold")
    with pytest.raises(WrongAnswerError, match="values of y are wrong"):
        Models(H200, Store(tmp_path)).sol(twice(factor=3), "cold")


def test_a_wrong_answer_is_never_kept(tmp_path, twice):
    """It is wrong again the second time, and nothing lies on disk."""
    for _ in range(2):
        with pytest.raises(WrongAnswerError):
            Models(H200, Store(tmp_path / "kept")).sol(twice(factor=3), "cold")
    assert not (tmp_path / "kept").exists()


def test_other_code_of_the_package_counts_anew(tmp_path, fresh, twice, monkeypatch):
    """Another version of the simulator or the model may count otherwise."""
    Models(H200, Store(tmp_path)).sol(twice(), "cold")
    fresh.since()
    monkeypatch.setattr(kept, "own_code", lambda: "another")
    Models(H200, Store(tmp_path)).sol(twice(), "cold")
    assert fresh.since() == ["count", "speed_of_light"]


def test_damage_is_absence(tmp_path, fresh, twice):
    """A file that was cut or changed is counted anew and written over; one that can't be written stops nothing."""
    first = Models(H200, Store(tmp_path / "kept")).sol(twice(), "cold")[0]
    fresh.since()
    for damage in (lambda data: data[:-40], lambda data: data.replace(b"2", b"3"), lambda data: b""):
        for path in (tmp_path / "kept").iterdir():
            path.write_bytes(damage(path.read_bytes()))
        assert Models(H200, Store(tmp_path / "kept")).sol(twice(), "cold")[0].seconds == first.seconds
        assert fresh.since() == ["count", "speed_of_light"]
    (tmp_path / "file").write_text("no folder")
    with pytest.warns(CacheWarning):
        assert Models(H200, Store(tmp_path / "file")).sol(twice(), "cold")[0].seconds == first.seconds
