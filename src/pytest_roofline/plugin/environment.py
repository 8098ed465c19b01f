"""Is what is installed able to work? Read from package metadata, before anything is imported that could crash."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from importlib.util import find_spec

from ..errors import SetupError

CUPY = re.compile(r"cupy(-cuda\d+x|-cuda\d+|-rocm-.*)?$")


def installed_cupy(names: Iterable[str] | None = None) -> list[str]:
    """Distributions that provide CuPy; ``names`` replaces the installed ones in tests."""
    names = _distributions() if names is None else names
    return sorted({name.lower().replace("_", "-") for name in names if CUPY.match(name.lower().replace("_", "-"))})


@cache
def _distributions() -> tuple[str, ...]:
    """Names of everything that is installed; a process reads them once."""
    return tuple(str(name) for dist in metadata.distributions() if (name := dist.metadata["Name"]))


def check_cupy(names: Iterable[str] | None = None) -> str:
    """The one CuPy distribution; :class:`SetupError` where there are several or none."""
    found = installed_cupy(names)
    if len(found) > 1:
        raise SetupError(
            f"{' and '.join(found)} are installed together; they share one import name and overwrite each other's "
            f"files. Uninstall all of them (pip uninstall {' '.join(found)}), then install the one for your driver: "
            "pip install 'pytest-roofline[cuda12]' or 'pytest-roofline[cuda13]'"
        )
    if not found:
        raise SetupError(
            "no CuPy is installed, so no kernel can be compiled or run. For a driver of CUDA 12 or newer, and on a "
            "machine without a GPU: pip install 'pytest-roofline[cuda12]' (cupy-cuda12x); for a driver of CUDA 13: "
            "pip install 'pytest-roofline[cuda13]' (cupy-cuda13x)"
        )
    return found[0]


def check_benchmark(active: bool) -> None:
    """Raise :class:`SetupError` where pytest-benchmark is switched off."""
    if not active:
        raise SetupError(
            "pytest-benchmark is not active (-p no:benchmark?), and pytest-roofline measures through it; leave it on, "
            "and use --benchmark-disable to check answers without timing"
        )


def check_histogram(asked: object) -> None:
    """Raise :class:`SetupError` where --benchmark-histogram is given and what draws it is not installed."""
    if asked and find_spec("pygal") is None:
        raise SetupError(
            "--benchmark-histogram needs pygal, which is not installed: pip install 'pytest-benchmark[histogram]'"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_versions(pytest: str, benchmark: str) -> None:
    """Raise :class:`SetupError` for a pair of pytest and pytest-benchmark known not to work together.

    pytest 9.2 dropped a private attribute of nodes that pytest-benchmark before 5.3.1 reads.
    """
    if _numbers(pytest) >= (9, 2) and _numbers(benchmark) < (5, 3, 1):
        raise SetupError(
            f"pytest {pytest} and pytest-benchmark {benchmark} do not work together: every benchmark would fail in "
            "set-up. Take pytest-benchmark 5.3.1 or newer (pip install 'pytest-benchmark>=5.3.1') or pytest before 9.2"
        )
