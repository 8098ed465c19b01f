"""What is kept of a benchmark: one typed record. Its fields name the keys of pytest-benchmark's extra_info."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..errors import BaselineError

Value = float | int | str | bool | None
COUNT, EXTENT, REASON, COALESCING = "count.", "extent.", ".reason", ".coalescing_percent"
SEPARATOR = ", "
KERNELS = "; "  # between kernels: the arguments of a template have commas


def key(unit: str, doc: str, default: Any = None) -> Any:
    """A field of a record, with its unit ("" where it has none) and what it means."""
    metadata = {"unit": unit, "doc": doc}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class LaunchRecord:
    """One launch of a benchmark; its keys are KERNEL.name, and those of its counters count.KERNEL.name."""

    kernel: str
    registers: int | None = key("", "registers a thread, as compiled")
    spill_bytes: int | None = key("bytes", "spill stores and loads a thread")
    stack_bytes: int | None = key("bytes", "local memory a thread")
    shared_bytes: int | None = key("bytes", "static and dynamic shared memory a block")
    blocks_per_sm: int | None = key("", "blocks that an SM holds at once")
    occupancy_percent: float | None = key("%", "warps resident on an SM, of those it has room for")
    occupancy_limit: str | None = key("", "what stops one more block")
    waves: float | None = key("", "blocks of the grid over blocks resident at once")
    sol_us: float | None = key("us", "speed of light of the launch")
    sol_bound: str | None = key("", "the ceiling that binds it")
    coalescing_percent: Mapping[str, float] = key(
        "%", "by array: distinct bytes a warp of the bytes of its sectors", {}
    )
    counters: Mapping[str, int] = key(
        "",
        "counts of the whole grid, simulated: ARRAY.requests, .bytes, .sectors, shared.wavefronts, issued.CLASS (warp "
        "instructions), special_lanes",
        {},
    )


@dataclass(frozen=True)
class Record:
    """One benchmark: what ran, how long it took or would take at least, and what qualifies the number.

    Numbers are finite; what could not be read or was not measured is None.
    """

    evidence: str = key("", "measured or simulated", "")
    label: str = key("", "what a modelled time is, empty for a measured one", "")
    operator: str = key("", "what is computed", "")
    variant: str = key("", "the implementation", "")
    shape: str = key("", "the extents, short", "")
    extents: Mapping[str, int] = key("", "each extent, under extent.NAME", {})
    dtype: str = key("", "type of the elements", "")
    state: str = key("", "L2 before each sample: cold or warm", "")
    median_us: float | None = key("us", "median, overhead taken off; simulated: the speed of light")
    median_error_percent: float | None = key("%", "standard error of the median, as reached")
    event_overhead_us: float | None = key("us", "what was taken off each sample")
    host_late_percent: float | None = key("%", "samples in which the device waited for the host")
    bytes_moved: int | None = key("bytes", "what the variant must read and write if no cache serves anything")
    bytes_per_element: float | None = key("bytes", "bytes moved for each element of the largest output")
    moved: str | None = key("", "the bytes moved, in words")
    gbs: float | None = key("GB/s", "bytes moved over the time")
    mbu_percent: float | None = key("%", "GB/s of the peak")
    peak_gbs: float | None = key("GB/s", "theoretical peak bandwidth of the GPU")
    peak_source: str | None = key("", "where the peak is from")
    at_peak_us: float | None = key("us", "bytes moved at the peak")
    sol_us: float | None = key("us", "speed of light: the least time by the model")
    sol_bound: str | None = key("", "the ceiling that binds it")
    sol_percent: float | None = key("%", "speed of light over the measured time")
    model_dram_read_bytes: int | None = key("bytes", "DRAM reads by the model of the L2 cache")
    model_dram_written_bytes: int | None = key("bytes", "DRAM writes by the model of the L2 cache")
    model_dram_per_element: float | None = key("bytes", "both for each element of the largest output")
    copy_gbs: float | None = key("GB/s", "device-to-device copy of the footprint")
    copy_percent_of_peak: float | None = key("%", "that copy of the peak")
    baseline: str | None = key("", "the operator's first variant")
    speedup: float | None = key("", "the baseline's time over this one, if it ran before")
    speedup_valid: bool | None = key("", "false where the baseline had help from L2")
    ideal_speedup: float | None = key("", "the same by bytes moved")
    footprint_bytes: int | None = key("bytes", "all distinct arrays among those moved")
    l2_bytes: int | None = key("bytes", "the GPU's L2 cache")
    reuse: str | None = key("", "repeated reads with their reuse distances")
    notes: tuple[str, ...] = key("", "what qualifies the number", ())
    metric_valid: bool | None = key("", "false where bandwidth means nothing: fits L2, over 100 %, reuse in L2")
    max_error: float | None = key("", "largest absolute error of the check")
    max_error_of_tolerance: float | None = key("", "largest error as a share of what was allowed")
    not_checked: str | None = key("", "why the answer was not checked, where it was not")
    registers: int | None = key("", "the most of all launches")
    spill_bytes: int | None = key("bytes", "the most of all launches")
    stack_bytes: int | None = key("bytes", "the most of all launches")
    blocks_per_sm: int | None = key("", "the least of all launches")
    occupancy_percent: float | None = key("%", "the least of all launches")
    waves: float | None = key("", "the least of all launches")
    dram_read_bytes: float | None = key("bytes", "as ncu counts them (--roofline-counters)")
    dram_written_bytes: float | None = key("bytes", "as ncu counts them")
    dram_per_element: float | None = key("bytes", "both for each element of the largest output")
    l2_sectors: float | None = key("", "32-byte sectors through L2, as ncu counts them")
    ncu_us: float | None = key("us", "duration by ncu")
    gpu: str = key("", "name of the GPU", "")
    arch: str = key("", "its architecture", "")
    driver: str | None = key("", "version of the driver")
    driver_cuda: str | None = key("", "CUDA version of the driver")
    cupy: str | None = key("", "version of CuPy")
    compiler: str = key("", "the compiler and its version", "")
    sm_clock_mhz: float | None = key("MHz", "SM clock after the run")
    memory_clock_mhz: float | None = key("MHz", "memory clock after the run")
    power_limit_w: float | None = key("W", "power limit")
    throttle: str | None = key("", 'reasons that lowered the clocks, or "none"')
    launches: tuple[LaunchRecord, ...] = ()

    @property
    def case(self) -> str:
        return f"{self.variant} {self.shape}"

    @property
    def elements(self) -> float:
        """Elements of the largest output."""
        return (self.bytes_moved or 0) / (self.bytes_per_element or 1)

    def extra_info(self) -> dict[str, Value]:
        """The keys and values for pytest-benchmark: finite Python numbers, texts, booleans or null.

        A number that was not finite is null, with the reason beside it: JSON has neither.
        """
        found: dict[str, Value] = {}
        for one in plain_fields(Record):
            value = getattr(self, one.name)
            if one.name == "extents":
                found |= {f"{EXTENT}{name}": extent for name, extent in value.items()}
            else:
                found |= finite(one.name, SEPARATOR.join(value) if isinstance(value, tuple) else value)
        kernels = [launch.kernel for launch in self.launches]
        found["kernels"] = KERNELS.join(kernels)
        for name, launch in zip(labels(kernels), self.launches, strict=True):
            found |= _launch_info(name, launch)
        return found

    @classmethod
    def read(cls, info: Any) -> Record:
        """The record that :meth:`extra_info` wrote.

        Errors: :class:`BaselineError` with the key that is missing or of another type.
        """
        if not isinstance(info, Mapping):
            raise BaselineError(f"extra_info is a {type(info).__name__}, wanted an object with the keys of a record")
        values: dict[str, Any] = {}
        for one in plain_fields(Record):
            if one.name == "extents":
                values["extents"] = _whole_numbers(EXTENT, info)
                continue
            values[one.name] = _read(one, one.name, info)
        kernels = [name for name in str(info.get("kernels") or "").split(KERNELS) if name]
        launches = (_launch_of(kernel, name, info) for kernel, name in zip(kernels, labels(kernels), strict=True))
        return cls(**values, launches=tuple(launches))

    def counters(self) -> dict[str, int]:
        """Exact counts by KERNEL.name."""
        names = labels([one.kernel for one in self.launches])
        return {
            f"{name}.{what}": number
            for name, one in zip(names, self.launches, strict=True)
            for what, number in one.counters.items()
        }

    def replace(self, **changes: Any) -> Record:
        return dataclasses.replace(self, **changes)


def plain_fields(of: type) -> Iterator[dataclasses.Field[Any]]:
    """The fields that are keys of their own."""
    return (one for one in fields(of) if one.metadata and one.name not in ("counters", "coalescing_percent"))


def reference() -> list[tuple[str, str, str]]:
    """Every key with its unit and what it means, in order: what the documentation's table is made of."""
    rows = [
        ("extent.NAME" if one.name == "extents" else one.name, one.metadata["unit"], one.metadata["doc"])
        for one in plain_fields(Record)
    ]
    rows.append(("kernels", "", "the launches, in order"))
    for one in fields(LaunchRecord):
        if one.metadata:
            name = {"counters": f"{COUNT}KERNEL.NAME", "coalescing_percent": "KERNEL.ARRAY.coalescing_percent"}
            rows.append((name.get(one.name, f"KERNEL.{one.name}"), one.metadata["unit"], one.metadata["doc"]))
    return rows


