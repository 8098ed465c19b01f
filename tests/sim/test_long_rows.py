"""Rows that no block's registers hold, as ncu counts them: one pass, whatever the width. Needs a GPU with clusters."""

from __future__ import annotations

import pytest
from specimens import built

from pytest_roofline.bench import ncu as counters
from pytest_roofline.errors import CountersError
from pytest_roofline.run.gpu.child import Counted
from pytest_roofline.run.plan import LackingError

COLUMNS = (8193, 9999, 16384, 65536, 152064, 262143)
ROWS = 4096
MOST = 8.2  # N bytes a row: x read once, y written once, and the weight


@pytest.fixture(scope="module")
def counted(roofline_parts):
    """(variant, columns) -> ncu's counters of its launch from a cold cache, all from one run under ncu."""
    if roofline_parts.devices.missing:
        pytest.skip(f"not checked: no CUDA device ({roofline_parts.devices.missing})")
    suite, device = roofline_parts.suite, roofline_parts.devices.cuda
    cases = []
    for name in ("n8", "s8", "s9"):
        for columns in COLUMNS:
            try:
                cases.append(Counted(built(suite, name, device.gpu, M=ROWS, N=columns), "cold"))
            except LackingError as error:
                pytest.skip(f"not checked: {error}")
    try:
        found = counters.count(counters.find(), suite.file, cases, device.index)
    except CountersError as error:
        pytest.skip(f"not checked: {error}")
    of = [case.build.plan.case for case in cases]
    return {(one.variant.name, one.shape.N): launches for one, launches in zip(of, found, strict=True)}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", ["n8", "s8", "s9"])
def test_a_long_row_crosses_dram_once(cuda_device, counted, name, columns):
    """DRAM moves at most 8.2N bytes a row at 4096 rows, odd widths too, and x cannot have stayed out of it."""
    (launch,) = counted[name, columns]
    moved = (launch.dram_read + launch.dram_written) / (ROWS * columns)
    assert 4.0 <= moved <= MOST
