"""Reads what compute-sanitizer wrote and decides what it is worth: clean, findings, or not checked.

Lenient with the text of a finding, which differs between versions, and strict with everything that a clean verdict
stands on: a line that is not understood is never taken for a good sign.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field

from ..run.device import NOT_CHECKED
from ..run.gpu.child import ChildResult, Proof

CLEAN, FINDINGS = "clean", "findings"
ERROR_EXIT_CODE = 86  # what the sanitizer returns for errors; no exit code of Python or of the child
PREFIX = "========="
TAIL = 40
NO_ATTACH = "terminated before first instrumented API call"
OLD_TOOL = (
    " (the tool did not attach: it does not fit the driver, or can't inject into a process here; "
    "the package nvidia-cuda-sanitizer-api for CUDA 13 is known to work)"
)

RACE_SUMMARY = re.compile(r"RACECHECK SUMMARY: ([\d,]+) hazards? displayed \(([\d,]+) errors?, ([\d,]+) warnings?\)")
ERROR_SUMMARY = re.compile(r"ERROR SUMMARY: ([\d,]+) errors?")

SEVERITY = r"(?:(?P<severity>error|warn(?:ing)?|info|fatal) ?: ?)?(?:\([^)]*\) ?)?"
KINDS = {
    "race": rf"{SEVERITY}(?:race reported between|potential \w+ hazard detected)",
    "memory": r"(?:potential )?invalid |malloc/free error|deadlock detected|leaked ",
    "uninitialised": r"uninitialized __\w+__ |host api (?:uninitialized )?memory access error",
    "barrier": r"barrier error detected",
}
HEADS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in KINDS.items()}
API_ERROR = re.compile(r"Program hit ")

ACCESS = re.compile(
    r"(?P<access>Write|Read|Atomic)\s+(?:access|Thread \((?P<thread>[\d, ]+)\)).*?\s+at\s+(?P<where>.*?)"
    r"(?:\s*\[(?P<hazards>[\d,]+) hazards?\])?$"
)
AT = re.compile(r"at (?P<where>.+)$")
BY_THREAD = re.compile(r"by thread \((?P<thread>[\d, ]+)\) in block \((?P<block>[\d, ]+)\)")
IN_BLOCK = re.compile(r"in block \((?P<block>[\d, ]+)\)")
FRAME = re.compile(r"Device Frame: ?(?P<where>.+)$")
WHERE = re.compile(r"(?P<kernel>.+?)[+:](?P<offset>0x[0-9a-f]+)(?: in (?P<file>.+?)(?::(?P<line>\d+))?)?$")
OLD_WHERE = re.compile(r"(?P<offset>0x[0-9a-f]+) in (?:(?P<file>.+?):(?P<line>\d+):)?(?P<kernel>.+)$")
NOISE = re.compile(r"Host Frame|Saved host backtrace|\s+in /")


@dataclass(frozen=True)
class Place:
    """One side of a finding; what the report did not say is empty or None. ``kernel`` is the function it names."""

    access: str
    kernel: str
    offset: str = ""
    file: str = ""
    line: int | None = None
    thread: str = ""
    block: str = ""

    def __str__(self) -> str:
        function = (self.kernel or "?") + (f"+{self.offset}" if self.offset else "")
        source = f" in {self.file}" + (f":{self.line}" if self.line is not None else "") if self.file else ""
        thread = f", thread ({self.thread})" if self.thread else ""
        block = f", block ({self.block})" if self.block else ""
        return f"{self.access or 'at'} {function}{source}{thread}{block}"


@dataclass(frozen=True)
class Finding:
    """One defect: ``kind`` is "race", "memory", "uninitialised" or "barrier"; ``hazards`` 0 where none are counted."""

    kind: str
    severity: str
    message: str
    places: tuple[Place, ...] = ()
    hazards: int = 0
    frame: str = ""

    @property
    def kernel(self) -> str:
        """The kernel: the outermost device frame, else the function of the first place."""
        return self.frame or next((place.kernel for place in self.places), "")

    def sources(self) -> frozenset[tuple[str, int | None]]:
        """The source lines of all places: the part of a race that does not depend on the schedule."""
        return frozenset((place.file, place.line) for place in self.places)

    def __str__(self) -> str:
        count = f" [{self.hazards} hazards]" if self.hazards else ""
        return "\n".join([f"{self.severity}: {self.message}{count}", *(f"    {place}" for place in self.places)])


@dataclass
class Parsed:
    """A sanitizer's text, line by line, in what it means. ``counts`` holds each right summary's numbers."""

    findings: list[Finding] = field(default_factory=list)
    api_errors: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    counts: list[tuple[int, ...]] = field(default_factory=list)
    bad_summaries: list[str] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    banner: bool = False


@dataclass(frozen=True)
class Report:
    """The result of one check. ``displayed``, ``errors``, ``warnings`` are the summary's numbers, None without one."""

    which: str
    subject: str
    verdict: str
    reason: str
    findings: tuple[Finding, ...] = ()
    displayed: int | None = None
    errors: int | None = None
    warnings: int | None = None
    exit_code: int | None = None
    log: str = ""

    def __str__(self) -> str:
        lines = [f"{self.which} of {self.subject}: {self.verdict}" + (f": {self.reason}" if self.reason else "")]
        told: dict[object, Finding] = {}
        for finding in sorted(self.findings, key=lambda finding: -finding.hazards):
            told.setdefault((finding.kind, finding.severity, finding.kernel, finding.sources()), finding)
        lines += [str(finding) for finding in told.values()]
        if self.verdict != CLEAN and self.log:
            lines += [f"--- the last {TAIL} lines of the log, exit code {self.exit_code} ---"]
            lines += self.log.rstrip().splitlines()[-TAIL:]
        return "\n".join(lines)


