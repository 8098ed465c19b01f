"""What instructions read, write and address, and which kernel parameters an address comes from."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .syntax import SIZES, Instr, Mem, Not, Operand, Pair, Reg, Sym, Vec

SPACES = ("global", "shared", "local", "const", "param")
UNKNOWN = "?"  # among the sources of an address: something that is not known
GLOBAL = "*"  # behind a source: it was converted to an address of global memory


def registers(operand: Operand) -> list[str]:
    """Names of the registers in ``operand``."""
    if isinstance(operand, Reg):
        return [operand.name]
    if isinstance(operand, Not):
        return [operand.reg.name]
    if isinstance(operand, Mem):
        return registers(operand.base)
    if isinstance(operand, Vec):
        return [name for part in operand.parts for name in registers(part)]
    if isinstance(operand, Pair):
        return registers(operand.first) + registers(operand.second)
    return []


NO_RESULT: tuple[str, ...] = (
    "st",
    "red",
    "bar",
    "barrier",
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "trap",
    "nanosleep",
    "discard",
)
NO_RESULT += ("cp", "stmatrix", "applypriority", "pmevent", "brkpt", "setmaxnreg", "griddepcontrol", "call")


def has_result(item: Instr) -> bool:
    """Whether the first operand is written."""
    base = item.mods[0]
    if base == "mbarrier":
        return item.mods[1] in ("arrive", "test_wait", "try_wait", "arrive_drop", "pending_count")
    if base in ("bar", "barrier"):
        return "red" in item.mods
    return base not in NO_RESULT


def defined(item: Instr) -> list[str]:
    return registers(item.operands[0]) if item.operands and has_result(item) else []


def used(item: Instr) -> list[str]:
    """Registers read; those of the destination too if it is written under a predicate."""
    sources = item.operands[1:] if has_result(item) else item.operands
    names = [name for operand in sources for name in registers(operand)]
    if item.pred:
        names += [item.pred[0], *defined(item)]
    return names


def space_of(item: Instr) -> str:
    """The state space of a memory instruction, empty for a generic address."""
    for mod in item.mods[1:]:
        if mod.split("::")[0] in SPACES:
            return mod.split("::")[0]
    return ""


def sources(items: Iterable[Instr], params: Collection[str]) -> dict[str, set[str]]:
    """For each register, and each variable that parameters are passed on in, what an address in it comes from.

    Names of kernel ``params`` and of variables, UNKNOWN for what was read from memory or came from another lane; with
    GLOBAL behind it what was converted to an address of global memory, which is how one tells a pointer from an offset.
    """
    found: dict[str, set[str]] = {}
    items = [item for item in items if made_by(item)]
    changed = True
    while changed:
        changed = False
        for item in items:
            given = _given(item, params, found)
            for name in made_by(item):
                if not given <= found.setdefault(name, set()):
                    found[name] |= given
                    changed = True
    return found


def made_by(item: Instr) -> list[str]:
    """Registers that an instruction writes, and variables of parameter space."""
    base = item.mods[0]
    if base == "copy" or (base == "st" and "param" in item.mods):
        target = item.operands[0]
        name = target.base if isinstance(target, Mem) else target
        return [name.name] if isinstance(name, Sym | Reg) else registers(target)
    if base == "call":
        return [*registers(item.operands[0]), *symbols(item.operands[0])]
    return defined(item)


def symbols(operand: Operand) -> list[str]:
    """Names of variables in ``operand``."""
    if isinstance(operand, Vec):
        return [name for part in operand.parts for name in symbols(part)]
    if isinstance(operand, Mem):
        return symbols(operand.base)
    return [operand.name] if isinstance(operand, Sym) and not operand.name.startswith("%") else []


def _given(item: Instr, params: Collection[str], found: dict[str, set[str]]) -> set[str]:
    base, eight = item.mods[0], SIZES.get(item.mods[-1]) == 8
    if base == "ld" and "param" in item.mods:
        return {p for name in symbols(item.operands[1]) for p in _of_param(name, params, found)} if eight else set()
    if base in ("ld", "atom", "shfl"):
        return {UNKNOWN} if eight or base == "shfl" else set()
    if base == "call":
        return {UNKNOWN}
    if base == "copy":  # a variable stands for what it holds, not for its address
        return {p for name in symbols(item.operands[1]) for p in _of_param(name, params, found)} | _of(item, found)
    given = _of(item, found)
    if base != "st":
        given |= {name for operand in item.operands[1:] for name in symbols(operand)}
    if base == "cvta" and "to" in item.mods and "global" in item.mods:
        given = {name.removesuffix(GLOBAL) + GLOBAL for name in given}
    return given


def _of(item: Instr, found: dict[str, set[str]]) -> set[str]:
    return {p for operand in item.operands[1:] for name in registers(operand) for p in found.get(name, ())}


def _of_param(name: str, params: Collection[str], found: dict[str, set[str]]) -> set[str]:
    return {name} if name in params else found.get(name, set())
