"""Writes the code of barriers, fences, traps, and of hints that change nothing."""

from __future__ import annotations

from ...build.ptx.flow import has_result
from ...build.ptx.syntax import SINK, Instr
from .analysis import opens_for_all
from .writer import Emit, Writer, emits

ORDER: dict[str, Emit] = {}


@emits(ORDER, "bar", "barrier")
def _bar(w: Writer, item: Instr) -> None:
    mods = item.mods
    if "warp" in mods:
        w.lines.append(f"x.barriers.warp({w.site()}, {w.use(item.operands[0], 'u4')}, m)")
    elif "cluster" in mods:
        w.lines.append(f"x.barriers.cluster({w.site()}, {'arrive' in mods}, m)")
    elif "red" in mods:
        target, *_, p = item.operands
        op = next(m for m in mods if m in ("popc", "and", "or"))
        if opens_for_all(item):
            w.lines.append("if m is None: x.barriers.block()")
        call = f"x.barriers.reduce({op!r}, {w.use(p, '?')}, m)"
        w.define(target, call, "u4" if op == "popc" else "?")
    else:
        number, *count = item.operands
        threads = w.use(count[0], "u4") if count else "None"
        if "arrive" in mods:
            w.lines.append(f"x.barriers.arrive({w.site()}, {w.use(number, 'u4')}, {threads}, {w.guard})")
        elif opens_for_all(item):
            w.lines.append("if m is None: x.barriers.block()")


@emits(ORDER, "membar", "fence")
def _fence(w: Writer, item: Instr) -> None:
    scope = {"gl", "gpu", "sys", "cluster"} & set(item.mods)
    if scope or item.mods == ("fence", "acq_rel"):
        w.lines.append(f"x.memory.fence({w.guard})")


@emits(
    ORDER, "prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "pmevent", "griddepcontrol", "setmaxnreg"
)
def _nothing(w: Writer, item: Instr) -> None:
    """Hints change no result."""


@emits(ORDER, "trap", "brkpt")
def _trap(w: Writer, item: Instr) -> None:
    w.lines.append(f"x.trap({w.site()}, {w.guard})")


@emits(ORDER, "mbarrier")
def _mbarrier(w: Writer, item: Instr) -> None:
    what, operands = item.mods[1], list(item.operands)
    if any(m.startswith("shared::cluster") for m in item.mods):
        raise w.refused()
    target = operands.pop(0) if has_result(item) else SINK
    if what not in ("init", "inval", "arrive", "test_wait", "try_wait") or "expect_tx" in item.mods:
        raise w.refused()
    site, address = w.site("shared", operands[0]), w.address(operands[0], "shared")
    if what in ("test_wait", "try_wait"):
        parity = "parity" in item.mods
        value = w.use(operands[1], "u4" if parity else "u8")
        w.define(target, f"x.mbarriers.test({site}, {address}, {value}, {parity}, {w.guard})", "?")
    elif what == "arrive":
        count = w.use(operands[1], "u4") if len(operands) > 1 else "None"
        w.define(target, f"x.mbarriers.arrive({site}, {address}, {count}, {w.guard})", "u8")
    else:
        count = w.use(operands[1], "u4") if len(operands) > 1 else w.constant(0, "u4")
        w.lines.append(f"x.mbarriers.init({site}, {address}, {count}, {w.guard})")