def parse(which: str, text: str) -> Parsed:
    """Sort the lines of ``text``, the log of tool ``which``. What is not understood is kept apart, in ``other``."""
    parsed = Parsed()
    block: list[str] = []
    for raw in text.splitlines():
        line = raw.strip()
        if not line.startswith(PREFIX):
            parsed.stray += [line] if line else []  # the program's own output is not in the tool's log
            continue
        body = line[len(PREFIX) :]
        if body.startswith("   ") and block:
            block.append(body.strip())
            continue
        _sort(which, block, parsed)
        block = [body.strip()]
    _sort(which, block, parsed)
    return parsed


def _sort(which: str, block: list[str], parsed: Parsed) -> None:
    """File one head line and the indented lines under it."""
    head = block[0] if block else ""
    kind = next((kind for kind, pattern in HEADS.items() if pattern.match(head)), None)
    if not head:
        parsed.stray += block[1:]
        return
    if head == "COMPUTE-SANITIZER":
        parsed.banner = True
        parsed.stray += block[1:]
    elif kind:
        parsed.findings.append(_finding(kind, block))
    elif "SUMMARY" in head:
        match = (RACE_SUMMARY if which == "racecheck" else ERROR_SUMMARY).fullmatch(head)
        if match:
            parsed.counts.append(tuple(int(number.replace(",", "")) for number in match.groups()))
        else:
            parsed.bad_summaries.append(head)
    elif API_ERROR.match(head):
        parsed.api_errors.append(head)
    else:
        parsed.other.append(head)  # trouble of the tool's own, or something that this parser doesn't know


def _finding(kind: str, block: list[str]) -> Finding:
    match = re.match(SEVERITY, block[0], re.IGNORECASE)
    named = ((match and match["severity"]) or "error").lower()
    places: list[Place] = []
    message, hazards, frame = [re.sub(rf"^{SEVERITY}", "", block[0], count=1, flags=re.IGNORECASE)], 0, ""
    named_block = IN_BLOCK.search(block[0])
    in_block = named_block["block"] if named_block else ""
    for index, line in enumerate(block):
        if match := ACCESS.search(line):
            where = _place(match["where"], match["access"], match["thread"] or "")
            places.append(dataclasses.replace(where, block=in_block))
            hazards += int((match["hazards"] or "0").replace(",", ""))
        elif match := FRAME.match(line):
            frame = _place(match["where"], "").kernel
        elif match := BY_THREAD.search(line):
            if places:
                places[-1] = dataclasses.replace(places[-1], thread=match["thread"], block=match["block"])
        elif index and (match := AT.match(line)):
            places.append(_place(match["where"], _access(block[0])))
        elif index and not NOISE.search(line):
            message.append(line)
    return Finding(kind, {"warn": "warning"}.get(named, named), "; ".join(message), tuple(places), hazards, frame)


