"""The small program that runs one case, or one planted defect, in a process of its own, and the code that starts it.

``python -m pytest_roofline.run.gpu.child JOB.json`` launches what the job file names and prints one line of proof. It
is what compute-sanitizer watches (never pytest itself), and where a kernel that may fault runs without taking the
session's CUDA context with it. Exit code: 0 when the launches ran, 3 when they did not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...build.image import Image, read_image
from ...declare.loading import load
from ...declare.shape import Shape
from ...errors import DeviceError, WrongAnswerError
from ...hardware.dtypes import dtype_of
from ..build import Build
from ..case import Case
from ..device import Device
from ..plan import Plan
from ..run import Run
from .device import CudaDevice, import_cupy
from .flush import Flush

MARK = "roofline-child: "
RAN, DID_NOT_RUN, USAGE, NOT_STARTED = 0, 3, 2, 127
CANARY_THREADS = 64
CANARIES = {kind: f"canary_{kind}" for kind in ("race", "same", "oob", "uninit", "barrier")}


@dataclass(frozen=True)
class ChildJob:
    """What a child is to run: ``label`` for messages, the kernels it must launch, and the fields of the job file."""

    label: str
    launches: tuple[str, ...]
    fields: Mapping[str, Any]

    def without_poison(self) -> ChildJob:
        """The same job with outputs and scratch never written before the launches, as initcheck has to see them."""
        return dataclasses.replace(self, fields={**self.fields, "poison": False})


@dataclass(frozen=True)
class Counted:
    """A build whose memory traffic is to be counted, from a cold or a warm L2 cache."""

    build: Build
    state: str


@dataclass(frozen=True)
class Proof:
    """What the child says of itself: kernels that ran, whether the answer was verified (None: not asked), its error."""

    launched: tuple[str, ...]
    verified: bool | None
    error: str | None


@dataclass(frozen=True)
class ChildResult:
    """How a child ended. ``proof`` is None where there is none to believe; ``problem`` then says why."""

    returncode: int
    stdout: str
    stderr: str
    proof: Proof | None
    problem: str
    timed_out: bool


def case_fields(build: Build) -> dict[str, Any]:
    """What a child needs to build the case again from its images."""
    case = build.plan.case
    return {
        "variant": case.variant.name,
        "extents": dict(case.shape.extents),
        "dtype": case.shape.dtype,
        "images": {source: str(image.file) for source, image in build.images.items()},
    }


def case_job(suite: Path, build: Build, device: int = 0, verify: bool = True, note: str = "") -> ChildJob:
    """A job that runs ``build`` once; ``suite`` is the path of the declaration."""
    fields = {"suite": str(suite.resolve()), **case_fields(build), "device": device, "verify": verify}
    label = str(build.plan.case) + (f" ({note})" if note else "")
    return ChildJob(label, tuple(launch.kernel for launch in build.plan.launches), fields)


def canary_job(kind: str, image: Image, device: int = 0) -> ChildJob:
    """A job that runs one planted defect: "race", "same", "oob", "uninit" or "barrier"."""
    fields = {"canary": kind, "image": str(image.file), "device": device}
    return ChildJob(f"planted defect {kind!r}", (CANARIES[kind],), fields)


def counting_job(suite: Path, cases: Sequence[Counted], device: int = 0, repeats: int = 3) -> ChildJob:
    """A job that runs each case once and then ``repeats`` times from its state of the L2 cache, for a profiler."""
    fields = {
        "suite": str(suite.resolve()),
        "counted": [{**case_fields(case.build), "state": case.state} for case in cases],
        "repeats": repeats,
        "device": device,
    }
    launches = [one.kernel for case in cases for _ in range(1 + repeats) for one in case.build.plan.launches]
    return ChildJob(f"{len(cases)} cases", tuple(launches), fields)


def run_child(job: ChildJob, prefix: Sequence[str] = (), timeout: float = 120.0) -> ChildResult:
    """Run ``job`` in a new process, behind the command ``prefix`` (a sanitizer), for at most ``timeout`` seconds.

    Past the limit the whole process group is killed. Output goes through files: a grandchild that outlives the kill
    could hold a pipe open and hang the reader.
    """
    nonce = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="roofline-") as folder:
        path = Path(folder) / "job.json"
        # A sanitizer may start its target in a process group of its own; the alarm reaches it there.
        path.write_text(json.dumps({**job.fields, "nonce": nonce, "alarm_s": math.ceil(timeout) + 5}))
        command = [*prefix, sys.executable, "-m", "pytest_roofline.run.gpu.child", str(path)]
        out, err = Path(folder) / "stdout", Path(folder) / "stderr"
        with out.open("wb") as out_file, err.open("wb") as err_file:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out_file,
                    stderr=err_file,
                    env=_environment(),
                    start_new_session=True,
                )
            except OSError as error:
                return ChildResult(NOT_STARTED, "", "", None, f"{command[0]} can't be started: {error}", False)
            timed_out = _wait(process, timeout)
        stdout, stderr = out.read_text(errors="replace"), err.read_text(errors="replace")
    proof, problem = read_proof(stdout, nonce)
    return ChildResult(process.returncode, stdout, stderr, proof, problem, timed_out)


def _environment() -> dict[str, str]:
    """This process's environment, with its import path: the declaration must find what it finds here."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, sys.path)))}


