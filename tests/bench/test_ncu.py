"""Driving ncu: its table, its refusals, and on a GPU the model of DRAM traffic against what the hardware counts."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

from pytest_roofline import Array, Launch, Operator, Shape, Variant
from pytest_roofline.bench import ncu as counters
from pytest_roofline.bench.record import Record
from pytest_roofline.errors import CountersError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.gpu import toolkit
from pytest_roofline.run.gpu.child import Counted
from pytest_roofline.run.plan import Plan

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
        case = Case(shipped.variant("n3"), Shape(M=32, N=3584), shipped)
        found = Counted(Build.of(Plan(case, gpu_named("h200"))), "cold")
        return counters.count(ncu, shipped.file, [found])

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
    monkeypatch.setattr(toolkit, "TOOLKIT", str(tmp_path / "toolkit"))
    monkeypatch.setattr(counters, "NSIGHT", tmp_path / "nsight")
    with pytest.raises(CountersError, match="ncu was not found on the PATH"):
        counters.find({"PATH": str(tmp_path)})
    (tmp_path / "bin").mkdir()
    ncu = tmp_path / "bin" / "ncu"
    ncu.write_text("")
    ncu.chmod(0o755)
    assert counters.find({"PATH": "", "CUDA_HOME": str(tmp_path)}) == ncu


def test_kernels_of_cpp_are_asked_for_by_their_names_in_the_image(tmp_path, monkeypatch):
    """A template's instance is known to ncu by its mangled name: in the filter and in the table."""
    (tmp_path / "scale.cu").write_text(
        "template <int N> __global__ void scale(const float* x, float* y) { y[threadIdx.x] = N * x[threadIdx.x]; }\n"
    )
    operator = Operator(
        "scale",
        "y = 2 x",
        arrays=(Array("x", ("N",)), Array("y", ("N",), role="output")),
        reference=lambda v: {"y": 2 * v.x},
    )
    variant = Variant("v1", operator, "scale.cu", (Launch("scale<2>", args=("x", "y"), grid=1, block=32),))
    case = Case(dataclasses.replace(variant, root=tmp_path), Shape(N=32))
    asked = {}

    def run_child(job, command, timeout):
        asked["command"], asked["launches"] = command, job.launches
        raise CountersError("no ncu here")

    monkeypatch.setattr(counters, "run_child", run_child)
    with pytest.raises(CountersError, match="no ncu here"):
        counters.count(
            tmp_path / "ncu", tmp_path / "suite.py", [Counted(Build.of(Plan(case, gpu_named("h200"))), "cold")]
        )
    assert "regex:^(_Z5scaleILi2EEvPKfPf)$" in asked["command"]
    assert asked["command"].count("mangled") == 2
    assert asked["launches"] == ("scale<2>",) * 4


def test_what_ncu_counts_stands_in_the_record():
    """Bytes, sectors and time are added up over the launches; DRAM bytes for each element of the largest output."""
    launches = [counters.Counters(1000.0, 200.0, 50.0, 1500.0), counters.Counters(3000.0, 400.0, 70.0, 2500.0)]
    found = counters.counted(Record(bytes_moved=8000, bytes_per_element=8.0), launches)
    assert (found.dram_read_bytes, found.dram_written_bytes) == (4000, 600)
    assert found.dram_per_element == 4.6
    assert (found.l2_sectors, found.ncu_us) == (120, 4.0)


def test_dram_traffic_is_that_of_the_algorithm(cuda_device, shipped):
    """n4 at 2048 x 3584 from a cold L2 cache: DRAM delivers x once, within 5 %."""
    plan = Plan(Case(shipped.variant("n4"), Shape(M=2048, N=3584), shipped), cuda_device.gpu)
    try:
        case = Counted(Build.of(plan), "cold")
        ((found,),) = counters.count(counters.find(), shipped.file, [case], cuda_device.index)
    except CountersError as error:
        pytest.skip(f"not checked: {error}")
    assert found.dram_read == pytest.approx(4 * 2048 * 3584, rel=0.05)


def test_counters_of_a_run_stand_beside_bytes_moved_and_model(cuda_device, empty_project):
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
