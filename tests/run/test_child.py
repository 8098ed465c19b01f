"""The program that runs under the sanitizer, and what starts it. No GPU: a device that computes the reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from processes import alive

from pytest_roofline import Shape, load
from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.declare.values import Contents, reference
from pytest_roofline.errors import DeviceError, WrongAnswerError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.run.build import Build
from pytest_roofline.run.case import Case
from pytest_roofline.run.device import ArrayView
from pytest_roofline.run.gpu import child
from pytest_roofline.run.gpu.child import ChildJob, Proof, canary_job, case_job, execute, read_proof, run_child
from pytest_roofline.run.held import GUARD
from pytest_roofline.run.plan import Plan
from pytest_roofline.run.run import Run
from pytest_roofline.sanitize import compute_sanitizer

SUITE = Path(__file__).parents[2] / "kernels" / "suite.py"
SHAPE = Shape(M=8, N=1000)


class HostDevice:
    """Arrays of NumPy; launching rms_n3 writes the reference. ``fault`` is what synchronising raises."""

    evidence, name, arch = "test", "host", "sm_90"
    gpu = gpu_named("h200")

    def __init__(self, fault: str = "", off_by: float = 0.0, overrun: bool = False) -> None:
        self.fault, self.off_by, self.overrun = fault, off_by, overrun
        self.launched: list[str] = []
        self.allocated: list[int] = []
        self.calls: list[str] = []

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        array = np.full(shape, np.nan, dtype)
        array.view(np.uint8)[...] = 0xFF
        self.allocated.append(array.nbytes)
        return array

    def upload(self, host: np.ndarray) -> Any:
        self.allocated.append(host.nbytes)
        return host.copy()

    def repeat(self, tile: np.ndarray, shape: tuple[int, ...]) -> Any:
        return self.upload(np.resize(tile, shape))

    def write(self, array: Any, host: np.ndarray) -> None:
        array[...] = host.reshape(array.shape)

    def download(self, array: Any) -> np.ndarray:
        return np.asarray(array)

    def written(self, array: Any) -> None:
        return None

    def fingerprint(self, array: Any) -> int:
        return hash(array.tobytes())

    def view(self, array: Any) -> ArrayView:
        pointer = array.__array_interface__["data"][0]
        contiguous = array.flags.c_contiguous
        return ArrayView(pointer, array.nbytes, array.shape, array.strides, array.dtype, contiguous)

    def load(self, image: Any, kernel: str) -> Any:
        image.require(kernel)
        return kernel

    def launch(self, kernel: Any, grid: Any, block: Any, args: Any, shared: int, blocks: Any = None) -> None:
        self.launched.append(kernel)
        if kernel != "rms_n3":
            return
        x, w, y = args[:3]
        operator = load(SUITE).variant("n3").operator
        inputs = {"x": Contents.of(x), "w": Contents.of(w)}
        y[...] = reference(operator, SHAPE, inputs)["y"] + self.off_by
        if self.overrun:
            y.base[y.size] = 1.0

    def synchronize(self) -> None:
        self.calls.append("synchronize")
        if self.fault:
            raise DeviceError(self.fault)

    def release(self) -> None: ...


@pytest.fixture(scope="module")
def suite():
    return load(SUITE)


@pytest.fixture(scope="module")
def build(suite):
    return lambda name, shape=SHAPE: Build.of(Plan(Case(suite.variant(name), shape, suite), gpu_named("h200")))


@pytest.fixture
def n3(build):
    return lambda **options: case_job(SUITE, build("n3"), **options)


class TestExecute:
    def test_variant(self, n3) -> None:
        """A variant that runs and answers right is proven with its kernels' names, after the device was waited for."""
        device = HostDevice()
        assert execute(n3().fields, device) == Proof(("rms_n3",), True, None)
        assert device.calls[0] == "synchronize"
        assert n3().launches == ("rms_n3",)

    def test_several_launches(self, build) -> None:
        """A variant of two launches names both, and the job says beforehand which they have to be."""
        job = case_job(SUITE, build("n1"), verify=False)
        proof = execute(job.fields, HostDevice())
        assert proof == Proof(("rms_n1_pass1", "rms_n1_pass2"), None, None)
        assert job.launches == proof.launched

    def test_wrong_answer(self, n3) -> None:
        """A wrong answer keeps the proof that the kernels ran and says where it is wrong."""
        proof = execute(n3().fields, HostDevice(off_by=1.0))
        assert proof.launched == ("rms_n3",)
        assert proof.verified is False
        assert proof.error is not None
        assert "wrong answer: n3 8x1000" in proof.error
        assert execute(n3(verify=False).fields, HostDevice(off_by=1.0)) == Proof(("rms_n3",), None, None)

    def test_fault(self, n3) -> None:
        """A device that reports an error when it is waited for gives no proof, verified or not."""
        for verify in (True, False):
            with pytest.raises(DeviceError, match="cudaErrorIllegalAddress"):
                execute(n3(verify=verify).fields, HostDevice(fault="cudaErrorIllegalAddress"))

    def test_c62_exact_sizes(self, n3) -> None:
        """C62: each array of the child is exactly as large as the variant's arrays are, no guard hides an overrun."""
        device = HostDevice()
        execute(n3().fields, device)
        assert sorted(device.allocated) == sorted([8 * 1000 * 4, 1000 * 4, 8 * 1000 * 4])

    def test_guard_is_there_otherwise(self, build) -> None:
        """Outside the child the outputs keep their guard, which still finds an overrun and says how much it watches."""
        run = Run(HostDevice(overrun=True), build("n3"))  # type: ignore[arg-type]
        run.run()
        with pytest.raises(WrongAnswerError, match=f"past the end of y, first at byte .* within the {GUARD}"):
            run.verify()

    @pytest.mark.parametrize("kind", sorted(child.CANARIES))
    def test_canary(self, kind: str) -> None:
        """Each planted defect is one launch of the kernel of its name, and needs no suite."""
        image = compile_source(Source.read(Path(compute_sanitizer.__file__).with_name("canary.cu")), "sm_90")
        device = HostDevice()
        job = canary_job(kind, image)
        assert execute(job.fields, device) == Proof((f"canary_{kind}",), None, None)
        assert device.launched == [f"canary_{kind}"]
        assert job.launches == (f"canary_{kind}",)
        assert device.allocated == [256] * (2 if kind == "uninit" else 1)

    def test_any_extents_and_dtype(self, suite, build) -> None:
        """The job file is JSON, and the child makes the same case of it: variant, extents by name, dtype, images."""
        made = build("n6", Shape(M=4, N=1024, dtype="bfloat16"))
        fields = json.loads(json.dumps(dict(case_job(SUITE, made).fields)))
        assert child.shape_of(fields) == made.plan.shape
        assert fields["extents"] == {"M": 4, "N": 1024}
        run = child._run_of(fields["suite"], fields, HostDevice())
        assert (run.plan.case.id, run.plan.shape) == (made.plan.case.id, made.plan.shape)
        assert [*run.build.images.values()] == [*made.images.values()]
        assert run.build.launches[0].planned.defines == made.launches[0].planned.defines != ()

    def test_counted(self, build, monkeypatch) -> None:
        """For a profiler each case runs once and then as often as asked, from a flushed L2 cache where it is cold."""
        device = HostDevice()
        monkeypatch.setattr(child, "Flush", lambda given: lambda: given.launched.append("flush"))
        cases = [child.Counted(build("n3"), "cold"), child.Counted(build("n1"), "warm")]
        job = child.counting_job(SUITE, cases, repeats=2)
        proof = execute(json.loads(json.dumps(dict(job.fields))), device)
        two = ["rms_n1_pass1", "rms_n1_pass2"]
        assert device.launched == ["rms_n3", *["flush", "rms_n3"] * 2, *two * 3]
        assert proof.launched == job.launches == tuple(["rms_n3"] * 3 + two * 3)

    def test_missing_image(self, n3) -> None:
        """An image that is not there is an error with its path, before anything is launched."""
        fields = {**n3().fields, "images": {"rmsnorm/n3_registers.cu": "/nowhere/n3.cubin"}}
        device = HostDevice()
        with pytest.raises(DeviceError, match=r"/nowhere/n3\.cubin is absent"):
            execute(fields, device)
        assert device.launched == []


