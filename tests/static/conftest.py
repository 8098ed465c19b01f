"""Compiles what the static tests need a few at a time: NVRTC takes a core for each."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_roofline.errors import RooflineError
from pytest_roofline.testing.statics import builds


@pytest.fixture(scope="session", autouse=True)
def compiled_ahead(request, suite):
    """The images of each variant and architecture among the selected tests."""

    def compile_one(case):
        with contextlib.suppress(RooflineError):  # its own test says so
            list(builds(suite, *case))

    of = [getattr(item, "callspec", None) for item in request.session.items]
    cases = {
        (one.params["variant"], one.params["arch"]) for one in of if one and {"variant", "arch"} <= one.params.keys()
    }
    if not hasattr(request.config, "workerinput"):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, cases))
