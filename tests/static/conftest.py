"""Compiles what the static tests need a few at a time: NVRTC takes a core for each."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_roofline.cases import specimens
from pytest_roofline.check import card_of, images_of
from pytest_roofline.errors import CompileError


@pytest.fixture(scope="session", autouse=True)
def compiled_ahead(request, ladder):
    """One image for each rung and architecture among the selected tests."""

    def compile_one(case):
        rung, arch = case
        for fixed, _ in specimens(ladder, rung, card_of(arch)):
            with contextlib.suppress(CompileError):  # its own test says so
                images_of(ladder, fixed, arch)

    of = [getattr(item, "callspec", None) for item in request.session.items]
    cases = {(one.params["rung"], one.params["arch"]) for one in of if one and {"rung", "arch"} <= one.params.keys()}
    if not hasattr(request.config, "workerinput"):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, cases))
