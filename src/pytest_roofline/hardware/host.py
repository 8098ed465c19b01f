"""How much memory the host can give, so that a request beyond it is an error and not a killed process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DeviceMemoryError

LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))  # cgroup v2, v1


def memory_bytes() -> int:
    """Bytes of the host's memory: the machine's, or the container's where that is less."""
    known = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in LIMITS:
        try:
            known.append(int(path.read_text()))
        except (OSError, ValueError):  # no such controller, or the word "max"
            continue
    return min(known)


@contextmanager
def enough_memory(what: str, nbytes: int) -> Iterator[None]:
    """Allocate ``what`` inside; :class:`~pytest_roofline.errors.DeviceMemoryError` if the host can't hold it.

    ``MemoryError`` alone is no answer: a kernel that overcommits grants any size, and kills the process that fills it.
    """
    there = memory_bytes()
    if nbytes > there:
        raise DeviceMemoryError(f"the host has no memory for {what}: {nbytes} bytes needed, {there} there")
    try:
        yield
    except MemoryError as error:
        raise DeviceMemoryError(f"the host has no memory for {what}: {error}") from error
