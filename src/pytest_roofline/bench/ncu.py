"""Memory traffic as the hardware counts it: each variant once more under ncu (Nsight Compute), in one child process.

One pass and no replay (the metrics are few enough), ``--cache-control none`` and ``--clock-control none``: the caches
are in the state that the variant's own launches and the flush before them leave, and no setting of the GPU changes.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ..errors import CountersError
from ..run.gpu.child import ChildResult, Counted, counting_job, run_child
from ..run.gpu.toolkit import toolkits
from .record import Record

NSIGHT = Path("/opt/nvidia/nsight-compute")
REPEATS = 3
START_S, CASE_S = 60.0, 30.0
# Nsight Compute's names; base units are bytes, sectors and nanoseconds.
METRICS = {
    "dram_read": "dram__bytes_read.sum",
    "dram_written": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "nanoseconds": "gpu__time_duration.sum",
}
PERMISSION = "ERR_NVGPUCTRPERM"
HELP = {
    PERMISSION: "this user may not read the GPU's performance counters: run as root (in a container with CAP_SYS_ADMIN)"
    ", or load the driver with NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)",
    "LibraryNotLoaded": "this machine's driver gives no access to performance counters, as in some virtual machines",
}


@dataclass(frozen=True)
class Counters:
    """One launch: bytes that DRAM delivered and took, 32-byte sectors that went through L2, duration."""

    dram_read: float
    dram_written: float
    l2_sectors: float
    nanoseconds: float


def find(environ: Mapping[str, str] = os.environ) -> Path:
    """ncu on the PATH, in the CUDA toolkit or in Nsight Compute's own folder.

    Errors: :class:`CountersError` with where it was looked for and what to install.
    """
    found = shutil.which("ncu", path=environ.get("PATH", ""))
    if found:
        return Path(found)
    for place in _candidates(environ):
        if os.access(place, os.X_OK):
            return place
    raise CountersError(
        "ncu was not found on the PATH, in $CUDA_HOME, $CUDA_PATH, /usr/local/cuda or /opt/nvidia/nsight-compute: "
        "install Nsight Compute (part of the CUDA toolkit) or put it on the PATH"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    for _, root in toolkits(environ):
        if root:
            yield Path(root) / "bin" / "ncu"
    yield from sorted(NSIGHT.glob("*/ncu"), reverse=True)


def count(ncu: Path, suite: Path, cases: Sequence[Counted], device: int = 0) -> list[tuple[Counters, ...]]:
    """For each case the counters of its launches, in order: medians over ``REPEATS`` runs.

    Errors: :class:`CountersError` where ncu could not count, with what it said and what to do.
    """
    job = counting_job(suite, cases, device, REPEATS)
    entries = [name for case in cases for _ in range(1 + REPEATS) for name in _entries(case)]
    with tempfile.TemporaryDirectory(prefix="roofline-") as folder:
        log = Path(folder) / "ncu.csv"
        command = [str(ncu), "--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw"]
        command += ["--print-units", "base", "--metrics", ",".join(METRICS.values())]
        names = sorted({re.escape(name) for name in entries})
        command += ["--kernel-name", f"regex:^({'|'.join(names)})$", "--log-file", str(log)]
        if entries != list(job.launches):  # C++ names
            command += ["--kernel-name-base", "mangled", "--print-kernel-base", "mangled"]
        child = run_child(job, command, START_S + CASE_S * len(cases))
        text = log.read_text(errors="replace") if log.is_file() else ""
    _refuse_failure(child, text)
    assert child.proof is not None
    if child.proof.launched != job.launches:
        raise CountersError(
            f"the child ran {len(child.proof.launched)} of {len(job.launches)} launches; nothing counts"
        )
    found = parse(text, entries)
    results, at = [], 0
    for case in cases:
        size = len(case.build.plan.launches)
        runs = [found[at + size * (1 + n) :][:size] for n in range(REPEATS)]
        results.append(tuple(_medians(same) for same in zip(*runs, strict=True)))
        at += size * (1 + REPEATS)
    return results


def _entries(case: Counted) -> list[str]:
    """The names of the launches as ncu sees them: those in the compiled image."""
    return [launch.image.entry(launch.planned.kernel) for launch in case.build.launches]


def _refuse_failure(child: ChildResult, text: str) -> None:
    for sign, help_ in HELP.items():
        if sign in text or sign in child.stdout or sign in child.stderr:
            raise CountersError(f"ncu counted nothing ({sign}): {help_}")
    said = [line for line in (text + child.stdout).splitlines() if line.startswith("==ERROR==")]
    if child.timed_out:
        raise CountersError("ncu and its child did not end in time and were stopped")
    if child.proof is None:
        raise CountersError(
            f"the child under ncu left no proof ({child.problem}); {' '.join(said) or 'ncu said nothing'}"
        )
    if child.proof.error:
        raise CountersError(f"the child under ncu failed: {child.proof.error}")
    if said or child.returncode:
        raise CountersError(f"ncu ended with exit code {child.returncode}: {' '.join(said) or text[-300:]}")


def parse(text: str, launches: Sequence[str]) -> list[Counters]:
    """ncu's raw CSV as one :class:`Counters` a launch. Errors: :class:`CountersError` if it is not these launches'."""
    start = text.find('"ID"')
    if start < 0:
        raise CountersError(f"ncu's report has no table: {text.strip()[:200] or 'it is empty'!r}")
    rows = [row for row in csv.DictReader(io.StringIO(text[start:])) if row.get("ID")]
    names = [row.get("Kernel Name") for row in rows]
    if names != list(launches):
        raise CountersError(f"ncu reported {len(names)} launches, not the {len(launches)} that were made, or others")
    return [Counters(**{name: _number(row, metric) for name, metric in METRICS.items()}) for row in rows]


def _number(row: Mapping[str, str | None], metric: str) -> float:
    text = (row.get(metric) or "").replace(",", "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise CountersError(f"ncu gave {text or 'nothing'!r} for {metric} of {row.get('Kernel Name')}")
    return value


def _medians(same: Sequence[Counters]) -> Counters:
    return Counters(**{f.name: statistics.median(getattr(one, f.name) for one in same) for f in fields(Counters)})


def counted(record: Record, launches: Sequence[Counters]) -> Record:
    """The record of a benchmark with the sums over its launches."""
    read, written = sum(one.dram_read for one in launches), sum(one.dram_written for one in launches)
    return record.replace(
        dram_read_bytes=read,
        dram_written_bytes=written,
        dram_per_element=(read + written) / record.elements,
        l2_sectors=sum(one.l2_sectors for one in launches),
        ncu_us=sum(one.nanoseconds for one in launches) / 1e3,
    )
