"""Driving ncu: its table, its refusals, and on a GPU the model of DRAM traffic against what the hardware counts."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest
from pytest_roofline.run.check import images_of

from pytest_roofline import Shape
from pytest_roofline.bench import ncu as counters
from pytest_roofline.errors import CountersError
from pytest_roofline.run.gpu.child import Counted
from pytest_roofline.sanitize import compute_sanitizer as sanitizer

HEAD = '"ID","Process ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum",'
HEAD += '"lts__t_sectors.sum"\n"","","","byte","byte","ns","sector"\n'
FAKE = """\
#!{python}
import json, pathlib, sys
args = sys.argv[1:]
config = json.loads(pathlib.Path({config!r}).read_text())
job = json.loads(pathlib.Path(args[-1]).read_text())
launched = ["rms_n3"] * (1 + job["repeats"]) * len(job["counted"])
if config["proof"]:
    proof = {{"nonce": job["nonce"], "launched": launched, "verified": None, "error": config["error"]}}
    print("roofline-child: " + json.dumps(proof))
pathlib.Path(args[args.index("--log-file") + 1]).write_text(config["log"])
sys.exit(config["code"])
"""


def rows(*values, kernel="rms_n3"):
    lines = [
        f'"{n}","1","{kernel}","{read:,}","{written:,}","{ns:,}","7"' for n, (read, written, ns) in enumerate(values)
    ]
    return "==PROF== Connected\n" + HEAD + "\n".join(lines) + "\n"


@pytest.fixture
def counted(tmp_path, shipped):
    """``counted(log, code=0, proof=True, error=None)``: what comes of one case under a fake ncu."""

    def run(log, code=0, proof=True, error=None):
        config, ncu = tmp_path / "config.json", tmp_path / "ncu"
        config.write_text(json.dumps({"log": log, "code": code, "proof": proof, "error": error}))
        ncu.write_text(FAKE.format(python=sys.executable, config=str(config)))
        ncu.chmod(0o755)
        variant = shipped.variant("n3")
        case = Counted(variant, Shape(M=32, N=3584), "cold", images_of(shipped, variant, "sm_90"))
        return counters.count(ncu, shipped.root / "suite.py", [case])

    return run


def test_the_median_of_the_repeats_counts_and_the_first_run_does_not(counted):
    """Thousands have commas; the first launch, which verified nothing and warmed up, is left out."""
    ((found,),) = counted(rows((9_999_999, 9, 9), (1_000, 5, 30), (3_000, 4, 10), (2_000, 6, 20)))
    assert found == counters.Counters(dram_read=2000, dram_written=5, l2_sectors=7, nanoseconds=20)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"log": "==ERROR== ERR_NVGPUCTRPERM - no permission", "code": 1}, "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"log": "==ERROR== Failed: LibraryNotLoaded", "code": 9}, "gives no access to performance counters"),
        ({"log": "", "proof": False}, "left no proof"),
        ({"log": "", "error": "DeviceMemoryError: 80 GB"}, "the child under ncu failed: DeviceMemoryError: 80 GB"),
        ({"log": "==ERROR== something else", "code": 1}, "exit code 1: ==ERROR== something else"),
        ({"log": "==PROF== Disconnected\n"}, "has no table"),
        ({"log": rows((1, 1, 1))}, "reported 1 launches, not the 4"),
        ({"log": rows(*[(1, 1, 1)] * 4, kernel="other")}, "or others"),
        (
            {"log": rows(*[(1, 1, 1)] * 4).replace('"1","1","7"', '"n/a","1","7"')},
            "gave 'n/a' for dram__bytes_write.sum",
        ),
    ],
)
def test_what_is_no_count_is_an_error(counted, how, said):
    """A refusal, a child that failed, and a table that is cut or of other launches never become a number."""
    with pytest.raises(CountersError) as caught:
        counted(**how)
    assert said in str(caught.value)


def test_an_ncu_that_is_not_there(tmp_path, monkeypatch):
    """The error says where it was looked for; a toolkit named by the environment is found."""
    monkeypatch.setattr(sanitizer, "TOOLKIT", str(tmp_path / "toolkit"))
    monkeypatch.setattr(counters, "NSIGHT", tmp_path / "nsight")
    with pytest.raises(CountersError, match="ncu was not found on the PATH"):
        counters.find({"PATH": str(tmp_path)})
    (tmp_path / "bin").mkdir()
    ncu = tmp_path / "bin" / "ncu"
    ncu.write_text("")
    ncu.chmod(0o755)
    assert counters.find({"PATH": "", "CUDA_HOME": str(tmp_path)}) == ncu


def test_counters_of_a_run_stand_beside_ledger_and_model(cuda_device, empty_project):
    """--roofline-counters adds DRAM bytes, L2 sectors and ncu's time to the saved run and shows them."""
    empty_project.declare()
    empty_project.use_tests(perf="perf/test_perf.py")
    result = empty_project.run("-k", "n4-2048x3584", "--roofline-counters", "--benchmark-json=run.json")
    assert result.ret == 0, result.stdout.str()
    if "ncu was not found" in result.stdout.str() or "performance counters" in result.stdout.str():
        pytest.skip("not checked: no ncu, or no permission")
    (bench,) = json.loads((empty_project.path / "run.json").read_text())["benchmarks"]
    info = bench["extra_info"]
    assert info["dram_read_bytes"] == pytest.approx(4 * 2048 * 3584, rel=0.05)
    assert 0.5 < info["ncu_us"] / info["median_us"] < 1.5
    result.stdout.fnmatch_lines(["*roofline: counters*", "n4 *2048x3584 *cold *8.0 *"])


def test_counters_hold_four_figures():
    """Each figure has a metric of ncu."""
    assert {f.name for f in dataclasses.fields(counters.Counters)} == set(counters.METRICS)
