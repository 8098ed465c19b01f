"""Races, memory, initialisation and barriers of every rung: simulated, and on a GPU by compute-sanitizer too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_roofline.gpu.sanitizer import nearest_shape
from pytest_roofline.gpu.sanitizer_report import CLEAN, Report
from pytest_roofline.ladder import Rung, Shape
from pytest_roofline.session import Session

pytestmark = pytest.mark.sanitizer

WANTED = Shape(8, 1000)  # 1000 = 3 * 256 + 232: the last trip of a block's loop has idle threads
Sanitize = Callable[..., Report]


@pytest.fixture(scope="module", autouse=True)
def ahead(request: pytest.FixtureRequest, roofline_session: Session) -> Iterator[None]:
    """Starts compute-sanitizer for all tests of this file; a worker of pytest-xdist does not know which are its own."""
    calls = []
    if not hasattr(request.config, "workerinput"):
        for item in request.session.items:
            if item.path == request.path and isinstance(item, pytest.Function):
                of = item.callspec.params
                volatile = of.get("volatile", False)
                shape = nearest_shape(of["rung"], WANTED)
                calls.append((of["rung"], of.get("which", "racecheck"), shape, volatile, None))
    with roofline_session.sanitizing_ahead(calls):
        yield


@pytest.mark.parametrize("volatile", [False, True], ids=["plain", "volatile"])
def test_racecheck(rung: Rung, sanitize: Sanitize, volatile: bool) -> None:
    """No two threads touch the same shared memory without a barrier between, as shipped and with volatile arrays."""
    report = sanitize(rung, "racecheck", shape=nearest_shape(rung, WANTED), volatile=volatile)
    assert report.verdict == CLEAN, str(report)
    assert report.displayed == 0, str(report)


@pytest.mark.parametrize("which", ["memcheck", "initcheck", "synccheck"])
def test_memory_and_barriers(rung: Rung, sanitize: Sanitize, which: str) -> None:
    """No access outside an array, no read of memory that nobody wrote, no barrier that part of a block reaches."""
    report = sanitize(rung, which, shape=nearest_shape(rung, WANTED))
    assert report.verdict == CLEAN, str(report)
    assert report.errors == 0, str(report)
