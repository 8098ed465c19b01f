"""ptxas's report, read: registers, stack, spills, shared and constant memory of each kernel.

NVRTC puts the report into the program log (``--ptxas-options=-v``), nvcc prints it; both are read by the same code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from ..errors import ToolOutputError
from ..hardware.resources import Resources
from .image import Image

FAILURE = re.compile(r"ptxas\b.*?\b(?:fatal|error)\s*:\s*(.+)")
ENTRY = re.compile(r"ptxas .*?Compiling entry function '([^']+)' for '([^']+)'")
PROPERTIES = re.compile(r"ptxas .*?Function properties for (\S+)")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads$")
USED = re.compile(r"ptxas .*?\bUsed (.+)")
CLAUSE = re.compile(
    r"(?:used )?(?P<first>\d+)(?:\+(?P<second>\d+))? "
    r"(?P<what>registers|barriers|bytes (?:smem|lmem|cmem\[\d+\]|cumulative stack size)|textures|samplers|surfaces)"
)


@dataclass
class _Section:
    """The lines between one "Compiling entry function" and the next."""

    kernel: str
    arch: str
    stacks: list[tuple[int, int, int]] = field(default_factory=list)
    used: list[dict[str, int]] = field(default_factory=list)


def parse(log: str) -> dict[str, Resources]:
    """Resources of each entry function in ptxas's report ``log``, by (mangled) name.

    Errors: :class:`ToolOutputError` if ptxas failed, or the report has no entry function, leaves one of its lines
    out, repeats one, or says something this reader does not know. A figure is never made up.
    """
    lines = [line.strip() for line in log.replace("\0", "\n").splitlines()]
    for line in lines:
        if failure := FAILURE.match(line):
            raise ToolOutputError(_explain_failure(line, failure.group(1)))
    found: dict[str, Resources] = {}
    for section in _sections(lines):
        if section.kernel in found:
            raise ToolOutputError(
                f"ptxas's report has entry function {section.kernel} twice; one architecture at a time"
            )
        found[section.kernel] = _resources(section)
    if not found:
        raise ToolOutputError(
            f"ptxas's report names no entry function: {log.strip()[:200] or 'it is empty'!r}. "
            "Is --ptxas-options=-v (nvcc: -Xptxas -v) among the flags, and a __global__ function in the source?"
        )
    return found


def of_kernel(image: Image, kernel: str) -> Resources:
    """The resources of one kernel; :class:`~pytest_roofline.errors.CompileError` if the image has none of that name."""
    return of_image(image)[image.entry(kernel)]


@lru_cache(maxsize=64)  # an image with hundreds of kernels is asked for each of them
def of_image(image: Image) -> Mapping[str, Resources]:
    """Resources of every kernel of ``image``, in its order; :class:`ToolOutputError` if the report lacks one."""
    found = parse(image.log)
    for kernel in image.kernels():
        if kernel not in found:
            raise ToolOutputError(
                f"ptxas's report for {image.name} has no entry for {kernel}; it has {', '.join(found)}"
            )
        if found[kernel].arch != image.arch:
            raise ToolOutputError(
                f"ptxas's report for {image.name} is for {found[kernel].arch}, the image is for {image.arch}"
            )
    return MappingProxyType({kernel: found[kernel] for kernel in image.kernels()})


def _explain_failure(line: str, reason: str) -> str:
    text = f"ptxas failed, so nothing is known of registers, stack or spills: {line}"
    if re.search(r"Unsupported \.version", reason):
        text += ". The PTX is newer than this ptxas: take the ptxas that came with the compiler, or a newer one"
    return text


def _sections(lines: list[str]) -> Iterator[_Section]:
    """Group the report by entry function; figures of other functions stay out."""
    section: _Section | None = None
    function = ""
    for line in lines:
        if entry := ENTRY.match(line):
            if section is not None:
                yield section
            section, function = _Section(entry[1], entry[2]), ""
        elif properties := PROPERTIES.match(line):
            function = properties.group(1)
        elif section is None:
            continue
        elif (stack := STACK.search(line)) and function == section.kernel:
            section.stacks.append((int(stack[1]), int(stack[2]), int(stack[3])))
        elif (used := USED.match(line)) and function == section.kernel:
            section.used.append(_clauses(section.kernel, used.group(1)))
    if section is not None:
        yield section


def _clauses(kernel: str, text: str) -> dict[str, int]:
    """The figures of one "Used ..." line, by what they count; constant banks are added up."""
    figures: dict[str, int] = {}
    for part in text.split(", "):
        clause = CLAUSE.fullmatch(part)
        if clause is None:
            raise ToolOutputError(f"ptxas's report on {kernel} can't be read at {part!r} in {text!r}")
        what = re.sub(r"\[\d+\]", "", clause["what"])
        figures[what] = figures.get(what, 0) + int(clause["first"]) + int(clause["second"] or 0)
    return figures


def _resources(section: _Section) -> Resources:
    for name, lines in (("stack frame and spills", section.stacks), ("used registers", section.used)):
        if len(lines) != 1:
            raise ToolOutputError(
                f"ptxas's report on {section.kernel} for {section.arch} has {len(lines)} lines on {name}, wanted 1; "
                "the log is cut short or mixed up"
            )
    (stack, stores, loads), used = section.stacks[0], section.used[0]
    if "registers" not in used:
        raise ToolOutputError(f"ptxas's report on {section.kernel} for {section.arch} does not say how many registers")
    return Resources(
        kernel=section.kernel,
        arch=section.arch,
        registers=used["registers"],
        # Local memory by any of its names; the cumulative size adds that of functions called and not inlined.
        stack_bytes=max(stack, used.get("bytes cumulative stack size", 0), used.get("bytes lmem", 0)),
        spill_stores=stores,
        spill_loads=loads,
        # A clause that counts nothing is left out of the line.
        shared_bytes=used.get("bytes smem", 0),
        constant_bytes=used.get("bytes cmem", 0),
        barriers=used.get("barriers", 0),
    )
