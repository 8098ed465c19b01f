"""Writes the code of arithmetic instructions."""

from __future__ import annotations

from ...build.ptx.syntax import Instr, Pair
from . import fpmode
from .alu import TABLE
from .operation import Alu
from .writer import Writer


def arithmetic(w: Writer, item: Instr, found: Alu) -> None:
    """``item``, which computes ``found``."""
    if "f32x2" in item.mods:
        raise w.refused()
    target, *sources = item.operands
    names = [w.use(source, kind) for source, kind in zip(sources, found.sources, strict=False)]
    if len(sources) != len(found.sources):
        raise w.refused(f"with {len(sources)} operands")
    if found.flag in ("reads", "both"):
        names.append("x.carry")
    call = f"{_function(w, item.opcode, found)}({', '.join(names)})"
    if found.flag in ("writes", "both"):
        w.lines.append(f"t, carry = {call}")
        w.lines.append("x.carry = carry" + (" if q is None else pick(q, carry, x.carry)" if item.pred else ""))
        call = "t"
    if isinstance(target, Pair) and item.mods[-1].endswith("x2"):  # setp of two: one predicate for each half
        for part, shift in ((target.first, 0), (target.second, 16)):
            halves = [f"({name} >> {w.constant(shift, 'u4')}).astype('u2')" for name in names[:2]]
            w.define(part, f"{call.partition('(')[0]}({', '.join([*halves, *names[2:]])})", "?")
        return
    if isinstance(target, Pair):  # setp p|q: the second is the comparison negated
        w.lines.append(f"t = {call}")
        w.define(target.first, "t", found.result)
        w.define(target.second, _complement(w, item, names), found.result)
        return
    w.define(target, call, found.result)


def _complement(w: Writer, item: Instr, names: list[str]) -> str:
    if item.mods[0] != "setp":
        raise w.refused("with two results")
    if len(names) == 2:
        return "~t"
    opposite = TABLE["setp"](tuple(m for m in item.mods if m not in ("and", "or", "xor")))
    assert opposite is not None
    plain = f"~{_function(w, item.opcode + '!', opposite)}({names[0]}, {names[1]})"
    sign = {"and": "&", "or": "|", "xor": "^"}[next(m for m in item.mods if m in ("and", "or", "xor"))]
    return f"({plain}) {sign} {names[2]}"


def _function(w: Writer, opcode: str, found: Alu) -> str:
    name = "f_" + "".join(c if c.isalnum() else "_" for c in opcode)
    if name not in w.scope:
        run = found.run
        if found.float32 and "ftz" in opcode.split("."):
            run = run if fpmode.available() else fpmode.flushed(run)
        elif w.flushes and (found.float32 or "f8" in (*found.sources, found.result)):
            run = fpmode.without_flushing(run)
        w.scope[name] = run
    return name
