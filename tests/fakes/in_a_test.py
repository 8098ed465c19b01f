"""A pytest plugin for runs of pytest within a test: what pytest-benchmark does slowly, and what it leaves open.

Asking about the CPU takes it a second, and nobody reads the answer; some versions open the file of --benchmark-json and
never close it, which turns up as a warning in whichever test comes later.
"""

import pytest
import pytest_benchmark.plugin

patch = pytest.MonkeyPatch()


def pytest_configure() -> None:
    patch.setattr(pytest_benchmark.plugin, "get_cpu_info", dict)


def pytest_unconfigure(config: pytest.Config) -> None:
    patch.undo()
    for options in (config.option, config.known_args_namespace):  # each parsing of the command line opened it anew
        if close := getattr(getattr(options, "benchmark_json", None), "close", None):
            close()
