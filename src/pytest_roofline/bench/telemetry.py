"""Clocks, power limit and throttle reasons through NVML (package nvidia-ml-py). Reads only, never sets anything."""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import Any

from ..run.gpu.device import CudaDevice

# Reasons that lower the clocks under load. Idle and clocks set by the user are no throttling.
# Values: nvml.h, nvmlClocksEventReason*.
THROTTLING = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


@dataclass(frozen=True)
class Telemetry:
    """Driver version, clocks in MHz, power limit in W, names of the throttle reasons; None where not readable."""

    driver: str | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_w: float | None = None
    throttle: tuple[str, ...] | None = None


def read(device: CudaDevice) -> Telemetry:
    """What NVML says of ``device`` now. Without NVML every figure is None: not read, not zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old package of the same import name warns on import
        try:
            import pynvml
        except ImportError:
            return Telemetry()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return Telemetry()
    try:
        bus = device.cupy.cuda.runtime.deviceGetPCIBusId(device.index)
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode() if isinstance(bus, str) else bus)
        return _read(pynvml, handle)
    except pynvml.NVMLError:
        return Telemetry()
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _read(pynvml: Any, handle: Any) -> Telemetry:
    def ask(function: str, *args: Any) -> Any:
        with contextlib.suppress(pynvml.NVMLError):  # not supported on this GPU: None
            return getattr(pynvml, function)(*args)
        return None

    driver = ask("nvmlSystemGetDriverVersion")
    reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    power = ask("nvmlDeviceGetPowerManagementLimit", handle)
    return Telemetry(
        driver=driver.decode() if isinstance(driver, bytes) else driver,
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
        memory_clock_mhz=ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM),
        power_limit_w=None if power is None else power / 1e3,
        throttle=None if reasons is None else tuple(name for bit, name in THROTTLING.items() if reasons & bit),
    )
