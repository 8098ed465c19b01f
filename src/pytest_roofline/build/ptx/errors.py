"""What is raised where PTX is not understood. A kernel of which that is so is never taken for one that passed."""

from __future__ import annotations

from ...errors import NotCheckedError


class UnsupportedError(NotCheckedError):
    """The kernel holds something that can't be read or is not simulated; the message names it and the source line."""
