"""pytest-benchmark's fixture as far as a clock uses it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


class FakeFixture:
    """Takes samples with ``timer`` as pytest-benchmark's pedantic mode does."""

    def __init__(self, timer, disabled: bool = False) -> None:
        self.timer, self.disabled = timer, disabled
        self.has_error, self.rounds, self.calls = False, 0, 0
        self.stats = None

    def pedantic(self, work, setup=None, rounds=1) -> None:
        self.stats = SimpleNamespace(stats=SimpleNamespace(data=[]))
        for _ in range(1 if self.disabled else rounds):
            args, _ = (setup() if setup else None) or ((), {})
            start = self.timer()
            work(*args)
            self.calls += 1
            if not self.disabled:
                self.stats.stats.data.append(self.timer() - start)

    @property
    def samples(self) -> list[float]:
        return self.stats.stats.data if self.stats else []


@pytest.fixture
def fake_fixture():
    """``fake_fixture(timer, disabled=False)``."""
    return FakeFixture
