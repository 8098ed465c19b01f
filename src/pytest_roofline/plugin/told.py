"""What a session says of itself: the header, the machine in a saved run, and the last lines."""

from __future__ import annotations

from collections.abc import Sequence

from ..bench.modelled import label
from ..bench.record import Value
from ..build.nvrtc import compiler
from ..declare.loading import undeclared
from ..errors import SanitizerNotFoundError
from ..run.device import NOT_CHECKED
from .benchmarks import Benchmarks
from .parts import Parts

Section = tuple[str, Sequence[str]]


def machine(parts: Parts) -> dict[str, Value]:
    """What is written into a saved run's machine_info["roofline"]."""
    devices, gpu = parts.devices, parts.devices.gpu
    found: dict[str, Value] = {
        "gpu": gpu.name,
        "evidence": devices.device.evidence,
        "arch": gpu.arch,
        "sms": gpu.sms,
        "peak_gbs": gpu.peak_gbs,
        "l2_bytes": gpu.l2_bytes,
        "compiler": compiler(),
    }
    if devices.missing:
        return found | {"note": label(gpu)}
    seen = parts.telemetry
    return found | {"driver": seen.driver, "power_limit_w": seen.power_limit_w, **devices.cuda.versions}


def header(parts: Parts) -> list[str]:
    """Device, GPU, peak and its source, versions; or that it is simulated, and why. Sources that nothing declares."""
    devices, gpu = parts.devices, parts.devices.gpu
    if devices.missing:
        device = devices.device
        told = (
            f"roofline: {device.evidence} (PTX of {device.arch}) with the limits of {device.name}; no GPU "
            f"({devices.missing}), so times are {NOT_CHECKED}; perf tests show the {label(gpu)}"
        )
    else:
        versions, cuda = devices.cuda.versions, devices.cuda
        told = (
            f"roofline: {cuda.evidence} on {gpu.name} ({gpu.arch}, {gpu.sms} SMs), peak {gpu.peak_gbs:.0f} GB/s from "
            f"{gpu.source}, driver {parts.telemetry.driver or 'unknown'} (CUDA {versions['driver_cuda']}), "
            f"CUDA {versions['runtime_cuda']}, CuPy {versions['cupy']}, L2 {parts.settings.state}; {_sanitizer(parts)}"
        )
    loose = undeclared(parts.suite)
    note = f"roofline: not declared, so never checked (name them in the suite, or in its exclude): {', '.join(loose)}"
    return [told, *([note] if loose else [])]


def _sanitizer(parts: Parts) -> str:
    try:
        return f"compute-sanitizer {parts.sanitizer.tool.version}"
    except SanitizerNotFoundError:
        return "no compute-sanitizer was found, so its tests are skipped (their reason says where it was looked for)"


def footer(parts: Parts, benchmarks: Benchmarks) -> list[Section]:
    """Titles and lines of predictions, counters, what was simulated in this run, and what the simulator warned."""
    devices = parts.devices
    found: list[Section] = []
    if lines := benchmarks.predictions(parts.suite, devices):
        told = label(devices.gpu) if devices.missing else "measured"
        found.append((f"roofline: predictions ({told})", lines))
    if benchmarks.not_counted:
        found.append(("roofline: counters", [benchmarks.not_counted]))
    if devices.missing and parts.simulated_tests:
        number, arch = parts.simulated_tests, devices.device.arch
        ran = f"{number} tests used the simulator (PTX of {arch}), none of them a GPU"
        found.append(("roofline: simulated", [ran]))
    if devices.substituted:
        why = f"{devices.substituted} runs were simulated as an {devices.newer_simulator.name}"
        found.append(("roofline: simulated for want of", [f"{why}: {devices.device.name} lacks what they need"]))
    if devices.warnings:
        found.append(("roofline: warnings of the simulator", list(devices.warnings)))
    return found
