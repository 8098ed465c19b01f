"""The one exception family. Each message says what happened, where, and what to do."""

from __future__ import annotations

import re


class RooflineError(Exception):
    """Base of everything that pytest-roofline raises on purpose."""


class SetupError(RooflineError):
    """The installation can't work: a package is missing, doubled, or of a version that does not fit."""


class DeclarationError(RooflineError):
    """The suite declaration contradicts itself or the .cu files beside it."""


class UnknownNameError(RooflineError):
    """A variant, operator, GPU model or option value that does not exist; the message lists those that do."""


class CompileError(RooflineError):
    """NVRTC refused the source, the architecture or a flag; the message carries its log."""

    @property
    def brief(self) -> tuple[str, ...]:
        """The compiler's own lines on what is wrong, the same for every architecture; the whole text without such."""
        found = re.findall(r"^.*\berror\b\s*:.*$", str(self), re.MULTILINE)
        return tuple(found or str(self).splitlines())


class ToolOutputError(RooflineError):
    """A tool's report can't be read. It is never taken for a verdict."""


class RefusedError(RooflineError):
    """A limit of the variant, or a bad array, shape or scalar. Nothing was launched."""


class DeviceError(RooflineError):
    """No usable device, or the device reported an error."""


class DeviceMemoryError(DeviceError):
    """The device has not enough memory; the message carries the sizes."""


class WrongAnswerError(RooflineError, AssertionError):
    """The kernel's answer differs from the float64 reference by more than the tolerance."""


class StaticCheckError(RooflineError, AssertionError):
    """What the compiler made of a kernel is not what the declaration says."""


class TimerError(RooflineError):
    """A duration that can't be true: not finite, not positive, or longer than the host saw pass."""


class BaselineError(RooflineError):
    """The saved baseline, or the run to compare with it, can't be read or is not of the same kind."""


class SanitizerNotFoundError(RooflineError):
    """compute-sanitizer is not there; the message says where it was looked for and what to install."""


class CountersError(RooflineError):
    """Hardware counters could not be read; the message says why and what to do."""


class NotCheckedError(RooflineError):
    """A check that was required could not be made. Nothing is known about what it would have found."""
