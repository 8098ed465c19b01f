"""A launch: what is run, on what, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..isa.program import Program
from ..observe.findings import Findings
from ..observe.shadows import History
from ..observe.traffic import Counts, Executed, Touch
from .memory import Arena

STEPS_LIMIT = 1_000_000  # blocks of code that a chunk of few lanes may run; one of many has fewer of them


@dataclass
class Launch:
    """One launch: program, sizes, the bytes of its parameters, and what comes of it."""

    program: Program
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int  # dynamic, in bytes of a block
    parameters: bytes
    arena: Arena
    findings: Findings
    symbols: dict[str, int]  # addresses of the module's variables
    nulls: dict[str, int] = field(default_factory=dict)  # parameters that are null pointers, with their positions
    tracked: set[int] = field(default_factory=set)  # bases of allocations that this launch both reads and writes
    counts: dict[tuple[int, str], Counts] = field(default_factory=dict)  # by number of the site and buffer
    executed: dict[int, Executed] = field(default_factory=dict)  # by block of code
    reverse: bool = False
    detailed: bool = False
    touched: list[Touch] | None = None  # filled if it is a list
    steps_limit: int = STEPS_LIMIT
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History(self.program.granule["global"])

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, static and dynamic."""
        return self.program.flat.static_shared + self.shared

    @property
    def shared_held(self) -> int:
        """The same in whole vectors of 16 bytes, as it is kept."""
        return max(16, -(-self.shared_bytes // 16) * 16)
