"""What the simulator raises. A kernel that it can't execute is never taken for one that passed."""

from __future__ import annotations

from ..build.ptx.errors import UnsupportedError
from ..errors import DeviceError

__all__ = ["SimulationError", "UnsupportedError"]


class SimulationError(DeviceError):
    """A launch was executed and something was found; :attr:`findings` holds all of it."""

    def __init__(self, findings: tuple[object, ...]) -> None:
        self.findings = findings
        lines = "\n".join(f"  {finding}" for finding in findings)
        super().__init__(f"the simulator found {len(findings)} defect{'s' * (len(findings) != 1)}:\n{lines}")
