"""Races, memory, initialisation and barriers of every variant: simulated, and on a GPU by compute-sanitizer too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytest_roofline.plugin.session import Session

from pytest_roofline import Shape, Variant
from pytest_roofline.declare.suite import lacking
from pytest_roofline.plugin.hooks import SESSION
from pytest_roofline.sanitize.compute_sanitizer import nearest_shape
from pytest_roofline.sanitize.report import CLEAN, Report

pytestmark = pytest.mark.sanitizer

WANTED = Shape(M=8, N=1000)  # 1000 = 3 * 256 + 232: the last trip of a block's loop has idle threads
SPLIT = Shape(M=4, N=60000)  # longer than one block holds: over a cluster of blocks, with an idle part in the last one
Sanitize = Callable[..., Report]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each variant at WANTED, and those that split a row over a cluster at SPLIT too, unless a GPU lacks them."""
    session = metafunc.config.stash[SESSION]
    cases = [(variant, nearest_shape(variant, WANTED)) for variant in session.suite.variants]
    for variant in session.suite.variants:
        if not variant.broken_limit(SPLIT):
            gpu = session.device_for(variant, SPLIT).gpu
            clusters = [launch.at(SPLIT, gpu).cluster for launch in variant.launches]
            if max(clusters) > 1 and (session.missing or not lacking(variant, SPLIT, session.cuda.gpu)):
                cases.append((variant, SPLIT))
    metafunc.parametrize(("of", "shape"), cases, ids=[f"{variant.name}-{shape}" for variant, shape in cases])


@pytest.fixture(scope="module", autouse=True)
def ahead(request: pytest.FixtureRequest, roofline_session: Session) -> Iterator[None]:
    """Starts compute-sanitizer for all tests of this file; a worker of pytest-xdist does not know which are its own."""
    calls = []
    if not hasattr(request.config, "workerinput"):
        for item in request.session.items:
            if item.path == request.path and isinstance(item, pytest.Function):
                of = item.callspec.params
                calls.append((of["of"], of.get("which", "racecheck"), of["shape"], of.get("volatile", False), None))
    with roofline_session.sanitizing.ahead(calls):
        yield


@pytest.mark.parametrize("volatile", [False, True], ids=["plain", "volatile"])
def test_racecheck(of: Variant, shape: Shape, sanitize: Sanitize, volatile: bool) -> None:
    """No two threads touch the same shared memory without a barrier between, as shipped and with volatile arrays."""
    report = sanitize(of, "racecheck", shape=shape, volatile=volatile)
    assert report.verdict == CLEAN, str(report)
    assert report.displayed == 0, str(report)


@pytest.mark.parametrize("which", ["memcheck", "initcheck", "synccheck"])
def test_memory_and_barriers(of: Variant, shape: Shape, sanitize: Sanitize, which: str) -> None:
    """No access outside an array, no read of memory that nobody wrote, no barrier that part of a block reaches."""
    report = sanitize(of, which, shape=shape)
    assert report.verdict == CLEAN, str(report)
    assert report.errors == 0, str(report)
