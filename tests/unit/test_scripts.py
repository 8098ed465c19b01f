"""The scripts that need a GPU, as far as they can be held without one."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
from specimens import fixed

from pytest_roofline import Shape
from pytest_roofline.errors import DeviceError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.model.models import Models
from pytest_roofline.run.build import Build

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def script(monkeypatch):
    """``script(name)``: the globals of a script; the import path and what it loads are put back."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(name):
        return runpy.run_path(str(SCRIPTS / name))

    before = set(sys.modules)
    yield run
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("only", ["n6", "barrier", "a2", "s8"])
def test_against_racecheck_finds_variants_and_mutants_in_both_builds(script, shipped, only):
    """Each case is a build for its shape, a mutant's of other images, long rows over a cluster; both builds alike."""
    found = list(script("against_racecheck.py")["cases"](shipped, gpu_named("h200"), only))
    names = [name.rsplit(" ", 1) for name, *_ in found]
    assert {build for _, build in names} == {"plain", "volatile"}
    assert len(names) == 2 * len({name for name, _ in names})
    for _, build in found:
        assert set(build.images) == set(build.plan.sources())
        assert all(launch.image.defines == launch.planned.defines for launch in build.launches)
    of_mutants = [build for name, build in found if "-" in name.split()[0]]
    assert all(build.images != Build.of(build.plan).images for build in of_mutants)
    clusters = {launch.cluster for _, build in found for launch in build.plan.launches}
    assert max(clusters) > 1 or only in ("n6", "barrier")


def test_tune_spreads_a_row_in_every_way_over_the_whole_of_it(script, shipped):
    """All ways hold the row, the rule's is the first, and a kernel that asks nothing of the caches is not made to.

    What the rule of a long row says is a way itself: it can be found so.
    """
    tune = script("tune.py")
    for name, shape in (
        ("n8", Shape(M=4096, N=65536)),
        ("s6", Shape(M=1, N=2048)),
        ("a2", Shape(M=8192, N=3584, dtype="bfloat16")),
    ):
        ways = list(tune["ways"](shipped.variant(name), shape, gpu_named("h200")))
        assert ways[0] == ("rule", fixed(shipped, name, shape))
        assert len(ways) > 5
        for _, variant in ways:
            macros = dict(variant.launches[-1].defines)
            held = ("WIDTH", "THREADS", "VECTORS", "CLUSTER")
            width, threads, vectors, cluster = (int(macros[key]) for key in held)
            assert width * threads * vectors * cluster >= shape.N
            assert ("X_LINES" in macros) == (name != "s6")
    for shape in (
        Shape(M=4096, N=65536),
        Shape(M=4096, N=61440),
        Shape(M=4096, N=32768),
        Shape(M=4096, N=131072, dtype="bfloat16"),
    ):
        (rule, *others) = (
            [(one.block, one.cluster, one.shared, one.defines) for one in variant.launches]
            for _, variant in tune["ways"](shipped.variant("n8"), shape, gpu_named("h200"))
        )
        assert rule in others


def test_against_counters_makes_a_table_of_what_was_saved(script, shipped):
    """Of saved counters no GPU is needed: a line for each variant and shape, model and counters, cold and warm."""
    counters = script("against_counters.py")
    saved = json.loads((SCRIPTS.parent / "tests" / "sim" / "h200_counters.json").read_text())
    few = [case for case in saved["cases"] if case["variant"] in ("n3", "s3")]
    lines = counters["table"](shipped, Models(gpu_named("h200")), saved | {"cases": few}, [32])
    assert lines[2:] == [  # of x once, and of n3 also w, which is an eighth of a row here
        "| n3 | 32 x 3584 | 4.12 + 0.00 | 4.12 + 0.00 | 0.00 + 0.00 | 0.00 + 0.00 |",
        "| s3 | 32 x 2048 | 4.00 + 0.00 | 4.00 + 0.00 | 0.00 + 0.00 | 0.00 + 0.00 |",
    ]


@pytest.mark.parametrize("name", ["tune.py", "against_ncu.py", "against_counters.py", "against_racecheck.py"])
def test_without_a_gpu_a_script_says_so(script, monkeypatch, capsys, name):
    """Exit code 2 and the reason, whatever was asked."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    main = script(name)["main"]
    monkeypatch.setattr(sys, "argv", [name, *(["n8", "8", "65536"] if name == "tune.py" else [])])
    monkeypatch.setattr("pytest_roofline.run.gpu.device.count", no_device)
    assert main() == 2
    assert "no GPU here" in capsys.readouterr().err


def no_device():
    raise DeviceError("no GPU here")
