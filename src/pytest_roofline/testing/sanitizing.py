"""Races, memory, initialisation and barriers: simulated, and on a GPU by compute-sanitizer too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..run.case import Case
from ..sanitize.report import CLEAN


@pytest.mark.sanitizer
@pytest.mark.parametrize("volatile", [False, True], ids=["plain", "volatile"])
def test_racecheck(sanitize_case: Case, sanitize: Callable[..., Any], volatile: bool) -> None:
    """No two threads touch the same shared memory without a barrier between, as built and with volatile arrays."""
    report = sanitize(sanitize_case, "racecheck", volatile=volatile)
    assert report.verdict == CLEAN, str(report)
    assert report.displayed == 0, str(report)


@pytest.mark.sanitizer
@pytest.mark.parametrize("which", ["memcheck", "initcheck", "synccheck"])
def test_memory_and_barriers(sanitize_case: Case, sanitize: Callable[..., Any], which: str) -> None:
    """No access outside an array, no read of memory that nobody wrote, no barrier that part of a block reaches."""
    report = sanitize(sanitize_case, which)
    assert report.verdict == CLEAN, str(report)
    assert report.errors == 0, str(report)
