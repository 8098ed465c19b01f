"""Lets the tests of this folder import what is beside them; compute-sanitizer ahead, and the check of answers."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pytest_roofline.run.check import check

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "correctness")]


@pytest.fixture(scope="module", autouse=True)
def ahead(request, roofline_session, suite):
    """Starts compute-sanitizer for all tests of a file; a worker of pytest-xdist does not know which are its own."""
    from mutant import SHAPE

    calls = []
    if not roofline_session.missing and not hasattr(request.config, "workerinput"):
        gpu = roofline_session.cuda.gpu
        mutants = {
            item.callspec.params["mutant"]
            for item in request.session.items
            if item.path == request.path and "sanitize" in item.fixturenames
        }

        def call(mutant):
            volatile = mutant.tool == "racecheck"
            images = mutant.images(suite, gpu, volatile=volatile)
            return suite.variant(mutant.variant), mutant.tool, SHAPE, volatile, images

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            calls = list(pool.map(call, mutants))
    with roofline_session.sanitizing.ahead(calls):
        yield


@pytest.fixture
def answers(device, roofline_session, suite):
    """``answers(mutant, shape, inputs=None, clusters=False)`` is the correctness check on the mutant's image.

    With ``clusters`` on a device that has them.
    """

    def run(mutant, shape, inputs=None, clusters=False):
        variant = suite.variant(mutant.variant)
        used = roofline_session.device_for(variant, shape)
        if clusters and not used.gpu.has_clusters:
            used = roofline_session.newer_simulator
        check(used, suite, variant, shape, inputs, mutant.images(suite, used.gpu, shape))

    return run
