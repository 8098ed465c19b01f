"""The scripts that need a GPU, as far as they can be held without one."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from pytest_roofline import Shape
from pytest_roofline.hardware.gpus import gpu_named

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
    """Each case has a variant fixed for its shape and its images, long rows split over a cluster; both builds alike."""
    found = list(script("against_racecheck.py")["cases"](shipped, gpu_named("h200"), only))
    names = [name.rsplit(" ", 1) for name, *_ in found]
    assert {build for _, build in names} == {"plain", "volatile"}
    assert len(names) == 2 * len({name for name, _ in names})
    for _, variant, shape, images in found:
        assert set(images) == set(variant.sources())
        for launch in variant.launches:
            assert images[variant.source_of(launch)].defines == launch.defines, shape


def test_tune_lays_a_row_out_in_every_way_over_the_whole_of_it(script, shipped):
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
        assert ways[0] == ("rule", shipped.variant(name).at(shape, gpu_named("h200")))
        assert len(ways) > 5
        for _, variant in ways:
            macros = dict(variant.launches[-1].defines)
            held = ("WIDTH", "THREADS", "VECTORS", "CLUSTER")
            width, threads, vectors, cluster = (int(macros[key]) for key in held)
            assert width * threads * vectors * cluster >= shape.N
            assert ("X_CACHE" in macros) == (name != "s6")
    for shape in (
        Shape(M=4096, N=65536),
        Shape(M=4096, N=61440),
        Shape(M=4096, N=32768),
        Shape(M=4096, N=131072, dtype="bfloat16"),
    ):
        (_, rule), *others = tune["ways"](shipped.variant("n8"), shape, gpu_named("h200"))
        assert rule in [variant for _, variant in others]
