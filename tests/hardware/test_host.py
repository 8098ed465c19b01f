"""The host's memory: asked for before it is touched."""

from __future__ import annotations

import pytest

from pytest_roofline.errors import DeviceMemoryError
from pytest_roofline.hardware import host


def test_the_containers_limit_counts_where_it_is_less(monkeypatch, tmp_path):
    """A cgroup's limit is taken if it is a number below the machine's memory; "max" and a missing file are none."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(host, "LIMITS", (tmp_path / "absent", limit))
    limit.write_text("max\n")
    machine = host.memory_bytes()
    assert machine > 2**28
    limit.write_text("4096\n")
    assert host.memory_bytes() == 4096
    limit.write_text(f"{2 * machine}\n")
    assert host.memory_bytes() == machine


def test_more_than_the_host_has_is_refused_before_it_is_touched(monkeypatch):
    """What the host can't hold is refused with both sizes, and nothing is allocated."""
    monkeypatch.setattr(host, "memory_bytes", lambda: 1000)
    with pytest.raises(DeviceMemoryError, match="no memory for x: 1001 bytes needed, 1000 there"):  # noqa: SIM117
        with host.enough_memory("x", 1001):
            pytest.fail("the body ran")
    with host.enough_memory("x", 1000):
        pass


def test_a_refused_allocation_is_the_same_error():
    """A host that does refuse ends in the same error."""
    with pytest.raises(DeviceMemoryError, match="no memory for x: 8 of 7"), host.enough_memory("x", 1):
        raise MemoryError("8 of 7")
