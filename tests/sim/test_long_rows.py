"""Rows that no block's registers hold, as ncu counts them: one pass, whatever the width. Needs a GPU with clusters."""

from __future__ import annotations

import pytest
from pytest_roofline.run.check import images_of

from pytest_roofline import Shape
from pytest_roofline.bench import ncu as counters
from pytest_roofline.declare.suite import lacking
from pytest_roofline.errors import CountersError
from pytest_roofline.run.gpu.child import Counted

COLUMNS = (8193, 9999, 16384, 65536, 152064, 262143)
ROWS = 4096
MOST = 8.2  # N bytes a row: x read once, y written once, and the weight


@pytest.fixture(scope="module")
def counted(roofline_session):
    """(variant, columns) -> ncu's counters of its launch from a cold cache, all from one run under ncu."""
    if roofline_session.missing:
        pytest.skip(f"not checked: no CUDA device ({roofline_session.missing})")
    suite, device = roofline_session.suite, roofline_session.cuda
    cases = []
    for name in ("n8", "s8", "s9"):
        for columns in COLUMNS:
            variant, shape = suite.variant(name), Shape(M=ROWS, N=columns)
            if missing := lacking(variant, shape, device.gpu):
                pytest.skip(f"not checked: {device.name} lacks {missing}")
            cases.append(Counted(variant, shape, "cold", images_of(suite, variant.at(shape, device.gpu), device.arch)))
    try:
        found = counters.count(counters.find(), suite.root / "suite.py", cases, device.index)
    except CountersError as error:
        pytest.skip(f"not checked: {error}")
    return {(case.variant.name, case.shape.N): launches for case, launches in zip(cases, found, strict=True)}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", ["n8", "s8", "s9"])
def test_a_long_row_crosses_dram_once(cuda_device, counted, name, columns):
    """DRAM moves at most 8.2N bytes a row at 4096 rows, odd widths too, and x cannot have stayed out of it."""
    (launch,) = counted[name, columns]
    moved = (launch.dram_read + launch.dram_written) / (ROWS * columns)
    assert 4.0 <= moved <= MOST
