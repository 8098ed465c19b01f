"""Races, memory, initialisation and barriers of every variant: simulated, and on a GPU by compute-sanitizer too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_roofline import Shape
from pytest_roofline.errors import RooflineError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.plugin.hooks import PARTS
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import Plan
from pytest_roofline.testing import test_memory_and_barriers, test_racecheck  # noqa: F401
from pytest_roofline.testing.cases import sanitize_cases

SPLIT = Shape(M=4, N=60000)  # longer than one block holds: over a cluster of blocks, with an idle part in the last one


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each variant at a small ragged shape, and those that split a row over a cluster at SPLIT too."""
    parts = metafunc.config.stash[PARTS]
    cases = dict(sanitize_cases(parts.suite))
    gpu = gpu_named("h200") if parts.devices.missing else parts.devices.gpu
    for variant in parts.suite:
        try:
            case = Case(variant, SPLIT, parts.suite)
            if max(launch.cluster for launch in Plan(case, gpu).launches) > 1:
                cases[case.id] = case
        except RooflineError:
            continue
    metafunc.parametrize("sanitize_case", list(cases.values()), ids=list(cases))


@pytest.fixture(scope="module", autouse=True)
def ahead(request: pytest.FixtureRequest, roofline_parts) -> Iterator[None]:
    """Starts compute-sanitizer for all tests of this file; a worker of pytest-xdist does not know which are its own."""
    calls = []
    if not hasattr(request.config, "workerinput"):
        for item in request.session.items:
            if item.path == request.path and isinstance(item, pytest.Function):
                of = item.callspec.params
                calls.append((of["sanitize_case"], of.get("which", "racecheck"), of.get("volatile", False), None))
    with roofline_parts.checks.ahead(calls):
        yield
