"""What is known of a build before it is timed, and the notes that qualify a time or a bandwidth.

GB/s is 1e9 bytes a second. MBU = (bytes moved / time) / theoretical peak; nvbench calls it BWUtil. Bytes moved are what
the code requests; the clock sees what DRAM had to deliver, and the L2 cache sits in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..hardware.gpus import Gpu
from ..run.build import Build, BuiltLaunch
from ..run.plan import Plan

FITS_L2 = "fits L2"
OVER_PEAK = "over 100 %"
REUSE = "reuse in L2"
PART_WAVE = "under one wave"
THROTTLED = "throttled"
SHORT = "short"
HOST_LATE = "host late"
NOTES = {
    FITS_L2: "all arrays together fit the L2 cache: the time says nothing about DRAM",
    OVER_PEAK: "MBU over 100 %: a cache served part of the bytes moved",
    REUSE: "a repeated read's reuse distance fits the L2 cache: DRAM moved less than the code requests, and speed-ups "
    "against this variant are worth less too",
    PART_WAVE: "fewer blocks than the GPU holds at once: SMs idle, and saving bytes does not help",
    THROTTLED: "the driver lowered the clocks during the run",
    SHORT: "the events' own overhead, taken off, is over a tenth of the time",
    HOST_LATE: "the device waited for the host in some samples",
}


@dataclass(frozen=True)
class Reuse:
    """A repeated read: bytes touched from one read of the array to the next, and where."""

    array: str
    distance_bytes: int
    where: str


def reuses(build: Build) -> tuple[Reuse, ...]:
    """Repeated reads among the bytes moved, with their reuse distances.

    Within a launch: the share of the array that all blocks in flight touch. From one launch to a later one: every
    array that the launches before the second read went over, once each.
    """
    plan, found = build.plan, []
    touched: dict[str, int] = {}  # array -> index of the launch that touched it last
    for index, launch in enumerate(build.launches):
        planned = launch.planned
        for name in dict.fromkeys(planned.reads):
            if name in touched:
                since = plan.launches[touched[name] : index]
                between = {a for one in since for a in (*one.reads, *one.writes)}
                distance = sum(plan.arrays[a].nbytes for a in between)
                found.append(Reuse(name, distance, f"{since[0].kernel} to {planned.kernel}"))
            if planned.reads.count(name) > 1:
                share = plan.arrays[name].nbytes * in_flight(launch, plan.gpu) // planned.blocks
                found.append(Reuse(name, share, f"within {planned.kernel}"))
        touched |= dict.fromkeys((*planned.reads, *planned.writes), index)
    return tuple(found)


def in_flight(launch: BuiltLaunch, gpu: Gpu) -> int:
    """Blocks of the grid that are resident at once."""
    return min(launch.planned.blocks, gpu.sms * launch.occupancy.blocks)


def gbs(nbytes: float, seconds: float) -> float:
    return nbytes / seconds / 1e9


def seconds_at_peak(plan: Plan) -> float:
    """Time of the bytes moved at the GPU's theoretical peak."""
    return plan.bytes_moved / (plan.gpu.peak_gbs * 1e9)


@dataclass(frozen=True)
class Facts:
    """What is known of a build before it is timed."""

    build: Build

    @property
    def plan(self) -> Plan:
        return self.build.plan

    @cached_property
    def reuses(self) -> tuple[Reuse, ...]:
        return reuses(self.build)

    @property
    def fits_l2(self) -> bool:
        return self.plan.footprint <= self.plan.gpu.l2_bytes

    @property
    def reuse_fits_l2(self) -> bool:
        return any(reuse.distance_bytes <= self.plan.gpu.l2_bytes for reuse in self.reuses)

    def notes(self) -> list[str]:
        """The notes that need no time."""
        found = [FITS_L2] if self.fits_l2 else []
        found += [REUSE] if self.reuse_fits_l2 else []
        return found + ([PART_WAVE] if self.build.waves < 1 else [])
