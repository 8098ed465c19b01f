"""Ours against PyTorch, torch.compile, Triton, Liger, QuACK, FlashInfer and a copy; each shape is a test of its own."""

from __future__ import annotations

import pytest
from peer_shapes import CASES

# Packages warn of whatever they like when they are imported, and this project's settings make errors of warnings.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.perf
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours_is_not_behind(compare, case):
    """Ours is right, at least 0.99 as fast as the fastest peer, and near the copy where that moves much."""
    complaints = compare(case).complaints()
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)
