"""The speed of light (SOL): the least time in which a GPU could do what a build's launches do, and what binds it.

A launch takes at least the launch itself plus the longest of four times: its DRAM traffic at the peak, its bytes
between L2 and the SMs, its special-function operations and its instructions. The last two are those of the SM that
has most to do: of B equal blocks on S SMs one has ceil(B / S). A bound, never a measurement: it can't be beaten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..hardware.gpus import Gpu
from .facts import Facts
from .l2 import Dram, Sweep, dram
from .work import Work

# Assumed, for all GPUs: the shortest launch of the suite that ncu saw on an H200 took 2.1 us (one block of sm_s1_max,
# warm; gpu__time_duration, driver 580.159.04).
LAUNCH_SECONDS = 1.0e-6
# Bytes a clock between L2 and one SM: the width of its port (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture
# via Microbenchmarking", 2018, section 3.5). The cache as a whole gives less.
L2_BYTES_PER_CLOCK = 64
# CUDA Programming Guide, "Arithmetic Instructions": results a clock and SM for reciprocal, square root, logarithm,
# exponential, sine and cosine in float32, compute capability 7.5 to 12.0; and four warp schedulers an SM.
SPECIAL_PER_CLOCK = 16
ISSUE_PER_CLOCK = 4
# Classes of instructions that ptxas can neither drop nor join.
CERTAIN = ("load", "store", "atomic", "special", "float", "shuffle", "barrier")
LAUNCH = "launch"
CEILINGS = {
    "DRAM": "DRAM traffic at the theoretical peak",
    "L2": f"{L2_BYTES_PER_CLOCK} bytes a clock and SM between L2 and the SMs",
    "special": f"{SPECIAL_PER_CLOCK} special-function results a clock and SM",
    "issue": f"{ISSUE_PER_CLOCK} instructions a clock and SM",
    LAUNCH: "what a launch takes that does nothing",
}


@dataclass(frozen=True)
class LaunchSol:
    """One launch: its work, its DRAM traffic (None where that is not modelled) and the seconds of each ceiling."""

    work: Work
    dram: Dram | None
    limits: dict[str, float]

    @property
    def seconds(self) -> float:
        return LAUNCH_SECONDS + max(self.limits.values(), default=0.0)

    @property
    def bound(self) -> str:
        """The ceiling that binds: the longest time, or the launch where that is longer than all of them."""
        times = {LAUNCH: LAUNCH_SECONDS} | self.limits
        return max(times, key=lambda name: times[name])


@dataclass(frozen=True)
class SpeedOfLight:
    """A variant at a shape on a GPU, from a "cold" or a "warm" L2 cache."""

    facts: Facts
    state: str
    launches: tuple[LaunchSol, ...]

    @property
    def seconds(self) -> float:
        return sum(launch.seconds for launch in self.launches)

    @property
    def bound(self) -> str:
        """The ceiling of the launch that takes longest."""
        return max(self.launches, key=lambda launch: launch.seconds).bound

    @cached_property
    def dram(self) -> Dram | None:
        """All launches together; None where one is not modelled."""
        each = [launch.dram for launch in self.launches if launch.dram is not None]
        if len(each) < len(self.launches):
            return None
        return Dram(sum(one.read for one in each), sum(one.written for one in each))


def speed_of_light(facts: Facts, works: Sequence[Work], state: str) -> SpeedOfLight:
    """The speed of light of the launches ``works`` on the GPU of ``facts``."""
    moved: Sequence[Dram | None] = [None] * len(works)
    if all(work.dense for work in works):
        in_flight = [max(1, facts.plan.gpu.sms * figure.occupancy.blocks) for figure in facts.build.launches]
        sweeps = [Sweep(work.touched or (), work.blocks, many) for work, many in zip(works, in_flight, strict=True)]
        moved = dram(sweeps, facts.plan.gpu, state == "warm")
    launches = [LaunchSol(work, of, limits(work, of, facts.plan.gpu)) for work, of in zip(works, moved, strict=True)]
    return SpeedOfLight(facts, state, tuple(launches))


def limits(work: Work, moved: Dram | None, gpu: Gpu) -> dict[str, float]:
    """Seconds of each ceiling."""
    clock = gpu.sm_clock_mhz * 1e6
    # Blocks of unequal work may be spread evenly at best.
    busiest = -(-work.blocks // gpu.sms) / work.blocks if work.uniform else 1 / min(work.blocks, gpu.sms)
    found = {"DRAM": (moved.read + moved.written) / (gpu.peak_gbs * 1e9)} if moved else {}
    # Blocks on one SM may share what they read, through its L1 cache: each byte counts once, spread over all SMs; but
    # what one block moves goes through one port.
    moved_by_one = max(work.unique_bytes / min(work.blocks, gpu.sms), work.largest_block if work.dense else 0)
    instructions = sum(number for kind, number in work.issued.items() if kind in CERTAIN)
    return found | {
        "L2": moved_by_one / (L2_BYTES_PER_CLOCK * clock),
        "special": work.special * busiest / (SPECIAL_PER_CLOCK * clock),
        "issue": instructions * busiest / (ISSUE_PER_CLOCK * clock),
    }
