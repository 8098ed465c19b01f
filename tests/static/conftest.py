"""Compiles what the static tests need a few at a time: NVRTC takes a core for each."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from pytest_roofline.run.check import gpu_of, images_of

from pytest_roofline.errors import CompileError
from pytest_roofline.testing.cases import specimens


@pytest.fixture(scope="session", autouse=True)
def compiled_ahead(request, suite):
    """One image for each variant and architecture among the selected tests."""

    def compile_one(case):
        variant, arch = case
        for fixed, _ in specimens(suite, variant, gpu_of(arch)):
            with contextlib.suppress(CompileError):  # its own test says so
                images_of(suite, fixed, arch)

    of = [getattr(item, "callspec", None) for item in request.session.items]
    cases = {
        (one.params["variant"], one.params["arch"]) for one in of if one and {"variant", "arch"} <= one.params.keys()
    }
    if not hasattr(request.config, "workerinput"):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, cases))
