"""That a 16-bit result is the right value rounded once.

The check of answers allows one unit in the last place, which a result that was cut off, or rounded twice, keeps too.
Here a result must be what some value within float32's error of the float64 reference rounds to.
"""

from __future__ import annotations

import numpy as np

from pytest_roofline.declare.values import reference
from pytest_roofline.hardware.dtypes import as_stored
from pytest_roofline.run.run import Run

ARITHMETIC = 2e-5  # relative: float32 sums, __expf of a moderate argument (a few 1e-6) and rsqrtf


def wrongly_rounded(run: Run) -> dict[str, int]:
    """By output, how many values are not the reference within ARITHMETIC, rounded once. It has run."""
    found = {}
    for name, want in reference(run.operator, run.plan.shape, run.inputs, run.scalars).items():
        got = run.device.download(run.arrays[name])
        slack = ARITHMETIC * np.abs(want)
        low, high = (as_stored(want + sign * slack, got.dtype).astype(np.float64) for sign in (-1, 1))
        values = got.astype(np.float64)
        found[name] = int(np.count_nonzero(~((low <= values) & (values <= high))))
    return found
