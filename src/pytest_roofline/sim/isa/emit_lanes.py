"""Writes the code of instructions by which the lanes of a warp work together: exchange, votes, matrices."""

from __future__ import annotations

from ...build.ptx.syntax import Instr, Pair, Vec
from .operation import DTYPES
from .tensor import mma, shape_of
from .writer import Emit, Writer, emits

LANES: dict[str, Emit] = {}


@emits(LANES, "shfl")
def _shfl(w: Writer, item: Instr) -> None:
    target, value, lane, clamp, mask = item.operands
    args = ", ".join(w.use(o, "u4") for o in (value, lane, clamp, mask))
    w.lines.append(f"l = x.warp.shuffle({w.site()}, {item.mods[2]!r}, {args}, m)")
    if isinstance(target, Pair):
        w.define(target.first, "l[0]", "u4")
        w.define(target.second, "l[1]", "?")
    else:
        w.define(target, "l[0]", "u4")


@emits(LANES, "vote")
def _vote(w: Writer, item: Instr) -> None:
    target, p, mask = item.operands
    kind = "u4" if item.mods[2] == "ballot" else "?"
    w.define(target, f"x.warp.vote({w.site()}, {item.mods[2]!r}, {w.use(p, '?')}, {w.use(mask, 'u4')}, m)", kind)


@emits(LANES, "match")
def _match(w: Writer, item: Instr) -> None:
    target, value, mask = item.operands
    kind = DTYPES[item.mods[-1]]
    w.lines.append(f"l = x.warp.match({w.site()}, {item.mods[1]!r}, {w.use(value, kind)}, {w.use(mask, 'u4')}, m)")
    first = target.first if isinstance(target, Pair) else target
    w.define(first, "l[0]", "u4")
    if isinstance(target, Pair):
        w.define(target.second, "l[1]", "?")


@emits(LANES, "redux")
def _redux(w: Writer, item: Instr) -> None:
    target, value, mask = item.operands
    kind = DTYPES[item.mods[-1]]
    if kind == "f4":
        raise w.refused()
    call = f"x.warp.redux({w.site()}, {item.mods[2]!r}, {w.use(value, kind)}, {w.use(mask, 'u4')}, m)"
    w.define(target, call, kind)


@emits(LANES, "elect")
def _elect(w: Writer, item: Instr) -> None:
    target, mask = item.operands
    w.lines.append(f"l = x.warp.elect({w.site()}, {w.use(mask, 'u4')}, m)")
    assert isinstance(target, Pair)
    w.define(target.first, "l[0]", "u4")
    w.define(target.second, "l[1]", "?")


@emits(LANES, "activemask")
def _activemask(w: Writer, item: Instr) -> None:
    w.define(item.operands[0], f"x.warp.active({w.guard})", "u4")


@emits(LANES, "ldmatrix", "stmatrix")
def _matrix(w: Writer, item: Instr) -> None:
    load = item.mods[0] == "ldmatrix"
    registers, address = item.operands if load else item.operands[::-1]
    if "m8n8" not in item.mods or "b16" not in item.mods:
        raise w.refused()
    parts = registers.parts if isinstance(registers, Vec) else (registers,)
    w.lines.append(f"x.warp.full({w.site()}, m)")
    where = f"{w.site('shared', address)}, {w.address(address, 'shared')}"
    if load:
        w.lines.append(f"l = x.matrices.load({where}, {len(parts)}, {'trans' in item.mods}, m)")
        for n, part in enumerate(parts):
            w.define(part, f"l[{n}]", "u4")
    else:
        values = ", ".join(w.use(part, "u4") for part in parts)
        w.lines.append(f"x.matrices.store({where}, ({values},), {'trans' in item.mods}, m)")


@emits(LANES, "mma")
def _mma(w: Writer, item: Instr) -> None:
    target, a, b, c = item.operands[:4]
    w.lines.append(f"x.warp.full({w.site()}, m)")
    known = shape_of(item.mods)
    if known is None or len(item.operands) > 4 or not all(isinstance(o, Vec) for o in (target, a, b, c)):
        raise w.refused()
    assert isinstance(target, Vec)
    groups = ", ".join(
        "(" + "".join(f"{w.use(p, 'u4')}, " for p in o.parts) + ")" for o in (a, b, c) if isinstance(o, Vec)
    )
    w.scope["mma"] = mma
    w.lines.append(f"l = mma({item.mods!r}, x.warps, {groups})")
    for n, part in enumerate(target.parts):
        w.define(part, f"l[{n}]", "u4")
