"""Finds compute-sanitizer and runs its four tools on a small child process.

A clean verdict is believed only in a session in which the tool has found a defect planted for it.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from ..build.cache import cache_directory
from ..build.nvrtc import compile_source
from ..build.source import Source
from ..errors import CompileError, NotCheckedError, SanitizerNotFoundError
from ..run.device import NOT_CHECKED
from ..run.gpu.child import CANARIES, ChildJob, canary_job, run_child
from ..run.gpu.toolkit import toolkits
from .report import CLEAN, ERROR_EXIT_CODE, FINDINGS, PREFIX, Report, judge

NAME = "compute-sanitizer"
WHEEL, OLD_WHEEL = "nvidia-cuda-sanitizer-api", "nvidia-cuda-sanitizer-api-cu12"
NOT_COPIED = ("docs", "include", "x86")  # parts of the wheel that the tool does not need to run
VERSION_LIMIT_S = 30
LIMIT_S = 120.0
AT_A_TIME = 8  # children, each with a CUDA context of some 500 MB

# The lowest severity too: writes of identical data are "info", and "zero hazards" means all. --padding keeps
# allocations apart, for one past the end of an array may otherwise be the start of the next.
FLAGS: dict[str, tuple[str, ...]] = {
    "racecheck": ("--racecheck-report", "all", "--racecheck-detect-level", "info", "--print-level", "info"),
    "memcheck": ("--leak-check", "no", "--report-api-errors", "explicit", "--padding", "4096"),
    "initcheck": (),
    "synccheck": (),
}
# 10000 reports are enough to see each pair of lines; host backtraces show Python's own frames only. Each xdist
# worker runs a sanitizer of its own, and 10 connections is the tool's default for the whole machine.
COMMON_FLAGS = ("--print-limit", "10000", "--show-backtrace", "device", "--max-connections", "128")
PLANTED = {"racecheck": "race", "memcheck": "oob", "initcheck": "uninit", "synccheck": "barrier"}


@dataclass(frozen=True)
class Tool:
    """A compute-sanitizer that answers: its path, its version ("2025.3.1.0") and where it was found."""

    path: Path
    version: str
    origin: str


def find(option: str | None, environ: Mapping[str, str]) -> Tool:
    """Option, $COMPUTE_SANITIZER, PATH, CUDA toolkit, PyPI wheel: the first compute-sanitizer that answers.

    One that was named (option, environment) is taken or refused, never passed over.
    Errors: :class:`SanitizerNotFoundError` with every place that was tried and what to install.
    """
    for origin, named in (("--roofline-sanitizer", option), ("$COMPUTE_SANITIZER", environ.get("COMPUTE_SANITIZER"))):
        if named:
            version = _version(Path(named))
            if isinstance(version, SanitizerNotFoundError):
                raise SanitizerNotFoundError(f"{origin} names {named}, which is no working {NAME}: {version}")
            return Tool(Path(named), version, origin)
    tried = []
    for origin, path in _candidates(environ):
        version = _version(path) if path else SanitizerNotFoundError("not there")
        if path and isinstance(version, str):
            return Tool(path, version, origin)
        tried.append(f"{origin}: {version}")
    raise SanitizerNotFoundError(
        f"{NAME} was not found. Looked for it in: {'; '.join(tried)}. Install it with: pip install {WHEEL} "
        "(part of the extra cuda13; it serves CUDA 12 installations too), or name one with --roofline-sanitizer PATH"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    on_path = shutil.which(NAME, path=environ.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    for origin, root in toolkits(environ):
        places = [Path(root) / "bin" / NAME, Path(root) / NAME / NAME] if root else []
        yield origin, next((place for place in places if place.is_file()), None)
    yield f"the package {WHEEL}", _from_wheel()
    if _distribution(OLD_WHEEL):
        yield f"the package {OLD_WHEEL} (it can't attach to a Python process, exit code 255)", None


def _version(path: Path) -> str | SanitizerNotFoundError:
    try:
        done = subprocess.run(
            [str(path), "--version"], capture_output=True, text=True, timeout=VERSION_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return SanitizerNotFoundError(f"{path} does not run ({error})")
    match = re.search(r"Version (\S+)", done.stdout)
    if done.returncode or not match:
        return SanitizerNotFoundError(f"{path} --version ended with {done.returncode} and told no version")
    return match[1]


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _from_wheel() -> Path | None:
    """The wheel's tool: in place if its files may be run, else from a copy of them in the cache directory."""
    wheel = _distribution(WHEEL)
    if wheel is None:
        return None
    for file in wheel.files or ():
        if file.name == NAME and file.parent.name == NAME:
            place = Path(str(wheel.locate_file(file)))
            programs = [place, *place.parent.glob("TreeLauncher*")]
            if all(os.access(program, os.X_OK) for program in programs):
                return place
            target = cache_directory() / f"sanitizer-{wheel.version}"
            try:
                return _runnable_copy(place.parent, target) / NAME
            except OSError as error:
                raise SanitizerNotFoundError(
                    f"{place} lacks the run bit and can't be copied to {target} ({error}); make its programs runnable "
                    "(chmod +x), or set PYTEST_ROOFLINE_CACHE to a directory that can be written"
                ) from error
    return None


