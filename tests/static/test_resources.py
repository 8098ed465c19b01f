"""What the compiler made of each kernel of the ladder, on every architecture in use. Needs no GPU."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pytest_roofline.arguments import check_parameters
from pytest_roofline.compile import Image, compile_source
from pytest_roofline.ladder import Ladder, Launch, Rung
from pytest_roofline.resources import GlobalAccess, global_accesses, of_image
from pytest_roofline.source import Source

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def compiled(ladder: Ladder, rung: Rung, launch: Launch, arch: str) -> Image:
    return compile_source(Source.read(ladder.root / (launch.source or rung.source)), arch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_no_spill_and_no_stack(ladder: Ladder, rung: Rung, arch: str) -> None:
    """Everything a kernel keeps is in registers: stack frame, spill stores and spill loads are 0 bytes."""
    for launch in rung.launches:
        found = of_image(compiled(ladder, rung, launch, arch))[launch.kernel]
        assert (found.stack_bytes, found.spill_stores, found.spill_loads) == (0, 0, 0), found
        assert 0 < found.registers <= 255, found


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_parameters_have_the_declared_types(ladder: Ladder, rung: Rung, arch: str) -> None:
    """Each kernel takes, in order, what the declaration says that it takes."""
    for launch in rung.launches:
        check_parameters(rung, launch, compiled(ladder, rung, launch, arch))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_global_loads_and_stores(ladder: Ladder, rung: Rung, arch: str) -> None:
    """Each input is loaded, and each output stored, at the declared width; without a loop over the row, once."""
    for launch in rung.launches:
        counts = Counter(global_accesses(compiled(ladder, rung, launch, arch).ptx, launch.kernel))
        # A value per row, such as a row's sum, is read and written by one thread and narrower than the payload.
        per_row = bool(set(launch.args) & {array.name for array in rung.scratch})
        for op, arrays in (("ld", rung.operator.inputs), ("st", rung.operator.outputs)):
            sizes = [np.dtype(array.dtype).itemsize for array in arrays if array.name in launch.args]
            wide = counts[GlobalAccess(op, launch.vector)]
            every = sum(n for access, n in counts.items() if access.op == op)
            assert wide >= len(sizes), (launch.kernel, op, counts)
            assert per_row or wide == every, (launch.kernel, op, counts)
            if launch.unrolled is not None:
                assert wide * launch.vector == sum(sizes) * launch.unrolled, (launch.kernel, op, counts)
