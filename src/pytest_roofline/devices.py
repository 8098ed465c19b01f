"""What there is to run on: the one place that asks whether this machine has a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from .errors import DeviceError
from .hardware.gpus import Gpu, gpu_named, key_of
from .run.case import Case
from .run.gpu import device as driver
from .run.gpu.device import CudaDevice
from .run.plan import LackingError, Plan
from .sim.device import SimDevice

AUTO, CUDA, SIM = "auto", "cuda", "sim"
CHOICES = (AUTO, CUDA, SIM)
DEFAULT_GPU = "rtx4090"  # whose limits and ceilings the simulator and the model take where nothing else is said
NEWEST = "h200"  # simulated for what the device lacks


@dataclass
class Devices:
    """The devices of one process, each made on first use.

    ``wanted`` is "auto" (a GPU if there is one, else the simulator), "cuda" or "sim"; ``model`` names the GPU that is
    simulated and modelled where there is none; ``index`` counts GPUs round robin.
    """

    wanted: str = AUTO
    model: str = DEFAULT_GPU
    index: int = 0
    substituted: int = 0  # runs that the device could not do, on a simulated one that can
    warnings: dict[str, None] = field(default_factory=dict)  # of the simulator, each once
    _launched: int = field(default_factory=lambda: SimDevice.launched)

    @cached_property
    def _cuda(self) -> CudaDevice | str:
        if self.wanted == SIM:
            return "--roofline-device sim asks for the simulator"
        try:
            return CudaDevice(self.index % driver.count())
        except DeviceError as error:
            return str(error)

    @property
    def missing(self) -> str:
        """Why there is no GPU; empty if there is one."""
        return self._cuda if isinstance(self._cuda, str) else ""

    @property
    def cuda(self) -> CudaDevice:
        """The GPU; :class:`DeviceError` says why there is none."""
        if isinstance(self._cuda, str):
            raise DeviceError(self._cuda)
        return self._cuda

    @cached_property
    def simulator(self) -> SimDevice:
        """The simulated device, with the limits of the GPU that is modelled."""
        return SimDevice(self.model)

    @cached_property
    def newer_simulator(self) -> SimDevice:
        """A simulated H200, for what the device lacks."""
        return SimDevice(NEWEST)

    @property
    def device(self) -> CudaDevice | SimDevice:
        """What kernels are checked on: the GPU if there is one, else the simulator."""
        return self.simulator if isinstance(self._cuda, str) else self._cuda

    @property
    def gpu(self) -> Gpu:
        """The GPU that speeds of light are modelled for: the one that is there, or the one that is named."""
        return gpu_named(self.model) if self.missing else self.cuda.gpu

    def plan(self, case: Case) -> tuple[Plan, CudaDevice | SimDevice]:
        """The case planned for the device; for a simulated H200 where that lacks what it needs, such as clusters."""
        try:
            return Plan(case, self.device.gpu), self.device
        except LackingError:
            plan = Plan(case, self.newer_simulator.gpu)
            self.substituted += 1
            return plan, self.newer_simulator

    def fresh_simulator(self, gpu: Gpu) -> SimDevice:
        """A simulated device with the limits of ``gpu`` on which no variable of a module has been touched."""
        return SimDevice(gpu)

    def take_launched(self) -> bool:
        """Whether any simulated device launched something since the last call."""
        before, self._launched = self._launched, SimDevice.launched
        return before != self._launched

    def key(self) -> str:
        """The key in the table of the GPU that is there, or of the one that is modelled."""
        return self.model if self.missing else key_of(self.cuda.gpu.name, self.model)

    def require(self, *asked: str) -> None:
        """Raise :class:`DeviceError` where the options ``asked`` need a GPU and there is none."""
        if asked and self.missing:
            raise DeviceError(f"{' and '.join(asked)}: {self.missing}")

    def release(self) -> None:
        """Give unused memory back, if a device was used; keep what the simulator warned of."""
        for name in ("_cuda", "simulator", "newer_simulator"):
            device = self.__dict__.get(name)
            if isinstance(device, SimDevice):
                self.warnings |= dict.fromkeys(str(finding) for finding in device.take_findings())
            if device is not None and not isinstance(device, str):
                device.release()
