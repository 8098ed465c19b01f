"""Each basic block as a Python function over lane arrays, that :mod:`.program` describes."""

from __future__ import annotations

from functools import lru_cache

from ...build.ptx.errors import UnsupportedError
from ...build.ptx.syntax import Instr, Module
from .alu import TABLE
from .analysis import alu_of, granule, opens_for_all
from .arithmetic import arithmetic
from .blocks import Block, flatten
from .emit_lanes import LANES
from .emit_memory import MEMORY
from .emit_order import ORDER
from .program import Program
from .writer import Writer

EMIT = {**MEMORY, **LANES, **ORDER}


@lru_cache(maxsize=256)
def translate(module: Module, name: str) -> Program:
    """``name`` of ``module`` as a program; :class:`UnsupportedError` names each opcode that is not simulated."""
    flat = flatten(module, name)
    writer, problems = Writer(module, flat), list[str]()
    text = "\n".join(_block(writer, block, problems) for block in flat.blocks)
    if problems:
        told = "; ".join(dict.fromkeys(problems))
        raise UnsupportedError(f"{name} is not checked, it can't be simulated: {told}")
    exec(compile(text, f"<{name}>", "exec"), writer.scope)
    gates = {block.index: block.body[0] for block in flat.blocks if block.sync}
    return Program(
        name=name,
        flat=flat,
        functions=[writer.scope[f"b{block.index}"] for block in flat.blocks],
        sites=writer.sites,
        registers=writer.registers,
        flushes=writer.flushes,
        granule={space: granule(flat, space) for space in ("shared", "global")},
        notes=flat.notes,
        gates=gates,
        open=frozenset(index for index, item in gates.items() if opens_for_all(item)),
    )


def _block(writer: Writer, block: Block, problems: list[str]) -> str:
    writer.begin()
    for item in block.body:
        try:
            _instruction(writer, item)
        except UnsupportedError as error:
            problems.append(str(error))
    end = _end(writer, block)
    for name in writer.wrote:
        if name in writer.crossing:
            n = writer.registers[name]
            writer.lines.append(f"R[{n}] = v{n} if m is None else pick(m, v{n}, R[{n}])")
    head = f"def b{block.index}(x, m):\n R = x.registers\n"
    return head + "".join(f" {line}\n" for line in [*writer.lines, end])


def _end(writer: Writer, block: Block) -> str:
    if block.table is not None:
        index = writer.use(block.table, "u4")
        return f"return x.indexed({index}, m, {block.targets!r})"
    if block.branch is None or len(block.targets) == 1:
        return f"return {block.targets[0]}"
    register, negated = block.branch
    taken, other = block.targets if not negated else block.targets[::-1]
    return f"return ({writer.use(register, '?')}, {taken}, {other})"


def _instruction(writer: Writer, item: Instr) -> None:
    if item.problem:
        raise UnsupportedError(f"{item.loc}: {item.opcode} is not simulated ({item.problem})")
    writer.instruction(item)
    found, base = alu_of(item), item.mods[0]
    try:
        if found:
            arithmetic(writer, item, found)
        elif base in EMIT:
            EMIT[base](writer, item)
        else:
            raise writer.refused()
    except (KeyError, ValueError, AssertionError, IndexError, TypeError) as error:
        raise writer.refused(f"in this form ({error!r})") from error


def supported() -> tuple[str, ...]:
    """First parts of all opcodes that are simulated, in some form at least."""
    return tuple(sorted({*TABLE, *EMIT, "bra", "brx", "ret", "exit", "call"} - {"copy"}))
