"""From ledger bytes and a time to GB/s, MBU and floor, and to the marks that say when such a number means nothing.

GB/s is 1e9 bytes a second. MBU = (ledger bytes / time) / theoretical peak; nvbench calls it BWUtil. The ledger is
what the code requests; the clock sees what DRAM had to deliver, and the L2 cache sits in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .cards import Card
from .compile import Image
from .ladder import Launch, Rung, Shape
from .occupancy import Occupancy, occupancy
from .resources import Resources, of_kernel

FITS_L2 = "fits L2"
OVER_PEAK = "over 100 %"
REUSE = "reuse in L2"
UNFILLED = "grid does not fill the card"
THROTTLED = "throttled"
SHORT = "short"
HOST_LATE = "host late"
MARKS = {
    FITS_L2: "x and y together fit the L2 cache: the time says nothing about DRAM",
    OVER_PEAK: "MBU over 100 %: a cache served part of the ledger",
    REUSE: "a repeated read's reuse distance fits the L2 cache: DRAM moved less than the ledger, and speed-ups "
    "against this rung are worth less too",
    UNFILLED: "fewer blocks than the card holds at once: SMs idle, and saving bytes does not help",
    THROTTLED: "the driver lowered the clocks during the run",
    SHORT: "the events' own overhead, taken off, is over a tenth of the time",
    HOST_LATE: "the device waited for the host in some samples",
}


@dataclass(frozen=True)
class LaunchFigures:
    """One launch of a rung: what it takes of an SM, and how often its grid fills the card."""

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


def launch_figures(launch: Launch, resources: Resources, shape: Shape, card: Card) -> LaunchFigures:
    """Grid fill = blocks of the grid / (SMs x blocks an SM); 1 means that the grid just fills the card."""
    fits = occupancy(resources, launch.threads, launch.shared, card)
    blocks = math.prod(launch.grid(shape))
    fill = blocks / (card.sms * fits.blocks) if fits.blocks else math.inf
    return LaunchFigures(launch, resources, fits, fill)


def reuses(rung: Rung, shape: Shape, figures: list[LaunchFigures], card: Card) -> list[Reuse]:
    """Repeated reads of the ledger with their reuse distances.

    Within a launch: the share of the array that all blocks in flight touch. From one launch to a later one: every
    array that the launches before the second read went over, once each.
    """
    found = []
    touched: dict[str, int] = {}  # array -> index of the launch that touched it last
    for index, (launch, figure) in enumerate(zip(rung.launches, figures, strict=True)):
        for name in dict.fromkeys(launch.reads):
            nbytes = rung.arrays[name].nbytes(shape)
            if name in touched:
                between = {a for one in rung.launches[touched[name] : index] for a in (*one.reads, *one.writes)}
                distance = sum(rung.arrays[a].nbytes(shape) for a in between)
                found.append(Reuse(name, distance, f"{rung.launches[touched[name]].kernel} to {launch.kernel}"))
            if launch.reads.count(name) > 1:
                blocks = math.prod(launch.grid(shape))
                in_flight = min(blocks, card.sms * figure.occupancy.blocks)
                found.append(Reuse(name, nbytes * in_flight // blocks, f"within {launch.kernel}"))
        touched |= dict.fromkeys((*launch.reads, *launch.writes), index)
    return found


def gbs(nbytes: float, seconds: float) -> float:
    return nbytes / seconds / 1e9


def ledger_seconds(rung: Rung, shape: Shape, card: Card) -> float:
    """Time of the ledger at the card's theoretical peak."""
    return rung.ledger_bytes(shape) / (card.peak_gbs * 1e9)


@dataclass(frozen=True)
class Facts:
    """What is known of a rung at a shape on a card before it is timed."""

    rung: Rung
    shape: Shape
    card: Card
    launches: tuple[LaunchFigures, ...]
    reuses: tuple[Reuse, ...]

    @property
    def fits_l2(self) -> bool:
        return self.rung.footprint_bytes(self.shape) <= self.card.l2_bytes

    @property
    def reuse_fits_l2(self) -> bool:
        return any(reuse.distance_bytes <= self.card.l2_bytes for reuse in self.reuses)

    @property
    def grid_fill(self) -> float:
        return min(figure.grid_fill for figure in self.launches)

    def marks(self) -> list[str]:
        """The marks that need no time."""
        found = [FITS_L2] if self.fits_l2 else []
        found += [REUSE] if self.reuse_fits_l2 else []
        return found + ([UNFILLED] if self.grid_fill < 1 else [])


def facts_of(rung: Rung, shape: Shape, card: Card, images: Mapping[str, Image]) -> Facts:
    """Facts of ``rung`` as compiled: ``images`` by the path of its sources."""
    rung = rung.at(shape, card)
    resources = {launch.kernel: of_kernel(images[rung.source_of(launch)], launch.kernel) for launch in rung.launches}
    return facts(rung, shape, card, resources)


def facts(rung: Rung, shape: Shape, card: Card, resources: dict[str, Resources]) -> Facts:
    """``resources`` by kernel name (see :mod:`pytest_roofline.resources`)."""
    rung = rung.at(shape, card)
    figures = [launch_figures(launch, resources[launch.kernel], shape, card) for launch in rung.launches]
    return Facts(rung, shape, card, tuple(figures), tuple(reuses(rung, shape, figures, card)))
