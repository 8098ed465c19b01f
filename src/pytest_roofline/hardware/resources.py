"""What a kernel takes of an SM, as compiled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """What ptxas gave one kernel, as compiled and not as asked for.

    ``registers`` is per thread; ``stack_bytes``, ``spill_stores`` and ``spill_loads`` are bytes of local memory per
    thread, that is of DRAM; ``shared_bytes`` is static shared memory per block; ``constant_bytes`` is the sum over
    all constant banks, 0 where the report lists none (sm_90 and newer); ``barriers`` is named barriers per block.
    Spills inside a function that was not inlined are reported by ptxas for that function and are not in here; its
    stack is (ptxas's cumulative stack size).
    """

    kernel: str
    arch: str
    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    shared_bytes: int
    constant_bytes: int
    barriers: int
