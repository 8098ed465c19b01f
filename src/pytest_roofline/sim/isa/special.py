"""Names of the special registers that are simulated."""

from __future__ import annotations

WITH_AXIS = ("tid", "ntid", "ctaid", "nctaid", "cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
PLAIN: tuple[str, ...] = (
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "gridid",
    "cluster_ctarank",
    "cluster_nctarank",
)
PLAIN += ("dynamic_smem_size", "total_smem_size", *(f"lanemask_{c}" for c in ("eq", "lt", "le", "gt", "ge")))
PLAIN += ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")
AXES = {"x": 0, "y": 1, "z": 2}


def known(name: str) -> bool:
    """Whether the special register ``name`` ("%tid.x") is simulated."""
    base, _, axis = name[1:].partition(".")
    return name == "WARP_SZ" or (base in WITH_AXIS and axis in AXES) or (base in PLAIN and not axis)
