"""The table of instructions that are not arithmetic: name -> what writes their code.

Memory, exchange between lanes, barriers, copies, matrices. The code calls the chunk, ``x``, with the instruction's
site and the mask of its lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...build.ptx.flow import has_result, space_of
from ...build.ptx.syntax import SINK, Imm, Instr, Mem, Pair, Reg, Sym, Vec
from .analysis import RAW, opens_for_all
from .operation import DTYPES
from .tensor import mma, shape_of

if TYPE_CHECKING:
    from .translate import Translator


Emit = Callable[["Translator", Instr], None]
EMIT: dict[str, Emit] = {}


def emits(*names: str) -> Callable[[Emit], Emit]:
    def add(function: Emit) -> Emit:
        EMIT.update(dict.fromkeys(names, function))
        return function

    return add


@emits("mov")
def _mov(t: Translator, item: Instr) -> None:
    target, source = item.operands
    kind = DTYPES[item.mods[-1]] if item.mods[-1] != "pred" else "?"
    if isinstance(target, Reg):
        canonical = t.canonical[target.name]
        if np.dtype(canonical).itemsize == np.dtype(kind).itemsize and kind != "?":
            kind = canonical  # a copy of what is there, float or bits
    elif isinstance(target, Vec):
        kind = kind.replace("f", "u").replace("i", "u")
    t.define(target, t.use(source, kind), kind)


@emits("cvta")
def _cvta(t: Translator, item: Instr) -> None:
    """Generic addresses: global ones are themselves, shared and local ones lie in windows."""
    target, source = item.operands
    space = space_of(item)
    value = t.use(source, "u8" if item.mods[-1] == "u64" else "u4")
    if space in ("shared", "local"):
        value = f"x.window({value}, {space!r}, {'to' in item.mods})"
    t.define(target, value, "u8" if item.mods[-1] == "u64" else "u4")


@emits("isspacep")
def _isspacep(t: Translator, item: Instr) -> None:
    t.define(item.operands[0], f"x.in_space({t.use(item.operands[1], 'u8')}, {space_of(item)!r})", "?")


def _vector(item: Instr) -> int:
    return next((int(mod[1]) for mod in item.mods if mod in ("v2", "v4", "v8")), 1)


@emits("ld", "ldu")
def _ld(t: Translator, item: Instr) -> None:
    target, address = item.operands[:2]
    space, kind, count = space_of(item), DTYPES[item.mods[-1]], _vector(item)
    raw = RAW[np.dtype(kind).itemsize]
    kind = raw if kind[0] == "f" else kind  # bits: a NaN keeps its payload
    if space == "param":
        assert isinstance(address, Mem)
        if isinstance(address.base, Sym) and address.base.name in t.flat.params:
            at = t.flat.params[address.base.name][0] + address.offset
            parts = target.parts if isinstance(target, Vec) else (target,)
            for n, part in enumerate(parts):
                t.define(part, f"x.parameter({at + n * np.dtype(raw).itemsize}, {raw!r}).view({kind!r})", kind)
            return
        space = "local"  # what a function is given lies among its caller's variables
    volatile = any(m in ("volatile", "relaxed", "acquire", "mmio") for m in item.mods)
    call = f"x.load({t.site(space, address)}, {t.address(address, space)}, {t.guard}, {raw!r}, {count}, {volatile})"
    if "shared::cluster" in item.mods:
        call = call.replace("x.load(", "x.load_cluster(", 1)
    parts = target.parts if isinstance(target, Vec) else (target,)
    t.lines.append(f"l = {call}")
    for n, part in enumerate(parts):
        t.define(part, f"l[{n}]" + (f".view({kind!r})" if raw != kind else ""), kind)


@emits("st")
def _st(t: Translator, item: Instr) -> None:
    if "async" in item.mods or "bulk" in item.mods:
        raise t.refused()
    address, value = item.operands[:2]
    space, kind = space_of(item), DTYPES[item.mods[-1]]
    raw = RAW[np.dtype(kind).itemsize]
    parts = value.parts if isinstance(value, Vec) else (value,)
    values = ", ".join(t.use(part, raw) for part in parts)
    space = "local" if space == "param" else space
    volatile = any(m in ("volatile", "relaxed", "release", "mmio") for m in item.mods)
    name = "store_cluster" if "shared::cluster" in item.mods else "store"
    t.lines.append(
        f"x.{name}({t.site(space, address)}, {t.address(address, space)}, {t.guard}, ({values},), {raw!r}, {volatile})"
    )


@emits("copy")
def _copy(t: Translator, item: Instr) -> None:
    """A parameter between caller and callee, as bytes."""
    to, of, size = item.operands
    assert isinstance(size, Imm)
    raw = RAW.get(size.value, "u1")
    count = size.value // np.dtype(raw).itemsize
    site = t.site("local")
    if isinstance(of, Sym):
        t.lines.append(f"l = x.load({site}, {t.use(of, 'i8')}, {t.guard}, {raw!r}, {count}, True)")
        values = "l"
    else:
        values = f"({t.use(of, raw)},)"
    if isinstance(to, Sym):
        t.lines.append(f"x.store({site}, {t.use(to, 'i8')}, {t.guard}, {values}, {raw!r}, True)")
    else:
        t.define(to, f"{values}[0]", raw)


@emits("atom", "red")
def _atom(t: Translator, item: Instr) -> None:
    base, kind, space = item.mods[0], item.mods[-1], space_of(item)
    operands = list(item.operands)
    target = operands.pop(0) if base == "atom" else SINK
    op = next((m for m in item.mods[1:] if m in ATOMIC_OPS), None)
    if op is None or isinstance(operands[1], Vec) or kind in ("b128",):
        raise t.refused()
    dtype = DTYPES[kind]
    raw = RAW[np.dtype(dtype).itemsize]
    values = [t.use(value, raw if kind in ("f16", "bf16", "f16x2", "bf16x2") else dtype) for value in operands[1:3]]
    values += values[:1] * (2 - len(values))
    site, address = t.site(space, operands[0]), t.address(operands[0], space)
    keep = target != SINK and not (isinstance(target, Reg) and target.name not in t.read)
    t.lines.append(f"t = x.atomic({site}, {address}, {t.guard}, {op!r}, {kind!r}, {values[0]}, {values[1]}, {keep})")
    if keep:
        t.define(target, f"t.view({raw!r})", raw)


ATOMIC_OPS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@emits("shfl")
def _shfl(t: Translator, item: Instr) -> None:
    target, value, lane, clamp, mask = item.operands
    args = ", ".join(t.use(o, "u4") for o in (value, lane, clamp, mask))
    t.lines.append(f"l = x.shuffle({t.site()}, {item.mods[2]!r}, {args}, m)")
    if isinstance(target, Pair):
        t.define(target.first, "l[0]", "u4")
        t.define(target.second, "l[1]", "?")
    else:
        t.define(target, "l[0]", "u4")


@emits("vote")
def _vote(t: Translator, item: Instr) -> None:
    target, p, mask = item.operands
    kind = "u4" if item.mods[2] == "ballot" else "?"
    t.define(target, f"x.vote({t.site()}, {item.mods[2]!r}, {t.use(p, '?')}, {t.use(mask, 'u4')}, m)", kind)


@emits("match")
def _match(t: Translator, item: Instr) -> None:
    target, value, mask = item.operands
    kind = DTYPES[item.mods[-1]]
    t.lines.append(f"l = x.match({t.site()}, {item.mods[1]!r}, {t.use(value, kind)}, {t.use(mask, 'u4')}, m)")
    first = target.first if isinstance(target, Pair) else target
    t.define(first, "l[0]", "u4")
    if isinstance(target, Pair):
        t.define(target.second, "l[1]", "?")


@emits("redux")
def _redux(t: Translator, item: Instr) -> None:
    target, value, mask = item.operands
    kind = DTYPES[item.mods[-1]]
    if kind == "f4":
        raise t.refused()
    call = f"x.redux({t.site()}, {item.mods[2]!r}, {t.use(value, kind)}, {t.use(mask, 'u4')}, m)"
    t.define(target, call, kind)


@emits("elect")
def _elect(t: Translator, item: Instr) -> None:
    target, mask = item.operands
    t.lines.append(f"l = x.elect({t.site()}, {t.use(mask, 'u4')}, m)")
    assert isinstance(target, Pair)
    t.define(target.first, "l[0]", "u4")
    t.define(target.second, "l[1]", "?")


@emits("activemask")
def _activemask(t: Translator, item: Instr) -> None:
    t.define(item.operands[0], f"x.active({t.guard})", "u4")


@emits("bar", "barrier")
def _bar(t: Translator, item: Instr) -> None:
    mods = item.mods
    if "warp" in mods:
        t.lines.append(f"x.warp_barrier({t.site()}, {t.use(item.operands[0], 'u4')}, m)")
    elif "cluster" in mods:
        t.lines.append(f"x.cluster_barrier({t.site()}, {'arrive' in mods}, m)")
    elif "red" in mods:
        target, *_, p = item.operands
        op = next(m for m in mods if m in ("popc", "and", "or"))
        if opens_for_all(item):
            t.lines.append("if m is None: x.barrier()")
        call = f"x.barrier_reduce({op!r}, {t.use(p, '?')}, m)"
        t.define(target, call, "u4" if op == "popc" else "?")
    else:
        number, *count = item.operands
        threads = t.use(count[0], "u4") if count else "None"
        if "arrive" in mods:
            t.lines.append(f"x.arrive({t.site()}, {t.use(number, 'u4')}, {threads}, {t.guard})")
        elif opens_for_all(item):
            t.lines.append("if m is None: x.barrier()")


@emits("membar", "fence")
def _fence(t: Translator, item: Instr) -> None:
    scope = {"gl", "gpu", "sys", "cluster"} & set(item.mods)
    if scope or item.mods == ("fence", "acq_rel"):
        t.lines.append(f"x.fence({t.guard})")


@emits("prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "pmevent", "griddepcontrol", "setmaxnreg")
def _nothing(t: Translator, item: Instr) -> None:
    """Hints change no result."""


@emits("createpolicy")
def _createpolicy(t: Translator, item: Instr) -> None:
    """A hint to the cache: any value will do."""
    t.define(item.operands[0], t.constant(0, "u8"), "u8")


@emits("trap", "brkpt")
def _trap(t: Translator, item: Instr) -> None:
    t.lines.append(f"x.trap({t.site()}, {t.guard})")


@emits("cp")
def _cp(t: Translator, item: Instr) -> None:
    mods = item.mods
    if mods[1:4] == ("async", "bulk", "prefetch"):  # one of a tensor has coordinates, which no address takes
        address, size = item.operands[:2]
        where = f"{t.site('global', address)}, {t.address(address, 'global')}"
        t.lines.append(f"x.prefetch({where}, {t.use(size, 'u4')}, {t.guard})")
        return
    if mods[1] != "async" or "bulk" in mods:
        raise t.refused()
    if "commit_group" in mods:
        t.lines.append(f"x.copies.commit({t.guard})")
    elif "wait_group" in mods or "wait_all" in mods:
        left = item.operands[0].value if item.operands and isinstance(item.operands[0], Imm) else -1
        t.lines.append(f"x.copies.wait({t.guard}, {left})")
    elif "mbarrier" in mods:
        raise t.refused()
    else:
        target, source, size, *rest = item.operands
        assert isinstance(size, Imm)
        rest = rest[:-1] if any("cache_hint" in mod for mod in mods) else rest
        count = "None"
        if rest and isinstance(rest[0], Reg) and t.canonical[rest[0].name] == "?":  # ignore-src: zeros where it holds
            zero, whole = t.constant(0, "u4"), t.constant(size.value, "u4")
            count = f"np.where({t.use(rest[0], '?')}, {zero}, {whole})"
        elif rest:
            count = t.use(rest[0], "u4")
        t.lines.append(
            f"x.copies.start({t.site('shared', target)}, {t.address(target, 'shared')}, {t.site('global', source)}, "
            f"{t.address(source, 'global')}, {size.value}, {count}, {t.guard})"
        )


@emits("ldmatrix", "stmatrix")
def _matrix(t: Translator, item: Instr) -> None:
    load = item.mods[0] == "ldmatrix"
    registers, address = item.operands if load else item.operands[::-1]
    if "m8n8" not in item.mods or "b16" not in item.mods:
        raise t.refused()
    parts = registers.parts if isinstance(registers, Vec) else (registers,)
    t.lines.append(f"x.full_warps({t.site()}, m)")
    where = f"{t.site('shared', address)}, {t.address(address, 'shared')}"
    if load:
        t.lines.append(f"l = x.load_matrix({where}, {len(parts)}, {'trans' in item.mods}, m)")
        for n, part in enumerate(parts):
            t.define(part, f"l[{n}]", "u4")
    else:
        values = ", ".join(t.use(part, "u4") for part in parts)
        t.lines.append(f"x.store_matrix({where}, ({values},), {'trans' in item.mods}, m)")


@emits("mma")
def _mma(t: Translator, item: Instr) -> None:
    target, a, b, c = item.operands[:4]
    t.lines.append(f"x.full_warps({t.site()}, m)")
    known = shape_of(item.mods)
    if known is None or len(item.operands) > 4 or not all(isinstance(o, Vec) for o in (target, a, b, c)):
        raise t.refused()
    assert isinstance(target, Vec)
    groups = ", ".join(
        "(" + "".join(f"{t.use(p, 'u4')}, " for p in o.parts) + ")" for o in (a, b, c) if isinstance(o, Vec)
    )
    t.scope["mma"] = mma
    t.lines.append(f"l = mma({item.mods!r}, x.warps, {groups})")
    for n, part in enumerate(target.parts):
        t.define(part, f"l[{n}]", "u4")


@emits("mapa")
def _mapa(t: Translator, item: Instr) -> None:
    target, address, rank = item.operands
    kind = "u8" if item.mods[-1] == "u64" else "u4"
    if "shared::cluster" not in item.mods:
        raise t.refused("of a generic address")
    t.define(target, f"x.map_shared({t.use(address, 'u4')}, {t.use(rank, 'u4')}).astype({kind!r})", kind)


@emits("mbarrier")
def _mbarrier(t: Translator, item: Instr) -> None:
    what, operands = item.mods[1], list(item.operands)
    if any(m.startswith("shared::cluster") for m in item.mods):
        raise t.refused()
    target = operands.pop(0) if has_result(item) else SINK
    if what not in ("init", "inval", "arrive", "test_wait", "try_wait") or "expect_tx" in item.mods:
        raise t.refused()
    site, address = t.site("shared", operands[0]), t.address(operands[0], "shared")
    if what in ("test_wait", "try_wait"):
        parity = "parity" in item.mods
        value = t.use(operands[1], "u4" if parity else "u8")
        t.define(target, f"x.mbarrier_test({site}, {address}, {value}, {parity}, {t.guard})", "?")
    elif what == "arrive":
        count = t.use(operands[1], "u4") if len(operands) > 1 else "None"
        t.define(target, f"x.mbarrier_arrive({site}, {address}, {count}, {t.guard})", "u8")
    else:
        count = t.use(operands[1], "u4") if len(operands) > 1 else t.constant(0, "u4")
        t.lines.append(f"x.mbarrier_init({site}, {address}, {count}, {t.guard})")
