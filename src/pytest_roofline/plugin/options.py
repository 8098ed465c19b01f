"""Options of the command line and what they mean for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..bench.clock import STATES
from ..bench.measured import Precision
from ..devices import CHOICES, DEFAULT_GPU
from ..hardware.gpus import GPUS
from .comparison import percent
from .parts import Settings, worker_number


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("roofline", "CUDA kernels against the roofline")
    add = group.addoption
    add(
        "--roofline-device",
        choices=CHOICES,
        default=CHOICES[0],
        help="what kernels are checked on; auto: a GPU if there is one, else the simulator",
    )
    add(
        "--roofline-gpu",
        metavar="NAME",
        default=DEFAULT_GPU,
        help=f"the GPU that is simulated and modelled where there is none (%(default)s): {', '.join(GPUS)}",
    )
    add("--roofline-require-gpu", action="store_true", help="a missing GPU is an error, not a skip")
    add("--roofline-state", choices=STATES, default=STATES[0], help="L2 cache before each sample (%(default)s)")
    add(
        "--roofline-precision",
        type=percent,
        metavar="PERCENT",
        default="0.1%",
        help="aim for the median's standard error; rounds follow from it, within --benchmark-max-time (%(default)s)",
    )
    add(
        "--roofline-counters",
        action="store_true",
        help="run each benchmark once more under ncu and report DRAM bytes and L2 sectors as the GPU counts them",
    )
    add("--roofline-sanitizer", metavar="PATH", help="compute-sanitizer (else environment, PATH, toolkit, wheel)")
    add(
        "--roofline-gate",
        type=percent,
        nargs="?",
        const="5%",
        metavar="PERCENT",
        help="fail where a median is this much slower than --benchmark-compare's baseline, or has none (5%%)",
    )
    add("--roofline-other-gpu", action="store_true", help="compare with a baseline of another GPU, by MBU only")
    parser.addini("roofline_suite", "path of the suite declaration, from the rootdir", default="")


def settings(config: pytest.Config, suite: Path | None) -> Settings:
    get = config.getoption
    rounds = max(Precision.min_rounds, get("benchmark_min_rounds", 0))
    return Settings(
        suite=suite,
        device=get("roofline_device"),
        gpu=get("roofline_gpu"),
        require_gpu=get("roofline_require_gpu"),
        state=get("roofline_state"),
        precision=Precision(get("roofline_precision"), float(get("benchmark_max_time", 1.0)), rounds),
        sanitizer=get("roofline_sanitizer"),
        worker=worker_number() or 0,
    )
