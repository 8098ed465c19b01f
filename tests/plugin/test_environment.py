"""Packages that can't work together are found before anything crashes."""

from __future__ import annotations

import pytest

from pytest_roofline.errors import SetupError
from pytest_roofline.plugin.environment import check_cupy, check_versions, installed_cupy


def test_c29_two_cupys():
    """cupy-cuda12x and cupy-cuda13x together are refused, both named, with how to get out of it."""
    with pytest.raises(SetupError, match=r"cupy-cuda12x and cupy-cuda13x are installed together.*pip uninstall"):
        check_cupy(["numpy", "CuPy_cuda13x", "cupy-cuda12x"])


def test_c29_no_cupy():
    """Without CuPy the error says what to install, for both CUDA versions."""
    with pytest.raises(SetupError, match=r"pytest-roofline\[cuda12\].*pytest-roofline\[cuda13\]"):
        check_cupy(["numpy", "cupyx-something", "pytest-cupy"])


@pytest.mark.parametrize("name", ["cupy-cuda12x", "cupy-cuda13x", "cupy", "cupy-cuda118", "cupy-rocm-5-0"])
def test_one_cupy_is_enough(name):
    """Any one distribution of CuPy passes, a build from source too."""
    assert check_cupy(["numpy", name]) == name


def test_the_installed_one_is_found():
    """What this very environment has is found through its metadata."""
    assert len(installed_cupy()) == 1


@pytest.mark.parametrize(
    ("pytest_version", "benchmark_version", "works"),
    [
        ("9.1.1", "5.2.3", True),
        ("9.2.0", "5.2.3", False),
        ("9.2.0.dev1", "5.2.3", False),
        ("10.0", "5.2.3", False),
        ("9.2.0", "5.3.0", False),
        ("9.2.0", "5.3.1", True),
        ("8.2.0", "5.2.3", True),
    ],
)
def test_c47_pairs(pytest_version, benchmark_version, works):
    """A pair known not to work together is refused with both versions and the ones to take."""
    if works:
        check_versions(pytest_version, benchmark_version)
    else:
        with pytest.raises(SetupError, match=r"pytest-benchmark 5.3.1 or newer.*or pytest before 9.2"):
            check_versions(pytest_version, benchmark_version)
