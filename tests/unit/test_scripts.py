"""The scripts that need a GPU, as far as they can be held without one."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
from specimens import fixed

from pytest_roofline import Shape
from pytest_roofline.bench.record import Record
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
        assert ways[0] == ("rule", fixed(shipped, name, shape))
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


def recorded(name, shape, **changed):
    """A measured record of a variant of RMSNorm or softmax at a shape."""
    times = {"median_us": 50.0, "gbs": 4000.0, "copy_gbs": 4300.0, "mbu_percent": 83.1, "speedup": 1.5}
    moved = {"bytes_moved": 8 * 8192 * shape.N, "bytes_per_element": 8.0, "l2_bytes": 60 * 2**20}
    of = {"variant": name, "shape": str(shape), "extents": dict(shape.extents), "dtype": shape.dtype, "state": "cold"}
    return Record(evidence="measured", **{**times, **moved, **of, **changed})


def test_readme_tables_are_of_the_saved_run_and_the_suite(script, shipped, tmp_path, monkeypatch):
    """Each block between its markers is made anew from the records and the declaration; a missing marker is told."""
    tables = script("readme_tables.py")
    wide = Shape(M=8192, N=3584)
    records = [recorded("n1", wide, median_us=80.0, speedup=1.0), recorded("n3", wide), recorded("n4", wide)]
    records.append(recorded("n4", Shape(M=32, N=3584), mbu_percent=11.0))
    about = {"gpu": "NVIDIA H200", "driver": "1", "power_limit_w": 700.0, "compiler": "NVRTC", "cupy": "14"}
    run = {
        "benchmarks": [{"extra_info": record.extra_info()} for record in records],
        "machine_info": {"roofline": {**about, "peak_gbs": 4814.3, "l2_bytes": 60 * 2**20}},
        "commit_info": {"id": "0123456789"},
        "datetime": "2026-12-01T00:00:00",
    }
    (tmp_path / "0002_h200.json").write_text(json.dumps(run))
    names = ("suite", "hardware", "headline", "main results", "all results", "predictions", "notes", "keys", "peers")
    text = "\n".join(f"<!-- {name} -->\nold\n<!-- end of {name} -->" for name in names)
    filled = tables["filled"]
    monkeypatch.setitem(filled.__globals__, "BASELINE", tmp_path / "0002_h200.json")
    monkeypatch.setitem(filled.__globals__, "ROOT", tmp_path)
    (tmp_path / "kernels").symlink_to(SCRIPTS.parent / "kernels")
    new = filled(text)
    assert "| n4: in registers, 128-bit accesses | 8192 x 3584 | 50.0 | 4000 | 83 % | 93 % | 1.50 |" in new
    assert "4 benchmarks, 0002_h200.json" in new
    assert "| n3 | 8192x3584 | speed-up over n1 | 1.35 to 1.65 | 12N becomes 8N" in new
    assert "| 1.60 | holds |" in new
    assert all(f"| [{variant.name}](kernels/{variant.source}) |" in new for variant in shipped)
    assert filled(new) == new
    with pytest.raises(ValueError, match="no block between '<!-- headline -->'"):
        filled(text.replace("<!-- headline -->", ""))
