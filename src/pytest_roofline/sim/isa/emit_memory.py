"""Writes the code of instructions that move data: between registers, to and from memory, atomics, copies."""

from __future__ import annotations

import numpy as np

from ...build.ptx.flow import space_of
from ...build.ptx.syntax import SINK, Imm, Instr, Mem, Reg, Sym, Vec
from .analysis import RAW
from .operation import DTYPES
from .writer import Emit, Writer, emits

MEMORY: dict[str, Emit] = {}


@emits(MEMORY, "mov")
def _mov(w: Writer, item: Instr) -> None:
    target, source = item.operands
    kind = DTYPES[item.mods[-1]] if item.mods[-1] != "pred" else "?"
    if isinstance(target, Reg):
        canonical = w.canonical[target.name]
        if np.dtype(canonical).itemsize == np.dtype(kind).itemsize and kind != "?":
            kind = canonical  # a copy of what is there, float or bits
    elif isinstance(target, Vec):
        kind = kind.replace("f", "u").replace("i", "u")
    w.define(target, w.use(source, kind), kind)


@emits(MEMORY, "cvta")
def _cvta(w: Writer, item: Instr) -> None:
    """Generic addresses: global ones are themselves, shared and local ones lie in windows."""
    target, source = item.operands
    space = space_of(item)
    value = w.use(source, "u8" if item.mods[-1] == "u64" else "u4")
    if space in ("shared", "local"):
        value = f"x.memory.window({value}, {space!r}, {'to' in item.mods})"
    w.define(target, value, "u8" if item.mods[-1] == "u64" else "u4")


@emits(MEMORY, "isspacep")
def _isspacep(w: Writer, item: Instr) -> None:
    w.define(item.operands[0], f"x.memory.in_space({w.use(item.operands[1], 'u8')}, {space_of(item)!r})", "?")


def _vector(item: Instr) -> int:
    return next((int(mod[1]) for mod in item.mods if mod in ("v2", "v4", "v8")), 1)


@emits(MEMORY, "ld", "ldu")
def _ld(w: Writer, item: Instr) -> None:
    target, address = item.operands[:2]
    space, kind, count = space_of(item), DTYPES[item.mods[-1]], _vector(item)
    raw = RAW[np.dtype(kind).itemsize]
    kind = raw if kind[0] == "f" else kind  # bits: a NaN keeps its payload
    if space == "param":
        assert isinstance(address, Mem)
        if isinstance(address.base, Sym) and address.base.name in w.flat.params:
            at = w.flat.params[address.base.name][0] + address.offset
            parts = target.parts if isinstance(target, Vec) else (target,)
            for n, part in enumerate(parts):
                w.define(part, f"x.parameter({at + n * np.dtype(raw).itemsize}, {raw!r}).view({kind!r})", kind)
            return
        space = "local"  # what a function is given lies among its caller's variables
    volatile = any(m in ("volatile", "relaxed", "acquire", "mmio") for m in item.mods)
    name = "load_cluster" if "shared::cluster" in item.mods else "load"
    where = f"{w.site(space, address)}, {w.address(address, space)}"
    parts = target.parts if isinstance(target, Vec) else (target,)
    w.lines.append(f"l = x.memory.{name}({where}, {w.guard}, {raw!r}, {count}, {volatile})")
    for n, part in enumerate(parts):
        w.define(part, f"l[{n}]" + (f".view({kind!r})" if raw != kind else ""), kind)


@emits(MEMORY, "st")
def _st(w: Writer, item: Instr) -> None:
    if "async" in item.mods or "bulk" in item.mods:
        raise w.refused()
    address, value = item.operands[:2]
    space, kind = space_of(item), DTYPES[item.mods[-1]]
    raw = RAW[np.dtype(kind).itemsize]
    parts = value.parts if isinstance(value, Vec) else (value,)
    values = ", ".join(w.use(part, raw) for part in parts)
    space = "local" if space == "param" else space
    volatile = any(m in ("volatile", "relaxed", "release", "mmio") for m in item.mods)
    name = "store_cluster" if "shared::cluster" in item.mods else "store"
    where = f"{w.site(space, address)}, {w.address(address, space)}"
    w.lines.append(f"x.memory.{name}({where}, {w.guard}, ({values},), {raw!r}, {volatile})")