class FakeCuda:
    """Stands for CuPy and the base class CudaDevice in ExactDevice: notes what is done in which order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[Any] = []
        cuda = SimpleNamespace(set_allocator=lambda allocator: self.calls.append(("allocator", allocator)))
        cupy = SimpleNamespace(cuda=cuda, empty=lambda shape, dtype: self.calls.append("unwritten"))

        def init(device: Any, index: int) -> None:
            self.calls.append(("device", index))
            device.cupy = cupy

        monkeypatch.setattr(child, "import_cupy", lambda: cupy)
        monkeypatch.setattr(child.CudaDevice, "__init__", init)
        monkeypatch.setattr(child.CudaDevice, "empty", lambda device, shape, dtype: self.calls.append("poisoned"))


class TestExactDevice:
    def test_c62_pool_is_off_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """C62: CuPy's memory pool is off before the device is touched."""
        fake = FakeCuda(monkeypatch)
        child.ExactDevice(2, poisoned=True)
        assert fake.calls == [("allocator", None), ("device", 2)]

    @pytest.mark.parametrize(("poison", "call"), [(True, "poisoned"), (False, "unwritten")])
    def test_poison(self, monkeypatch: pytest.MonkeyPatch, poison: bool, call: str) -> None:
        """Without poison a new array stays unwritten: initcheck would take the poison for initialisation."""
        fake = FakeCuda(monkeypatch)
        child.ExactDevice(0, poisoned=poison).empty((4,), "float32")
        assert fake.calls[-1] == call

    @pytest.mark.parametrize(
        ("fields", "poison"),
        [({}, True), ({"poison": False}, False), ({"canary": "uninit"}, False), ({"canary": "oob"}, True)],
    )
    def test_job_decides(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fields: dict[str, Any], poison: bool
    ) -> None:
        """Arrays are poisoned unless the job says not to, or is the planted uninitialised read."""
        asked = []
        monkeypatch.setattr(child, "ExactDevice", lambda index, poisoned: asked.append(poisoned))
        monkeypatch.setattr(child, "execute", lambda fields, device: Proof(("k",), None, None))
        monkeypatch.setattr(child.signal, "alarm", lambda seconds: None)
        path = tmp_path / "job.json"
        path.write_text(json.dumps({"device": 0, "nonce": "n", "alarm_s": 1, **fields}))
        assert child.main([str(path)]) == 0
        assert asked == [poison]


