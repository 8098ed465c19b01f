"""What the compiler made of each kernel, on every architecture in use. Needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ..declare.suite import Suite
from ..declare.values import trial
from ..declare.variant import Variant
from ..errors import NotCheckedError
from ..run.build import Build
from ..run.case import Case
from ..run.plan import Plan
from ..run.static import ARCHITECTURES, check_accesses, check_resources, gpu_of
from .shapes import base_shape

on_each_architecture = pytest.mark.parametrize("arch", ARCHITECTURES)


def builds(suite: Suite, variant: Variant, arch: str) -> Iterator[Build]:
    """The variant for ``arch`` in each way in which its default, its workloads and a small shape compile it."""
    shapes = [suite.default(variant.operator), *suite.shapes(variant.operator)]
    small = base_shape(suite, variant)
    seen = set()
    for shape in [*([small] if small else []), *shapes]:
        for dtype in variant.dtypes:
            if variant.broken_limit(typed := shape.replace(dtype=dtype)):
                continue
            try:
                plan = Plan(Case(variant, typed, suite), gpu_of(arch))
            except NotCheckedError:  # the GPU lacks what it needs there
                continue
            key = tuple((launch.source, launch.kernel, launch.defines) for launch in plan.launches)
            if key not in seen:
                seen.add(key)
                yield Build.of(plan)


@on_each_architecture
def test_no_spill_and_no_stack(suite: Suite, variant: Variant, arch: str) -> None:
    """Everything a kernel keeps is in registers: stack frame, spill stores and spill loads are 0 bytes."""
    for build in builds(suite, variant, arch):
        for launch in build.launches:
            check_resources(launch)
            assert 0 < launch.resources.registers <= 255


@on_each_architecture
def test_parameters_have_the_declared_types(suite: Suite, variant: Variant, arch: str) -> None:
    """Each kernel takes, in order, what the declaration says that it takes: no build comes to be otherwise."""
    assert all(build.launches for build in builds(suite, variant, arch))


@on_each_architecture
def test_global_accesses(suite: Suite, variant: Variant, arch: str) -> None:
    """Loads and stores have the declared widths; without a loop over the data, each element is loaded once."""
    for build in builds(suite, variant, arch):
        for launch in build.launches:
            check_accesses(build, launch)


def test_the_reference_gives_every_output(suite: Suite, variant: Variant) -> None:
    """On a small shape the float64 reference returns each declared output, in its shape, with finite values."""
    tried = trial(variant.operator)
    assert {name: one.shape for name, one in tried.outputs.items()} == {
        array.name: array.shape(tried.shape) for array in variant.operator.outputs
    }
    assert all(np.isfinite(np.asarray(one, np.float64)).any() for one in tried.outputs.values())
