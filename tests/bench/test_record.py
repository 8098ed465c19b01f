"""A record and the keys of extra_info that it makes and is read from."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from pytest_roofline import Shape
from pytest_roofline.bench.modelled import Modelled
from pytest_roofline.bench.record import LaunchRecord, Record, finite, labels, reference
from pytest_roofline.errors import BaselineError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.models import Models
from pytest_roofline.run.case import Case

LAUNCH = LaunchRecord(
    "scale<256, float>",
    registers=40,
    spill_bytes=0,
    stack_bytes=0,
    shared_bytes=32,
    blocks_per_sm=6,
    occupancy_percent=75.0,
    occupancy_limit="registers",
    waves=2.5,
    sol_us=1.5,
    sol_bound="DRAM",
    coalescing_percent={"x": 100.0},
    counters={"x.requests": 8, "x.sectors": 32, "issued.load": 8, "special_lanes": 0},
)
RECORD = Record(
    evidence="measured",
    operator="scale",
    variant="v1",
    shape="8x1000",
    extents={"M": 8, "N": 1000},
    dtype="float32",
    state="cold",
    median_us=12.5,
    median_error_percent=0.1,
    bytes_moved=64000,
    bytes_per_element=8.0,
    notes=("fits L2", "short"),
    metric_valid=False,
    speedup_valid=True,
    registers=40,
    gpu="NVIDIA H200",
    arch="sm_90",
    launches=(LAUNCH, replace(LAUNCH, kernel="sum"), replace(LAUNCH, registers=41, counters={"x.requests": 9})),
)


UNITS = {"_us": "us", "_percent": "%", "_bytes": "bytes", "_mhz": "MHz", "_gbs": "GB/s"}


def test_a_record_is_read_as_it_was_written():
    """Through JSON and back nothing changes, three launches of two kernels and a comma in a name included."""
    info = json.loads(json.dumps(RECORD.extra_info(), allow_nan=False))
    assert Record.read(info) == RECORD


def test_keys_are_the_names_of_the_fields():
    """What a saved run holds can be looked up in the class: key by key, launch by launch."""
    info = RECORD.extra_info()
    assert info["median_us"] == 12.5
    assert (info["extent.M"], info["extent.N"], info["shape"]) == (8, 1000, "8x1000")
    assert info["notes"] == "fits L2, short"
    assert info["kernels"] == "scale<256, float>; sum; scale<256, float>"
    assert info["sum.registers"] == 40
    assert info["scale<256, float>#2.registers"] == 41
    assert info["count.scale<256, float>.x.requests"] == 8
    assert info["count.scale<256, float>#2.x.requests"] == 9
    assert info["sum.x.coalescing_percent"] == 100.0
    assert RECORD.counters()["scale<256, float>#2.x.requests"] == 9


def test_launches_of_one_kernel_have_labels_of_their_own():
    """The second and third launch of a kernel are numbered."""
    assert labels(["a", "b", "a", "a"]) == ["a", "b", "a#2", "a#3"]


def test_every_key_is_explained_with_its_unit(shipped):
    """Each key that a run saves has one row in the reference; times are in us, shares in %, sizes in bytes."""
    case = Case(shipped.variant("n1"), Shape(M=8, N=1000), shipped)
    info = Modelled(Models(gpu_named("h200"))).record(case, "cold").extra_info()
    rows = {name: (unit, doc) for name, unit, doc in reference()}
    assert len(rows) == len(reference())
    for key in (*info, *RECORD.extra_info()):
        name = key
        for kernel in ("rms_n1_pass1", "rms_n1_pass2", "scale<256, float>#2", "scale<256, float>", "sum"):
            name = name.replace(f"{kernel}.", "KERNEL.", 1)
        if name.startswith("extent."):
            name = "extent.NAME"
        elif name.startswith("count."):
            name = "count.KERNEL.NAME"
        elif name.endswith(".coalescing_percent"):
            name = "KERNEL.ARRAY.coalescing_percent"
        assert name in rows, key
    for name, (unit, doc) in rows.items():
        assert doc, name
        for ending, wanted in (
            ("_us", "us"),
            ("_percent", "%"),
            ("_bytes", "bytes"),
            ("_mhz", "MHz"),
            ("_gbs", "GB/s"),
        ):
            assert not name.endswith(ending) or unit == wanted, name


def test_no_two_fields_share_a_key():
    """A launch's own name for a figure is the record's where both have it, and nothing else overlaps."""
    names = [one.name for one in fields(Record)]
    assert len(names) == len(set(names))
    assert not {"kernels", "extent"} & {*names}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"median_us": "12"}, r"has '12' for 'median_us', wanted float \| None"),
        ({"median_us": math.nan}, "has nan for 'median_us'"),
        ({"median_us": True}, "has True for 'median_us'"),
        ({"registers": 40.5}, "has 40.5 for 'registers'"),
        ({"state": None}, "has None for 'state', wanted str"),
        ({"metric_valid": 1}, "has 1 for 'metric_valid'"),
        ({"notes": ["short"]}, "for 'notes'"),
        ({"extent.M": 8.0}, "has 8.0 for 'extent.M'"),
        ({"count.sum.x.requests": "8"}, "has '8' for 'count.sum.x.requests'"),
        ({"sum.registers": "40"}, "has '40' for 'sum.registers'"),
        ({"sum.x.coalescing_percent": math.inf}, "has inf for 'sum.x.coalescing_percent'"),
    ],
)
def test_a_value_of_another_type_is_told_by_its_key(change, told):
    """A saved run that was changed by hand, or is of another version, is an error that names the key."""
    with pytest.raises(BaselineError, match=told):
        Record.read(RECORD.extra_info() | change)


@pytest.mark.parametrize("key", ["state", "variant", "dtype", "waves", "sum.registers"])
def test_a_key_that_is_missing_is_told(key):
    """C88: no state, no variant, no dtype: nothing is guessed."""
    info = RECORD.extra_info()
    del info[key]
    with pytest.raises(BaselineError, match=f"has no '{key}'"):
        Record.read(info)


@pytest.mark.parametrize("info", [[], None, "text", 3])
def test_c88_extra_info_that_is_no_object_is_told(info):
    """A list where an object has to be is an error of the baseline, not a traceback."""
    with pytest.raises(BaselineError, match="extra_info is a"):
        Record.read(info)


def test_c45_numbers_are_finite_python_numbers():
    """NaN and infinity become null with the reason beside it, NumPy scalars Python numbers; the rest stays."""
    given = {"a": math.nan, "b": math.inf, "c": np.float32(1.5), "d": np.int64(3), "e": "x", "f": True, "g": None}
    info = {}
    for name, value in given.items():
        info |= finite(name, value)
    assert info == {
        "a": None,
        "a.reason": "was nan",
        "b": None,
        "b.reason": "was inf",
        "c": 1.5,
        "d": 3,
        "e": "x",
        "f": True,
        "g": None,
    }
    assert type(info["c"]) is float
    assert type(info["d"]) is int
    json.dumps(info, allow_nan=False)


def test_c45_a_record_with_what_is_not_finite_is_saved_and_read():
    """The number is gone and the reason stands beside its key; what is read back has no number there."""
    odd = replace(RECORD, gbs=np.float64(math.inf), launches=(replace(LAUNCH, waves=math.nan),))
    info = json.loads(json.dumps(odd.extra_info(), allow_nan=False))
    assert (info["gbs"], info["gbs.reason"]) == (None, "was inf")
    assert info["scale<256, float>.waves.reason"] == "was nan"
    again = Record.read(info)
    assert again.gbs is again.launches[0].waves is None
