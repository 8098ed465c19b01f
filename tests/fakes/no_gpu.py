"""A pytest plugin that takes the GPU away, if there is one: the run shares its process with tests that have it."""

from __future__ import annotations

import pytest

from pytest_roofline.errors import DeviceError
from pytest_roofline.run.gpu import device as cuda

patch = pytest.MonkeyPatch()


def count() -> int:
    raise DeviceError("no usable NVIDIA driver or device, cudaErrorNoDevice")


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    patch.setattr(cuda, "count", count)


def pytest_unconfigure() -> None:
    patch.undo()