def _wait(process: subprocess.Popen[bytes], timeout: float) -> bool:
    """Wait; True if the time limit passed. The group is killed on every way out but a normal end."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        return True
    else:
        return False
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def read_proof(stdout: str, nonce: str) -> tuple[Proof | None, str]:
    """The one line of proof with the right ``nonce``, or None and what is wrong."""
    lines = [line[len(MARK) :] for line in stdout.splitlines() if line.startswith(MARK)]
    if len(lines) != 1:
        return None, f"the child printed {len(lines)} lines of proof, wanted exactly one"
    try:
        record = json.loads(lines[0])
        launched, verified, error = record["launched"], record["verified"], record["error"]
        if record["nonce"] != nonce:
            return None, f"the child's proof carries nonce {record['nonce']!r}, it is not of this run"
    except (ValueError, KeyError, TypeError) as failure:
        return None, f"the child's proof can't be read ({type(failure).__name__}: {failure}): {lines[0][:200]}"
    if not isinstance(launched, list) or verified not in (True, False, None) or not isinstance(error, str | None):
        return None, f"the child's proof has fields of the wrong type: {lines[0][:200]}"
    return Proof(tuple(map(str, launched)), verified, error), ""


class ExactDevice(CudaDevice):
    """A CUDA device without CuPy's memory pool, so that each array is an allocation of exactly its size.

    In a pool's block one past the end of an array is still inside the allocation. Without ``poisoned`` new arrays stay
    unwritten, for initcheck would take the poison for initialisation.
    """

    def __init__(self, index: int, poisoned: bool) -> None:
        import_cupy().cuda.set_allocator(None)
        super().__init__(index)
        self.poisoned = poisoned

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return super().empty(shape, dtype) if self.poisoned else self.cupy.empty(shape, dtype_of(dtype))


def execute(fields: Mapping[str, Any], device: CudaDevice) -> Proof:
    """Run the job on ``device``. Its arrays are gone on return, before CUDA shuts down."""
    if "counted" in fields:
        return _execute_counted(fields, device)
    return _execute_canary(fields, device) if "canary" in fields else _execute_case(fields, device)


def _run_of(suite: str, fields: Mapping[str, Any], device: Device) -> Run:
    """The case of a job file on ``device``, from the images that the job names."""
    declared = load(Path(suite))
    case = Case(declared.variant(fields["variant"]), shape_of(fields), declared)
    images = {source: _image(path) for source, path in fields["images"].items()}
    return Run(device, Build(Plan(case, device.gpu), images), guard=0)


def _execute_counted(fields: Mapping[str, Any], device: CudaDevice) -> Proof:
    flush = Flush(device)
    launched: list[str] = []
    for case in fields["counted"]:
        run = _run_of(fields["suite"], case, device)
        for repeat in range(1 + fields["repeats"]):
            if repeat and case["state"] == "cold":
                flush()
            run.run()
            launched += [step.planned.kernel for step in run.program.steps]
        device.synchronize()
    return Proof(tuple(launched), None, None)


def _execute_case(fields: Mapping[str, Any], device: Device) -> Proof:
    run = _run_of(fields["suite"], fields, device)
    run.run()
    device.synchronize()
    launched = tuple(step.planned.kernel for step in run.program.steps)
    if not fields["verify"]:
        return Proof(launched, None, None)
    try:
        run.verify()
    except WrongAnswerError as error:
        return Proof(launched, False, f"wrong answer: {error}")
    return Proof(launched, True, None)


def _execute_canary(fields: Mapping[str, Any], device: Device) -> Proof:
    kind = fields["canary"]
    kernel = device.load(_image(fields["image"]), CANARIES[kind])
    out = device.upload(np.zeros(CANARY_THREADS, np.float32))
    args = (device.empty((CANARY_THREADS,), "float32"), out) if kind == "uninit" else (out,)
    device.launch(kernel, (1, 1, 1), (CANARY_THREADS, 1, 1), args, 0)
    device.synchronize()
    return Proof((CANARIES[kind],), None, None)


def shape_of(fields: Mapping[str, Any]) -> Shape:
    return Shape(dtype=fields["dtype"], **fields["extents"])


def _image(path: str) -> Image:
    image = read_image(Path(path))
    if image is None:
        raise DeviceError(f"the compiled image {path} is absent or damaged; compile it again")
    return image


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m pytest_roofline.run.gpu.child JOB.json", file=sys.stderr)
        return USAGE
    fields = json.loads(Path(arguments[0]).read_text())
    if hasattr(signal, "alarm"):
        signal.alarm(fields["alarm_s"])
    try:
        uninit = fields.get("canary") == "uninit"
        device = ExactDevice(fields["device"], poisoned=fields.get("poison", True) and not uninit)
        proof = execute(fields, device)
    except Exception as error:  # whatever it was, the parent has to hear of it
        proof = Proof((), None, f"{type(error).__name__}: {error}")
    shape = str(shape_of(fields)) if "extents" in fields else None
    variant = fields.get("variant", fields.get("canary"))
    record = {"nonce": fields["nonce"], "variant": variant, "shape": shape, **dataclasses.asdict(proof)}
    print(MARK + json.dumps(record), flush=True)
    return RAN if proof.launched else DID_NOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