def _runnable_copy(tree: Path, target: Path) -> Path:
    """Copy ``tree`` to ``target`` with the run bits set. Whole or not at all, whoever else does the same."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=target.name))
    try:
        shutil.copytree(tree, temporary / "tree", ignore=shutil.ignore_patterns(*NOT_COPIED))
        for file in (temporary / "tree").iterdir():
            file.chmod(0o755)
        (temporary / "tree").chmod(0o755)
        try:
            (temporary / "tree").rename(target)
        except OSError as error:  # another worker was first, its copy is as good
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def check(tool: Tool, which: str, job: ChildJob, timeout_s: float = LIMIT_S, kernel: str = "") -> Report:
    """Run ``job`` under ``which``: "racecheck", "memcheck", "initcheck" or "synccheck"; at most ``timeout_s`` seconds.

    With ``kernel`` only the launches of that one are looked at: findings may name a device function instead of it.

    Never raises for what the tool or the child does: whatever is not a proof is the verdict "not checked".
    """
    if which == "initcheck":
        job = job.without_poison()
    with tempfile.TemporaryDirectory(prefix="roofline-") as folder:
        log = Path(folder) / "report.txt"  # apart from the child's output, or lines of the two could interleave
        command = [str(tool.path), "--tool", which, "--error-exitcode", str(ERROR_EXIT_CODE)]
        command += ["--kernel-name", f"kernel_name={kernel}"] if kernel else []
        command += [*COMMON_FLAGS, *FLAGS[which], "--log-file", str(log).replace("%", "%%")]
        child = run_child(job, command, timeout_s)
        text = log.read_text(errors="replace") if log.is_file() else ""
    if not text.strip():  # before it can open its log the tool speaks on stdout
        text = "\n".join(line for line in child.stdout.splitlines() if line.lstrip().startswith(PREFIX))
    return judge(which, job.label, job.launches, text, child)


def canary_ok(
    tool: Tool, which: str, arch: str, device: int = 0, timeout_s: float = LIMIT_S, kind: str | None = None
) -> Report:
    """Run the defect planted for ``which`` (or ``kind``): verdict "findings" if it was found, else "not checked"."""
    kind = kind or PLANTED[which]
    try:
        image = compile_source(Source.read(Path(__file__).with_name("canary.cu")), arch)
    except CompileError as error:
        return Report(which, f"planted defect {kind!r}", NOT_CHECKED, f"it does not compile: {error}")
    report = check(tool, which, canary_job(kind, image, device), timeout_s)
    if any(finding.kernel.startswith(CANARIES[kind]) for finding in report.findings):
        return report
    reason = report.reason or "the tool ran and saw nothing"
    return dataclasses.replace(report, verdict=NOT_CHECKED, reason=f"the planted defect was not found: {reason}")


@dataclass
class Sanitizer:
    """One tool on one device for one pytest process. Each planted defect runs once, when first needed."""

    tool: Tool
    arch: str
    device: int = 0
    timeout_s: float = LIMIT_S
    _canaries: dict[str, Report] = field(default_factory=dict)
    _started: list[tuple[str, ChildJob, Future[Report]]] = field(default_factory=list)

    def start(self, jobs: Iterable[tuple[str, ChildJob]]) -> None:
        """Run each (tool, job) in the background. A later :meth:`check` of the same waits for its report.

        A child takes seconds, most of them to start, so that several at a time are no slower than one.
        """
        pool = ThreadPoolExecutor(max(1, min(AT_A_TIME, (os.cpu_count() or 1) // 2)))
        self._started += [(tool, job, pool.submit(check, self.tool, tool, job, self.timeout_s)) for tool, job in jobs]
        pool.shutdown(wait=False)

    def stop(self) -> None:
        """Drop what was started and has not begun, and wait for the rest."""
        futures = [future for _, _, future in self._started]
        self._started.clear()
        wait([future for future in futures if not future.cancel()])

    def _report(self, which: str, job: ChildJob) -> Report:
        for started in self._started:
            if started[:2] == (which, job):
                self._started.remove(started)
                return started[2].result()
        return check(self.tool, which, job, self.timeout_s)

    def canary(self, which: str) -> Report:
        if which not in self._canaries:
            self._canaries[which] = canary_ok(self.tool, which, self.arch, self.device, self.timeout_s)
        return self._canaries[which]

    def check(self, which: str, job: ChildJob) -> Report:
        """:func:`check`, with "clean" only where this session's planted defect was found."""
        report = self._report(which, job)
        if report.verdict != CLEAN:
            return report
        canary = self.canary(which)
        if canary.verdict == FINDINGS:
            return report
        planted = {"racecheck": "race", "memcheck": "overrun", "initcheck": "uninitialised read"}.get(which, "barrier")
        reason = f"planted {planted} not found in this session ({canary.reason})"
        return dataclasses.replace(report, verdict=NOT_CHECKED, reason=reason, log=f"{report.log}\n{canary.log}")


def does_not_compile(which: str, subject: str, error: CompileError) -> Report:
    """The report where the volatile build can't be had, as with struct-typed shared memory in a foreign kernel."""
    return Report(which, subject, NOT_CHECKED, f"the volatile build does not compile: {'; '.join(error.brief)}")


def conclude(report: Report, require_gpu: bool) -> str | None:
    """What a fixture has to do with ``report``: None, the test judges it; text, skip with that reason.

    Errors: :class:`NotCheckedError` for "not checked" where a GPU is required.
    """
    if report.verdict != NOT_CHECKED:
        return None
    if require_gpu:
        raise NotCheckedError(str(report))
    return f"{NOT_CHECKED}: {report.which} of {report.subject}: {report.reason}"
