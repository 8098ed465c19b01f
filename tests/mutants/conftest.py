"""Lets the tests of this folder import what is beside them; compute-sanitizer ahead, and the check of answers."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.plan import LackingError, Plan
from pytest_roofline.run.run import check

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "correctness")]


@pytest.fixture(scope="module", autouse=True)
def ahead(request, roofline_parts, suite):
    """Starts compute-sanitizer for all tests of a file; a worker of pytest-xdist does not know which are its own."""
    from mutant import SHAPE

    calls = []
    if not roofline_parts.devices.missing and not hasattr(request.config, "workerinput"):
        gpu = roofline_parts.devices.cuda.gpu
        mutants = {
            item.callspec.params["mutant"]
            for item in request.session.items
            if item.path == request.path and "sanitize" in item.fixturenames
        }

        def call(mutant):
            volatile = mutant.tool == "racecheck"
            images = mutant.images(suite, gpu, SHAPE, volatile)
            return Case(suite.variant(mutant.variant), SHAPE, suite), mutant.tool, volatile, images

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            calls = list(pool.map(call, mutants))
    with roofline_parts.checks.ahead(calls):
        yield


@pytest.fixture
def answers(device, roofline_parts, suite):
    """``answers(mutant, shape, inputs=None, clusters=False)`` is the correctness check on the mutant's image.

    With ``clusters`` on a device that has them.
    """

    def run(mutant, shape, inputs=None, clusters=False):
        used = device
        try:
            plan = Plan(Case(suite.variant(mutant.variant), shape, suite), used.gpu)
        except LackingError:
            clusters = True
        if clusters and not used.gpu.has_clusters:
            used = roofline_parts.devices.newer_simulator
            plan = Plan(Case(suite.variant(mutant.variant), shape, suite), used.gpu)
        check(used, Build(plan, mutant.images(suite, used.gpu, shape)), inputs)

    return run