def finite(name: str, value: Any) -> dict[str, Value]:
    """``value`` under ``name``; a number that is not finite as None, with the reason beside it.

    NumPy scalars become Python numbers: pytest-benchmark would write them as the string "UNSERIALIZABLE".
    """
    plain: Any = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {name: None, f"{name}{REASON}": f"was {plain!r}"}
    return {name: plain}


def labels(kernels: Sequence[str]) -> list[str]:
    """What the keys of each launch begin with: the kernel's name, "scan#2" where it is launched for the second time."""
    return [
        f"{kernel}#{1 + kernels[:at].count(kernel)}" if kernel in kernels[:at] else kernel
        for at, kernel in enumerate(kernels)
    ]


def _launch_info(label: str, launch: LaunchRecord) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for one in plain_fields(LaunchRecord):
        found |= finite(f"{label}.{one.name}", getattr(launch, one.name))
    for name, percent in launch.coalescing_percent.items():
        found |= finite(f"{label}.{name}{COALESCING}", percent)
    return found | {f"{COUNT}{label}.{name}": number for name, number in launch.counters.items()}


def _launch_of(kernel: str, label: str, info: Mapping[str, Any]) -> LaunchRecord:
    values = {one.name: _read(one, f"{label}.{one.name}", info) for one in plain_fields(LaunchRecord)}
    prefix, coalescing = f"{label}.", {}
    for name, value in info.items():
        if name.startswith(prefix) and name.endswith(COALESCING):
            coalescing[name[len(prefix) : -len(COALESCING)]] = _checked("float | None", name, value)
    counters = _whole_numbers(f"{COUNT}{label}.", info)
    return LaunchRecord(kernel, **values, coalescing_percent=coalescing, counters=counters)