def _access(head: str) -> str:
    match = re.search(r"\b(write|read|atomic)\b", head, re.IGNORECASE)
    return match[1].capitalize() if match else ""


def _place(where: str, access: str, thread: str = "") -> Place:
    match = OLD_WHERE.match(where) or WHERE.match(where)
    if not match:
        return Place(access, where, thread=thread)
    line = match["line"]
    return Place(access, match["kernel"], match["offset"], match["file"] or "", int(line) if line else None, thread)


def judge(which: str, subject: str, launches: tuple[str, ...], text: str, child: ChildResult) -> Report:
    """The verdict on one run: ``text`` is the sanitizer's, ``child`` how the process ended that it watched.

    Any defect is "findings", whatever else went wrong. "clean" needs everything at once: one right summary that says
    zero, nothing printed that is not understood, exit code 0, and the child's proof that all ``launches`` ran.
    """
    parsed = parse(which, text)
    numbers = parsed.counts[0] if parsed.counts else None
    defects = max((max(counts) for counts in parsed.counts), default=0)
    if which != "racecheck":  # the others count failed API calls and the program's exit code too, which are no defects
        defects -= len(parsed.api_errors) + len(parsed.other)
    if parsed.findings or defects > 0:
        verdict, reason = FINDINGS, _count(parsed, numbers)
    else:
        reason = _why_not(parsed, child, launches)
        verdict = NOT_CHECKED if reason else CLEAN
    race = numbers if which == "racecheck" and numbers else None
    return Report(
        which,
        subject,
        verdict,
        reason,
        tuple(parsed.findings),
        displayed=numbers[0] if numbers else None,
        errors=race[1] if race else numbers[0] if numbers else None,
        warnings=race[2] if race else None,
        exit_code=child.returncode,
        log="\n".join(part for part in (text, child.stdout, child.stderr) if part.strip()),
    )


def _count(parsed: Parsed, numbers: tuple[int, ...] | None) -> str:
    kinds = sorted({finding.kind for finding in parsed.findings})
    said = f"the summary says {numbers[0]}" if numbers else "no summary"
    return f"{len(parsed.findings)} reports ({', '.join(kinds) or 'none that is understood'}), {said}"


def _why_not(parsed: Parsed, child: ChildResult, launches: tuple[str, ...]) -> str:
    """The first reason why a run without a finding is no clean run; empty if it is one."""
    proof = child.proof
    error = proof.error if proof and proof.error else ""
    tool_said = "; ".join(parsed.other) + (OLD_TOOL if NO_ATTACH in "".join(parsed.other) else "")
    api_errors = "; ".join(parsed.api_errors[:3])
    reasons = [
        (child.timed_out, "it did not end within its time limit and was killed"),
        (api_errors, f"a CUDA call failed, which is no finding of this tool: {api_errors}"),
        (error, f"the program under the sanitizer failed: {error}"),
        (tool_said, f"the sanitizer said: {tool_said}"),
        (parsed.bad_summaries, f"a summary can't be read: {'; '.join(parsed.bad_summaries)}"),
        (not parsed.counts, "the sanitizer printed no summary" + (f" ({child.problem})" if child.problem else "")),
        (len(parsed.counts) > 1, f"the sanitizer printed {len(parsed.counts)} summaries, wanted exactly one"),
        (child.returncode, f"exit code {child.returncode} although the summary says zero"),
        (proof is None, child.problem),
        (proof and proof.launched != launches, _launched(proof, launches)),
        (proof and proof.verified is False, "the answer was wrong"),
        (not parsed.banner, "the sanitizer's own first line is missing"),
        (parsed.stray, f"the sanitizer's log has lines that are not understood: {'; '.join(parsed.stray[:3])}"),
    ]
    return next((reason for wrong, reason in reasons if wrong), "")


def _launched(proof: Proof | None, launches: tuple[str, ...]) -> str:
    ran = ", ".join(proof.launched) if proof else ""
    return f"the child launched {ran or 'nothing'}, declared are {', '.join(launches)}"
