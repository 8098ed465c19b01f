"""What a launch does, and its least time by each ceiling, against figures worked by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.facts import Facts
from pytest_roofline.model.l2 import Dram
from pytest_roofline.model.sol import LAUNCH_SECONDS, LaunchSol, limits, speed_of_light
from pytest_roofline.model.work import Work, added, unique_bytes
from pytest_roofline.sim.observe.traffic import Counts, Touch, kind_of

RTX4090 = gpu_named("rtx4090")


def touch(*spans, write=False):
    first, end = zip(*spans, strict=True)
    return Touch(np.arange(len(spans)), np.array(first), np.array(end), write)


def test_unique_bytes_count_what_is_touched_twice_once():
    """Overlaps and repeats of a block count once, other blocks' accesses not at all."""
    touched = [touch((0, 64), (1000, 1064)), touch((32, 96), (1000, 1064)), touch((200, 204), (0, 4))]
    assert [unique_bytes(touched, block) for block in (0, 1, 2)] == [100, 68, 0]


def test_instructions_have_a_class():
    """Moves and integers are "other", for ptxas may drop them; a load of a parameter is no access to memory."""
    kinds = {
        "ld.global.nc.v4.f32": "load",
        "ld.param.u64": "other",
        "st.shared.f32": "store",
        "ex2.approx.ftz.f32": "special",
        "div.full.f32": "special",
        "div.s32": "other",
        "fma.rn.f32": "float",
        "add.s64": "other",
        "add.ftz.f32": "float_add",
        "add.rn.f32": "float",
        "neg.f32": "other",
        "shfl.sync.bfly.b32": "shuffle",
        "bar.sync": "barrier",
        "atom.global.add.f32": "atomic",
        "mov.u32": "other",
    }
    assert {opcode: kind_of(opcode) for opcode in kinds} == kinds


def made(**changed):
    counts = Counts(lanes=2560, bytes=10240, requests=80, unique_bytes=10240, sectors=320)
    spans = [(1024 * n, 1024 * (n + 1)) for n in range(10)]
    work = Work("k", 10, 4, {"x": counts}, {}, {"float": 5120, "other": 9999}, 2560, (touch(*spans),))
    return dataclasses.replace(work, **changed)


def test_limits_by_hand():
    """DRAM bytes over the peak; the rest by the SM that has most to do, here one block of ten on an SM of its own."""
    found = limits(made(), Dram(10080, 0), RTX4090)
    clock = 2520e6
    assert found == pytest.approx(
        {
            "DRAM": 10080 / 1008.096e9,
            "L2": 1024 / (64 * clock),
            "special": 256 / (16 * clock),
            "issue": 512 / (4 * clock),
        }
    )
    two = limits(made(blocks=129), Dram(0, 0), RTX4090)["special"]
    assert two == pytest.approx(2560 / 129 * 2 / (16 * clock))
    uneven = limits(made(blocks=10, executed=10), Dram(0, 0), RTX4090)["special"]
    assert uneven == pytest.approx(2560 / 10 / (16 * clock)), "blocks of unequal work may be spread evenly"


def test_the_ceiling_that_binds_is_named():
    """The longest time, or the launch where all are shorter; it takes the launch and that time."""
    long = LaunchSol(made(), None, {"DRAM": 3e-6, "issue": 5e-6})
    assert (long.bound, long.seconds) == ("issue", pytest.approx(LAUNCH_SECONDS + 5e-6))
    short = LaunchSol(made(), None, {"DRAM": 1e-9})
    assert (short.bound, short.seconds) == ("launch", pytest.approx(LAUNCH_SECONDS + 1e-9))


def test_what_has_gaps_is_not_modelled():
    """A block that touches four bytes here and there spans more than it moves: its DRAM traffic is not guessed."""
    assert made().dense
    gaps = made(buffers={"x": Counts(lanes=10, bytes=40, requests=10, unique_bytes=40, sectors=10)})
    assert not gaps.dense
    assert gaps.unique_bytes == 0
    assert limits(gaps, None, RTX4090)["L2"] == 0


def test_what_blocks_share_goes_through_l2_once():
    """A table that all blocks read may stay in L1: its bytes are spread over the SMs, those of one block are not."""
    counts = Counts(lanes=1, bytes=1, requests=1, unique_bytes=10 * 4096, sectors=10 * 128)
    table = made(buffers={"w": counts}, touched=(touch(*[(0, 4096)] * 10),))
    assert (table.unique_bytes, table.largest_block) == (4096, 4096)
    assert limits(table, None, RTX4090)["L2"] == pytest.approx(4096 / (64 * 2520e6))


def test_a_launch_with_gaps_has_no_dram_in_it(build):
    """Where one launch touches memory with gaps the DRAM traffic is None, and no ceiling of it binds."""
    gaps = made(buffers={"x": Counts(lanes=10, bytes=40, requests=10, unique_bytes=40, sectors=10)})
    facts = Facts(build("n3", M=10, N=1024))
    found = speed_of_light(facts, [gaps], "cold")
    assert found.dram is None
    assert "DRAM" not in found.launches[0].limits
    assert speed_of_light(facts, [made()], "cold").dram == Dram(10240, 0)
    unknown = speed_of_light(facts, [made(touched=None)], "cold")
    assert unknown.dram is None
    assert unknown.launches[0].limits["L2"] == 0


def test_what_all_launches_take_is_added_up(build):
    """Two launches take the sum of their times, DRAM bytes too; the ceiling named is that of the longer one."""
    facts = Facts(build("n1", M=10, N=1024))
    more = made(issued={"float": 5120 * 10**6})
    found = speed_of_light(facts, [made(), more], "cold")
    assert found.seconds == found.launches[0].seconds + found.launches[1].seconds
    assert found.bound == found.launches[1].bound == "issue"
    assert found.dram == Dram(*(sum(getattr(one.dram, n) for one in found.launches) for n in ("read", "written")))


def test_a_last_block_that_differs_is_added():
    """Counts add up by array and line, and blocks are no longer taken for alike."""
    tail = made(
        blocks=1, executed=1, buffers={"y": Counts(lanes=3)}, lines={("a.cu:1", "y"): Counts(lanes=3)}, special=5
    )
    both = added(made(issued={"float": 7}), dataclasses.replace(tail, issued={"float": 1, "load": 2}))
    assert both.blocks == 11
    assert both.executed == 5
    assert {name: counts.lanes for name, counts in both.buffers.items()} == {"x": 2560, "y": 3}
    assert both.lines == {("a.cu:1", "y"): Counts(lanes=3)}
    assert (both.issued, both.special) == ({"float": 8, "load": 2}, 2565)
    assert made().uniform
    assert not both.uniform