def _whole_numbers(prefix: str, info: Mapping[str, Any]) -> dict[str, int]:
    """The values of all keys that begin with ``prefix``, by the rest of the key."""
    found = {name: value for name, value in info.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): _checked("int", name, value) for name, value in found.items()}


# By the annotation of a field: what a value read from JSON may be.
ALLOWED: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "int | None": (int, type(None)),
    "float | None": (int, float, type(None)),
    "str | None": (str, type(None)),
    "bool | None": (bool, type(None)),
    "tuple[str, ...]": (str,),
}


def _read(one: dataclasses.Field[Any], name: str, info: Mapping[str, Any]) -> Any:
    if name not in info:
        raise BaselineError(f"extra_info has no {name!r}: it is not of this version; save a new baseline")
    value = _checked(str(one.type), name, info[name])
    if str(one.type).startswith("tuple"):
        return tuple(part for part in value.split(SEPARATOR) if part)
    return value


def _checked(kind: str, name: str, value: Any) -> Any:
    allowed = ALLOWED[kind]
    boolean = isinstance(value, bool) and bool not in allowed
    if not isinstance(value, allowed) or boolean or (isinstance(value, float) and not math.isfinite(value)):
        raise BaselineError(f"extra_info has {value!r} for {name!r}, wanted {kind}")
    return value
