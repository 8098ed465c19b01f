"""Rows that no block's registers hold, as ncu counts them: one pass, whatever the width. Needs a GPU with clusters."""

from __future__ import annotations

import pytest

from pytest_roofline.check import images_of
from pytest_roofline.errors import CountersError
from pytest_roofline.gpu import counters
from pytest_roofline.gpu.child import Counted
from pytest_roofline.ladder import Shape, lacking

COLUMNS = (8193, 9999, 16384, 65536, 152064, 262143)
ROWS = 4096
MOST = 8.2  # N bytes a row: x read once, y written once, and the weight


@pytest.fixture(scope="module")
def counted(roofline_session):
    """(rung, columns) -> ncu's counters of its launch from a cold cache, all from one run under ncu."""
    if roofline_session.missing:
        pytest.skip(f"not checked: no CUDA device ({roofline_session.missing})")
    ladder, device = roofline_session.ladder, roofline_session.gpu
    cases = []
    for name in ("n8", "s8", "s9"):
        for columns in COLUMNS:
            rung, shape = ladder.rung(name), Shape(ROWS, columns)
            if missing := lacking(rung, shape, device.card):
                pytest.skip(f"not checked: {device.name} lacks {missing}")
            cases.append(Counted(rung, shape, "cold", images_of(ladder, rung.at(shape, device.card), device.arch)))
    try:
        found = counters.count(counters.find(), ladder.root / "ladder.py", cases, device.index)
    except CountersError as error:
        pytest.skip(f"not checked: {error}")
    return {(case.rung.name, case.shape.N): launches for case, launches in zip(cases, found, strict=True)}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", ["n8", "s8", "s9"])
def test_a_long_row_crosses_dram_once(cuda_device, counted, name, columns):
    """DRAM moves at most 8.2N bytes a row at 4096 rows, odd widths too, and x cannot have stayed out of it."""
    (launch,) = counted[name, columns]
    moved = (launch.dram_read + launch.dram_written) / (ROWS * columns)
    assert 4.0 <= moved <= MOST
