"""A device without hardware (NumPy arrays, kernels that are Python functions), and projects to run pytest in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pytest_roofline
from pytest_roofline.cards import card
from pytest_roofline.cases import PARAMETERS
from pytest_roofline.declaration import load
from pytest_roofline.device import ArrayView
from pytest_roofline.errors import RefusedError

ROOT = Path(__file__).parents[2]
LADDER = ROOT / "kernels" / "ladder.py"
# Named, not found by entry point: other plugins of the environment stay out, and the source tree is enough.
PLUGINS = ("-p", "pytest_benchmark.plugin", "-p", "xdist.plugin", "-p", "pytest_roofline.plugin")


class FakeDevice:
    """Runs ``bodies[kernel](grid, *args)`` for each launch, at once and in order; keeps the names in ``launched``."""

    evidence = "simulated"
    name = "fake"
    arch = "sm_90"

    def __init__(self, bodies: dict[str, Callable[..., None]]) -> None:
        self.bodies, self.card, self.launched = bodies, card("h200"), []

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = np.full(count + 256, 0xFF, np.uint8)  # aligned to 256 bytes, as CUDA's allocations are
        start = -raw.ctypes.data % 256
        return raw[start : start + count].view(dtype).reshape(shape)

    def upload(self, host: np.ndarray) -> np.ndarray:
        array = self.empty(host.shape, host.dtype.name)
        array[...] = host
        return array

    def repeat_rows(self, tile: np.ndarray, rows: int) -> np.ndarray:
        return self.upload(tile[np.arange(rows) % len(tile)])

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def view(self, array: Any) -> ArrayView:
        if not isinstance(array, np.ndarray):
            raise RefusedError(f"a {type(array).__name__} is refused")
        return ArrayView(
            array.ctypes.data, array.nbytes, array.shape, array.strides, array.dtype, array.flags.c_contiguous
        )

    def load(self, image: Any, kernel: str) -> str:
        image.require(kernel)
        return kernel

    def launch(self, kernel: str, grid: Any, block: Any, args: tuple[Any, ...], shared: int) -> None:
        self.launched.append(kernel)
        self.bodies[kernel](grid, *args)

    def synchronize(self) -> None: ...

    def release(self) -> None: ...


def softmax_rows(grid: Any, x: np.ndarray, y: np.ndarray, N: Any) -> None:
    assert x.shape == y.shape == (grid[0], int(N))
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y[...] = e / e.sum(axis=1, keepdims=True)


def rmsnorm_rows(grid: Any, x: np.ndarray, w: np.ndarray, y: np.ndarray, N: Any, eps: Any) -> None:
    assert isinstance(eps, np.float32)
    y[...] = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps) * w


@pytest.fixture
def fake_device():
    """``fake_device(sm_s3=function, ...)``; right answers for rms_n3 and sm_s3 by default."""

    def make(**bodies: Callable[..., None]) -> FakeDevice:
        return FakeDevice({"sm_s3": softmax_rows, "rms_n3": rmsnorm_rows, **bodies})

    return make


@pytest.fixture(scope="session")
def shipped():
    """The ladder that is shipped."""
    return load(LADDER)


class Project:
    """A project of its own in a temporary folder; :meth:`run` runs pytest in it, in a new process."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.monkeypatch, self.path = pytester, monkeypatch, pytester.path
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
            monkeypatch.delenv(name)
        package = Path(pytest_roofline.__file__).parents[1]  # found from another folder too, if it is not installed
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))

    def declare(self, ladder: Path | None = None) -> None:
        """Use the shipped ladder, or the folder ``ladder``."""
        source = ROOT / "kernels" if ladder is None else ladder
        shutil.copytree(source, self.path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
        self.pytester.makeini("[pytest]\nroofline_ladder = kernels/ladder.py\naddopts = --strict-markers\n")

    def use_tests(self, **files: str) -> None:
        """Copy thin test files of the suite: name=path below tests/."""
        for name, path in files.items():
            shutil.copy(ROOT / "tests" / path, self.path / f"test_{name}.py")

    def hide_gpu(self) -> None:
        self.monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")

    def run(self, *args: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(*PLUGINS, "-p", "no:cacheprovider", *args)


@pytest.fixture
def empty_project(pytester, monkeypatch):
    """A :class:`Project` with nothing in it."""
    return Project(pytester, monkeypatch)


@pytest.fixture
def project(empty_project):
    """A :class:`Project` with the shipped ladder and the thin perf tests, on a machine without a GPU."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    empty_project.hide_gpu()
    ladder = load(LADDER)
    empty_project.cases = sum(len(PARAMETERS[name](ladder)) for name in ("perf_case", "refused_perf_case"))
    return empty_project
