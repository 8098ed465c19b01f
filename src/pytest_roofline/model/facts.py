"""From ledger bytes and a time to GB/s, MBU and floor, and to the marks that say when such a number means nothing.

GB/s is 1e9 bytes a second. MBU = (ledger bytes / time) / theoretical peak; nvbench calls it BWUtil. The ledger is
what the code requests; the clock sees what DRAM had to deliver, and the L2 cache sits in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..build.nvrtc import Image
from ..build.ptxas import of_kernel
from ..declare.suite import Launch, Shape, Variant
from ..hardware.gpus import Gpu
from ..hardware.occupancy import Occupancy, occupancy
from ..hardware.resources import Resources

FITS_L2 = "fits L2"
OVER_PEAK = "over 100 %"
REUSE = "reuse in L2"
UNFILLED = "grid does not fill the gpu"
THROTTLED = "throttled"
SHORT = "short"
HOST_LATE = "host late"
MARKS = {
    FITS_L2: "x and y together fit the L2 cache: the time says nothing about DRAM",
    OVER_PEAK: "MBU over 100 %: a cache served part of the ledger",
    REUSE: "a repeated read's reuse distance fits the L2 cache: DRAM moved less than the ledger, and speed-ups "
    "against this variant are worth less too",
    UNFILLED: "fewer blocks than the gpu holds at once: SMs idle, and saving bytes does not help",
    THROTTLED: "the driver lowered the clocks during the run",
    SHORT: "the events' own overhead, taken off, is over a tenth of the time",
    HOST_LATE: "the device waited for the host in some samples",
}


@dataclass(frozen=True)
class LaunchFigures:
    """One launch of a variant: what it takes of an SM, and how often its grid fills the gpu."""

    launch: Launch
    resources: Resources
    occupancy: Occupancy
    grid_fill: float


@dataclass(frozen=True)
class Reuse:
    """A repeated read: bytes touched from one read of the array to the next, and where."""

    array: str
    distance_bytes: int
    where: str


def launch_figures(launch: Launch, resources: Resources, shape: Shape, gpu: Gpu) -> LaunchFigures:
    """Grid fill = blocks of the grid / (SMs x blocks an SM); 1 means that the grid just fills the gpu."""
    fits = occupancy(resources, launch.threads, launch.shared, gpu)
    blocks = math.prod(launch.grid(shape))
    fill = blocks / (gpu.sms * fits.blocks) if fits.blocks else math.inf
    return LaunchFigures(launch, resources, fits, fill)


def reuses(variant: Variant, shape: Shape, figures: list[LaunchFigures], gpu: Gpu) -> list[Reuse]:
    """Repeated reads of the ledger with their reuse distances.

    Within a launch: the share of the array that all blocks in flight touch. From one launch to a later one: every
    array that the launches before the second read went over, once each.
    """
    found = []
    touched: dict[str, int] = {}  # array -> index of the launch that touched it last
    for index, (launch, figure) in enumerate(zip(variant.launches, figures, strict=True)):
        for name in dict.fromkeys(launch.reads):
            nbytes = variant.arrays[name].nbytes(shape)
            if name in touched:
                between = {a for one in variant.launches[touched[name] : index] for a in (*one.reads, *one.writes)}
                distance = sum(variant.arrays[a].nbytes(shape) for a in between)
                found.append(Reuse(name, distance, f"{variant.launches[touched[name]].kernel} to {launch.kernel}"))
            if launch.reads.count(name) > 1:
                blocks = math.prod(launch.grid(shape))
                in_flight = min(blocks, gpu.sms * figure.occupancy.blocks)
                found.append(Reuse(name, nbytes * in_flight // blocks, f"within {launch.kernel}"))
        touched |= dict.fromkeys((*launch.reads, *launch.writes), index)
    return found


def gbs(nbytes: float, seconds: float) -> float:
    return nbytes / seconds / 1e9


def ledger_seconds(variant: Variant, shape: Shape, gpu: Gpu) -> float:
    """Time of the ledger at the gpu's theoretical peak."""
    return variant.ledger_bytes(shape) / (gpu.peak_gbs * 1e9)


@dataclass(frozen=True)
class Facts:
    """What is known of a variant at a shape on a gpu before it is timed."""

    variant: Variant
    shape: Shape
    gpu: Gpu
    launches: tuple[LaunchFigures, ...]
    reuses: tuple[Reuse, ...]

    @property
    def fits_l2(self) -> bool:
        return self.variant.footprint_bytes(self.shape) <= self.gpu.l2_bytes

    @property
    def reuse_fits_l2(self) -> bool:
        return any(reuse.distance_bytes <= self.gpu.l2_bytes for reuse in self.reuses)

    @property
    def grid_fill(self) -> float:
        return min(figure.grid_fill for figure in self.launches)

    def marks(self) -> list[str]:
        """The marks that need no time."""
        found = [FITS_L2] if self.fits_l2 else []
        found += [REUSE] if self.reuse_fits_l2 else []
        return found + ([UNFILLED] if self.grid_fill < 1 else [])


def facts_of(variant: Variant, shape: Shape, gpu: Gpu, images: Mapping[str, Image]) -> Facts:
    """Facts of ``variant`` as compiled: ``images`` by the path of its sources."""
    variant = variant.at(shape, gpu)
    resources = {
        launch.kernel: of_kernel(images[variant.source_of(launch)], launch.kernel) for launch in variant.launches
    }
    return facts(variant, shape, gpu, resources)


def facts(variant: Variant, shape: Shape, gpu: Gpu, resources: dict[str, Resources]) -> Facts:
    """``resources`` by kernel name (see :mod:`pytest_roofline.build.ptxas`)."""
    variant = variant.at(shape, gpu)
    figures = [launch_figures(launch, resources[launch.kernel], shape, gpu) for launch in variant.launches]
    return Facts(variant, shape, gpu, tuple(figures), tuple(reuses(variant, shape, figures, gpu)))