class TestRunChild:
    def test_no_device(self, n3, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a GPU the real child prints its proof all the same: nothing launched, the reason, exit code 3."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        result = run_child(n3(), timeout=60)
        assert result.returncode == 3, result
        assert result.proof is not None, result
        assert (result.proof.launched, result.proof.verified) == ((), None)
        assert result.proof.error is not None
        assert result.proof.error.startswith("DeviceError: ")
        assert not result.timed_out

    def test_one_line_on_stdout(self, n3, monkeypatch: pytest.MonkeyPatch) -> None:
        """The proof is one line with nonce, variant and shape."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        (line,) = run_child(n3(), timeout=60).stdout.splitlines()
        record = json.loads(line.removeprefix("roofline-child: "))
        assert {*record} == {"nonce", "variant", "shape", "launched", "verified", "error"}
        assert (record["variant"], record["shape"], len(record["nonce"])) == ("n3", "8x1000", 32)

    def test_time_limit(self, tmp_path: Path) -> None:
        """A child that outstays its limit is killed with its own children, and the result says so."""
        pid = tmp_path / "pid"
        script = f"sleep 300 & echo $! > {pid}; wait"
        started = time.monotonic()
        result = run_child(ChildJob("x", ("k",), {}), ["/bin/sh", "-c", script], timeout=3)
        assert time.monotonic() - started < 20
        assert result.timed_out
        assert result.returncode == -9
        deadline = time.monotonic() + 5
        while alive(int(pid.read_text())) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(int(pid.read_text()))

    def test_command_not_there(self) -> None:
        """A prefix that can't be started is a result with the reason, not an exception."""
        result = run_child(ChildJob("x", ("k",), {}), ["/no/such/tool"])
        assert result.proof is None
        assert "/no/such/tool can't be started" in result.problem

    def test_same_import_path(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """The child imports from where this process imports."""
        monkeypatch.syspath_prepend(str(tmp_path))
        script = "import sys; print(sys.path)"
        result = run_child(ChildJob("x", (), {}), [sys.executable, "-c", script], timeout=20)
        assert str(tmp_path) in result.stdout

    def test_usage(self) -> None:
        """Without a job file the child ends with exit code 2 and its usage."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest_roofline.run.gpu.child"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
        assert done.returncode == 2
        assert "usage" in done.stderr


def line(**changes: Any) -> str:
    record = {"nonce": "n", "launched": ["k"], "verified": True, "error": None, **changes}
    return "roofline-child: " + json.dumps(record) + "\n"


class TestProof:
    def test_right(self) -> None:
        """One line with the right nonce among other output is the proof."""
        assert read_proof("words\n" + line() + "more\n", "n") == (Proof(("k",), True, None), "")

    @pytest.mark.parametrize(
        ("stdout", "problem"),
        [
            ("", "0 lines of proof"),
            (line() + line(), "2 lines of proof"),
            (line(nonce="old"), "nonce 'old'"),
            (line()[:40] + "\n", "can't be read"),
            ("roofline-child: []\n", "can't be read"),
            ("roofline-child: {}\n", "can't be read"),
            (line(launched="k"), "wrong type"),
            (line(verified="yes"), "wrong type"),
            (line(error=1), "wrong type"),
        ],
    )
    def test_wrong(self, stdout: str, problem: str) -> None:
        """Anything but exactly one whole line of this run is no proof, and the problem is told."""
        proof, told = read_proof(stdout, "n")
        assert proof is None
        assert problem in told