@emits(MEMORY, "copy")
def _copy(w: Writer, item: Instr) -> None:
    """A parameter between caller and callee, as bytes."""
    to, of, size = item.operands
    assert isinstance(size, Imm)
    raw = RAW.get(size.value, "u1")
    count = size.value // np.dtype(raw).itemsize
    site = w.site("local")
    if isinstance(of, Sym):
        w.lines.append(f"l = x.memory.load({site}, {w.use(of, 'i8')}, {w.guard}, {raw!r}, {count}, True)")
        values = "l"
    else:
        values = f"({w.use(of, raw)},)"
    if isinstance(to, Sym):
        w.lines.append(f"x.memory.store({site}, {w.use(to, 'i8')}, {w.guard}, {values}, {raw!r}, True)")
    else:
        w.define(to, f"{values}[0]", raw)


ATOMIC_OPS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@emits(MEMORY, "atom", "red")
def _atom(w: Writer, item: Instr) -> None:
    base, kind, space = item.mods[0], item.mods[-1], space_of(item)
    operands = list(item.operands)
    target = operands.pop(0) if base == "atom" else SINK
    op = next((m for m in item.mods[1:] if m in ATOMIC_OPS), None)
    if op is None or isinstance(operands[1], Vec) or kind in ("b128",):
        raise w.refused()
    dtype = DTYPES[kind]
    raw = RAW[np.dtype(dtype).itemsize]
    values = [w.use(value, raw if kind in ("f16", "bf16", "f16x2", "bf16x2") else dtype) for value in operands[1:3]]
    values += values[:1] * (2 - len(values))
    site, address = w.site(space, operands[0]), w.address(operands[0], space)
    keep = target != SINK and not (isinstance(target, Reg) and target.name not in w.read)
    where, what = f"{site}, {address}, {w.guard}", f"{op!r}, {kind!r}, {values[0]}, {values[1]}, {keep}"
    w.lines.append(f"t = x.memory.atomic({where}, {what})")
    if keep:
        w.define(target, f"t.view({raw!r})", raw)


@emits(MEMORY, "mapa")
def _mapa(w: Writer, item: Instr) -> None:
    target, address, rank = item.operands
    kind = "u8" if item.mods[-1] == "u64" else "u4"
    if "shared::cluster" not in item.mods:
        raise w.refused("of a generic address")
    w.define(target, f"x.memory.map_shared({w.use(address, 'u4')}, {w.use(rank, 'u4')}).astype({kind!r})", kind)


@emits(MEMORY, "cp")
def _cp(w: Writer, item: Instr) -> None:
    mods = item.mods
    if mods[1:4] == ("async", "bulk", "prefetch"):  # one of a tensor has coordinates, which no address takes
        address, size = item.operands[:2]
        where = f"{w.site('global', address)}, {w.address(address, 'global')}"
        w.lines.append(f"x.memory.prefetch({where}, {w.use(size, 'u4')}, {w.guard})")
        return
    if mods[1] != "async" or "bulk" in mods:
        raise w.refused()
    if "commit_group" in mods:
        w.lines.append(f"x.copies.commit({w.guard})")
    elif "wait_group" in mods or "wait_all" in mods:
        left = item.operands[0].value if item.operands and isinstance(item.operands[0], Imm) else -1
        w.lines.append(f"x.copies.wait({w.guard}, {left})")
    elif "mbarrier" in mods:
        raise w.refused()
    else:
        target, source, size, *rest = item.operands
        assert isinstance(size, Imm)
        rest = rest[:-1] if any("cache_hint" in mod for mod in mods) else rest
        count = "None"
        if rest and isinstance(rest[0], Reg) and w.canonical[rest[0].name] == "?":  # ignore-src: zeros where it holds
            zero, whole = w.constant(0, "u4"), w.constant(size.value, "u4")
            count = f"np.where({w.use(rest[0], '?')}, {zero}, {whole})"
        elif rest:
            count = w.use(rest[0], "u4")
        w.lines.append(
            f"x.copies.start({w.site('shared', target)}, {w.address(target, 'shared')}, {w.site('global', source)}, "
            f"{w.address(source, 'global')}, {size.value}, {count}, {w.guard})"
        )


@emits(MEMORY, "createpolicy")
def _createpolicy(w: Writer, item: Instr) -> None:
    """A hint to the cache: any value will do."""
    w.define(item.operands[0], w.constant(0, "u8"), "u8")
