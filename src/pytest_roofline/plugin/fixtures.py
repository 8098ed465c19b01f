"""Fixtures: parts of what the process holds, and the checks that tests call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import SanitizerNotFoundError
from ..run.build import Build
from ..run.run import check as check_build
from ..sanitize.compute_sanitizer import conclude
from .hooks import BENCHMARKS, PARTS, not_checked
from .parts import Parts

if TYPE_CHECKING:
    from ..declare.suite import Suite
    from ..run.gpu.device import CudaDevice
    from ..sim.device import SimDevice


@pytest.fixture(scope="session")
def roofline_parts(request: pytest.FixtureRequest) -> Parts:
    """Everything this process holds; the other fixtures are parts of it."""
    return request.config.stash[PARTS]


@pytest.fixture(scope="session")
def suite(roofline_parts: Parts) -> Suite:
    """The declaration named by the ini key roofline_suite."""
    return roofline_parts.suite


@pytest.fixture
def device(roofline_parts: Parts) -> CudaDevice | SimDevice:
    """What kernels are checked on, a GPU or the simulator. Its memory is freed after the test."""
    return roofline_parts.devices.device


@pytest.fixture
def cuda_device(roofline_parts: Parts) -> CudaDevice:
    """The GPU; the test is skipped where there is none."""
    if roofline_parts.devices.missing:
        pytest.skip(not_checked(f"no CUDA device ({roofline_parts.devices.missing})"))
    return roofline_parts.devices.cuda


@pytest.fixture
def kernels(roofline_parts: Parts, device: Any) -> Callable[..., Any]:
    """``kernels("rms_n3")`` is that kernel, compiled: on a GPU a CuPy RawKernel, else one that is called alike.

    One that is compiled for its shape needs it: ``kernels("rms_n5", Shape(M=4, N=1000))``.
    """
    return roofline_parts.kernel


@pytest.fixture
def check(roofline_parts: Parts, device: Any) -> Callable[..., Any]:
    """``check(case)`` or ``check(variant, shape, inputs=None)`` runs it once and compares with the reference."""

    def run(variant: Any, shape: Any = None, inputs: Any = None) -> Any:
        plan, used = roofline_parts.devices.plan(roofline_parts.case(variant, shape))
        return check_build(used, Build.of(plan), inputs)

    return run


@pytest.fixture
def sanitize(roofline_parts: Parts, device: Any) -> Callable[..., Any]:
    """``sanitize(case, which, volatile=False)``, or a variant and ``shape=``, gives the report of that check.

    In the simulator, and on a GPU machine under compute-sanitizer too; that the two disagree is an error.
    What could not be checked is a skip with the reason, or a failure where the GPU is required.
    """
    required = roofline_parts.settings.require_gpu

    def run(variant: Any, which: str, shape: Any = None, **options: Any) -> Any:
        try:
            report = roofline_parts.checks.check(roofline_parts.case(variant, shape), which, **options)
        except SanitizerNotFoundError as error:
            if required:
                raise
            pytest.skip(not_checked(error))
        if reason := conclude(report, required):
            pytest.skip(reason)
        return report

    return run


@pytest.fixture
def roofline(request: pytest.FixtureRequest, roofline_parts: Parts, device: Any, benchmark: Any) -> Callable[..., Any]:
    """``roofline(case, state=None)``, or a variant and a shape, checks the answer, then times it.

    The time is pytest-benchmark's; the result is the :class:`~pytest_roofline.bench.record.Record`, None where
    benchmarks are disabled. Without a GPU the time is the speed of light on the GPU that --roofline-gpu names.
    """

    def measure(variant: Any, shape: Any = None, state: str | None = None) -> Any:
        case, parts = roofline_parts.case(variant, shape), roofline_parts
        return request.config.stash[BENCHMARKS].run(benchmark, parts.clock, case, state or parts.settings.state)

    return measure
