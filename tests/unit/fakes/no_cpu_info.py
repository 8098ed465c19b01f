"""A pytest plugin that keeps the CPU out of saved runs: asking takes pytest-benchmark a second, and nobody reads it."""

import pytest
import pytest_benchmark.plugin

patch = pytest.MonkeyPatch()


def pytest_configure() -> None:
    patch.setattr(pytest_benchmark.plugin, "get_cpu_info", dict)


def pytest_unconfigure() -> None:
    patch.undo()
