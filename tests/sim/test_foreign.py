"""Kernels of other kinds, written for this test: run right in the simulator, and each broken form is caught."""

from __future__ import annotations

import math
from pathlib import Path

import foreign_a
import foreign_b
import numpy as np
import pytest

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.run.device import SIMULATED
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import SimulationError

KERNELS = [*foreign_a.KERNELS, *foreign_b.KERNELS]
FOLDER = Path(__file__).parent / "foreign"
over_all = pytest.mark.parametrize("foreign", KERNELS, ids=lambda foreign: foreign.name)


def source_of(foreign, broken=False):
    source = Source.read(FOLDER / foreign.file)
    return source.replaced(foreign.broken.old, foreign.broken.new) if broken else source


def run(device, foreign, broken=False):
    """All calls of ``foreign`` on ``device``; the outputs as numbers."""
    arch = foreign.arch if device.evidence == SIMULATED else device.arch
    image = compile_source(source_of(foreign, broken), arch)
    arrays = {name: device.upload(np.ascontiguousarray(value)) for name, value in foreign.inputs().items()}
    for name, (shape, dtype) in foreign.outputs.items():
        if name not in arrays:
            arrays[name] = device.empty(shape, dtype)
    for call in foreign.calls:
        args = tuple(arrays[arg] if isinstance(arg, str) else arg for arg in call.args)
        device.launch(device.load(image, call.kernel), call.grid, call.block, args, call.shared)
    device.synchronize()
    return {name: device.download(arrays[name]) for name in foreign.outputs}


def assert_right(foreign, outputs):
    for name, want in foreign.reference(foreign.inputs()).items():
        got = foreign.decode.get(name, lambda values: values)(outputs[name])
        if np.issubdtype(np.asarray(want).dtype, np.integer):
            np.testing.assert_array_equal(got, want, err_msg=name)
        else:
            np.testing.assert_allclose(
                np.asarray(got, np.float64), want, rtol=foreign.rtol, atol=foreign.atol, err_msg=name
            )


def simulator(foreign, **options):
    return SimDevice("h200" if foreign.arch == "sm_90" else "rtx4090", **options)


@over_all
@pytest.mark.parametrize("reverse", [False, True], ids=["first-to-last", "last-to-first"])
def test_it_runs_right_under_both_schedules(foreign, reverse):
    """No finding, and the reference's answer, whichever lanes, chunks and blocks of code go first."""
    device = simulator(foreign, reverse=reverse)
    assert_right(foreign, run(device, foreign))
    found = device.take_findings()  # a plain read before an atomic update is a common idiom, and no more than a warning
    assert [finding for finding in found if not (finding.between_blocks and finding.severity == "warning")] == []


@over_all
def test_its_broken_form_is_caught(foreign):
    """What was broken is found as what it is, and both schedules find the same errors at the same lines."""
    found = []
    for reverse in (False, True):
        device = simulator(foreign, reverse=reverse)
        device.steps_limit = 1_000 if foreign.broken.caught == "steps" else 100_000
        if foreign.broken.caught == "answer":
            outputs = run(device, foreign, broken=True)
            with pytest.raises(AssertionError):
                assert_right(foreign, outputs)
        else:
            with pytest.raises(SimulationError) as caught:
                run(device, foreign, broken=True)
            assert foreign.broken.caught in {finding.kind for finding in caught.value.findings}, caught.value
            errors = [finding for finding in caught.value.findings if finding.severity == "error"]
            found.append({(finding.kind, finding.places) for finding in errors})
    assert foreign.broken.caught == "answer" or found[0] == found[1]


@over_all
def test_it_runs_right_on_a_gpu(cuda_device, foreign):
    """The same kernels and references hold on hardware."""
    if int(foreign.arch[3:]) > cuda_device.gpu.capability:
        pytest.skip(f"not checked: {foreign.name} needs {foreign.arch}, this is {cuda_device.arch}")
    assert_right(foreign, run(cuda_device, foreign))


def test_there_are_at_least_thirty():
    """Thirty kinds and more, each with a broken form that leaves the source otherwise as it is."""
    assert len(KERNELS) >= 30
    for foreign in KERNELS:
        text = (FOLDER / foreign.file).read_text()
        assert text.count(foreign.broken.old) == 1, foreign.name
    assert {path.name for path in FOLDER.glob("*.cu")} == {foreign.file for foreign in KERNELS}
    assert all(math.prod(call.block) <= 1024 for foreign in KERNELS for call in foreign.calls)
