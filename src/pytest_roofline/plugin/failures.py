"""What is said of a test that failed for a reason which others share."""

from __future__ import annotations

import pytest

from ..errors import CompileError


class CompileErrors:
    """Each compile error of a run is told once, in full; of further tests, which one has told it."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], str] = {}  # the test that told it, by the compiler's own lines

    def told(self, error: CompileError, test: str) -> str:
        """What the report of ``test`` says of ``error``. That of another architecture is the same error."""
        first = self._first.setdefault(error.brief, test)
        return str(error) if first == test else f"the same compile error as in {first}: {error.brief[0]}"


def shorten(report: pytest.TestReport, failure: BaseException) -> None:
    """Under CI pytest puts the whole text of a failure in its short summary: there one line of a compile error does."""
    error, crash = failure.__context__, getattr(report.longrepr, "reprcrash", None)
    if isinstance(error, CompileError) and crash is not None:
        crash.message = error.brief[0]
