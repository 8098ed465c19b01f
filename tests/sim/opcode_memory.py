"""Loads and stores of every width and vector, and atomics on few addresses by many threads: their kernels and truth."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from opcode_case import WIDTHS, bits_of, integer, mask
from opcode_formats import F32, F64, Format, finished, total

THREADS = 32
ATOMIC_THREADS = 96
CELLS = 5
C_TYPES = {8: "unsigned char", 16: "unsigned short", 32: "unsigned", 64: "unsigned long long"}
REGISTERS = {"h": ("unsigned short", 16), "r": ("unsigned", 32), "l": ("unsigned long long", 64)}
REGISTERS |= {"f": ("float", 32), "d": ("double", 64)}
SPACES = ("global", "shared", "generic")
BEFORE_SPACE = (".volatile", ".relaxed.gpu", ".acquire.gpu", ".release.gpu")
ROOM = 16  # bytes before and after those that are meant


# Lanes of the mask hand a value to their partner through shared memory; the others leave.
BARRIER = """
extern "C" __global__ void exchange(unsigned* y, const unsigned* x, const unsigned* partner, unsigned members) {
    __shared__ unsigned s[32];
    const unsigned i = threadIdx.x;
    if (!(members >> i & 1)) return;
    s[i] = x[i];
    asm volatile("bar.warp.sync %0;" :: "r"(members) : "memory");
    y[i] = s[partner[i]];
}
"""


@dataclass(frozen=True)
class Access:
    """One ld or st: an element type, how many of them, and the registers they are in."""

    load: bool
    space: str
    kind: str
    count: int
    letter: str
    modifier: str = ""
    offset: int = 0

    @property
    def opcode(self) -> str:
        space = "" if self.space == "generic" else f".{self.space}"
        vector = f".v{self.count}" * (self.count > 1)
        place = f"{self.modifier}{space}" if self.modifier in BEFORE_SPACE else f"{space}{self.modifier}"
        return f"{'ld' if self.load else 'st'}{place}{vector}.{self.kind}"

    @property
    def name(self) -> str:
        return re.sub(r"\W+", "_", f"{self.opcode}_{self.letter}{self.offset or ''}")

    @property
    def size(self) -> int:
        """Bytes for each thread."""
        return WIDTHS[self.kind] // 8 * self.count

    @property
    def register_bits(self) -> int:
        return REGISTERS[self.letter][1]


def letters(kind: str) -> str:
    """Registers that may hold ``kind``: its own and, for integers, wider ones."""
    if kind in ("f32", "f64"):
        return {"f32": "f", "f64": "d"}[kind]
    return {8: "hrl", 16: "hrl", 32: "rl", 64: "l"}[WIDTHS[kind]]


def accesses() -> Iterator[Access]:
    kinds = [f"{sign}{width}" for width in (8, 16, 32, 64) for sign in "usb"] + ["f32", "f64"]
    for load in (True, False):
        for space in SPACES:
            for kind in kinds:
                for letter in letters(kind):
                    yield Access(load, space, kind, 1, letter)
        for space in ("global", "shared"):
            for kind in ("u8", "s8", "u16", "s16", "u32", "s32", "f32", "u64", "f64"):
                for count in (2, 4) if WIDTHS[kind] < 64 else (2,):
                    yield Access(load, space, kind, count, letters(kind)[1] if WIDTHS[kind] < 32 else letters(kind)[0])
        yield Access(load, "global", "b32", 1, "r", offset=8)
        yield Access(load, "shared", "u16", 1, "h", offset=-4)
    for kind, letter, count in (("f32", "f", 4), ("u8", "r", 1), ("s16", "h", 1), ("u32", "r", 1)):
        yield Access(True, "global", kind, count, letter, modifier=".nc")
    for modifier in (".ca", ".cg", ".cs", ".cv", ".volatile", ".relaxed.gpu", ".acquire.gpu"):
        yield Access(True, "global", "u32", 1, "r", modifier=modifier)
    for modifier in (".wb", ".cg", ".cs", ".wt", ".volatile", ".relaxed.gpu", ".release.gpu"):
        yield Access(False, "global", "u32", 1, "r", modifier=modifier)


def access_text(access: Access) -> str:
    """Thread i reads or writes its own bytes; around them lies room for the offset."""
    c_type, width = REGISTERS[access.letter]
    operands = ", ".join(f"%{i}" for i in range(access.count))
    vector = f"{{{operands}}}" if access.count > 1 else operands
    at = f"[%{access.count}{f'+{access.offset}' if access.offset else ''}]"
    base = "s" if access.space == "shared" else ("x" if access.load else "y")
    place = f"{base} + {ROOM - access.offset} + i * {access.size}"
    address = {
        "global": f'"l"(__cvta_generic_to_global({place}))',
        "shared": f'"r"((unsigned)__cvta_generic_to_shared({place}))',
        "generic": f'"l"({place})',
    }[access.space]
    to_bits = {"f": "__float_as_uint", "d": "__double_as_longlong"}.get(access.letter, "")
    from_bits = {"f": "__uint_as_float", "d": "__longlong_as_double"}.get(access.letter, "")
    total_bytes = THREADS * access.size + 2 * ROOM
    words = C_TYPES[width]
    copy = f"for (unsigned j = i; j < {total_bytes}; j += {THREADS})"
    lines = ["const unsigned i = threadIdx.x;"]
    if access.space == "shared":
        lines.append(f"__shared__ __align__(16) unsigned char s[{total_bytes}];")
        lines.append(f"{copy} s[j] = {'x[j]' if access.load else 'y[j]'}; __syncthreads();")
    registers = range(access.count)
    if access.load:
        outputs = ", ".join(f'"={access.letter}"(d{j})' for j in registers)
        lines.append(f"{c_type} {', '.join(f'd{j}' for j in registers)};")
        lines.append(f'asm volatile("{access.opcode} {vector}, {at};" : {outputs} : {address} : "memory");')
        lines += [f"y[i * {access.count} + {j}] = {to_bits}(d{j});" for j in registers]
        parameters = f"{words}* y, const unsigned char* x"
    else:
        inputs = ", ".join(f'"{access.letter}"({from_bits}(x[i * {access.count} + {j}]))' for j in registers)
        address_first = at.replace(f"%{access.count}", "%0")
        vector = ", ".join(f"%{j + 1}" for j in registers)
        vector = f"{{{vector}}}" if access.count > 1 else vector
        lines.append(f'asm volatile("{access.opcode} {address_first}, {vector};" :: {address}, {inputs} : "memory");')
        if access.space == "shared":
            lines.append(f"__syncthreads(); {copy} y[j] = s[j];")
        parameters = f"unsigned char* y, const {words}* x"
    body = "\n    ".join(lines)
    return f'extern "C" __global__ void {access.name}({parameters}) {{\n    {body}\n}}\n'


def loaded(access: Access, data: bytes) -> list[int]:
    """What the registers hold afterwards: sign-extended for signed types, zero-extended for all others."""
    step = WIDTHS[access.kind] // 8
    pieces = (data[ROOM + start : ROOM + start + step] for start in range(0, THREADS * access.size, step))
    values = (integer(access.kind, int.from_bytes(piece, "little")) for piece in pieces)
    return [value & mask(access.register_bits) for value in values]


def stored(access: Access, values: list[int]) -> bytes:
    """The low bytes of the registers, with the bytes around them as they were."""
    step = WIDTHS[access.kind] // 8
    written = b"".join((value & mask(WIDTHS[access.kind])).to_bytes(step, "little") for value in values)
    return b"\xff" * ROOM + written + b"\xff" * ROOM


# Atomics: what each leaves at the address, for the old value r and the operands b and c.
def sum_of(fmt: Format) -> Callable[..., int]:
    return lambda r, b, _: finished(fmt, total(fmt.number(r), fmt.number(b), "rn"))


def chosen(function: Callable[..., int], kind: str) -> Callable[..., int]:
    return lambda r, b, _: function(r, b, key=lambda bits: integer(kind, bits))


def operations() -> Iterator[tuple[str, str, Callable[..., int]]]:
    for kind in ("u32", "s32", "u64"):
        yield "add", kind, lambda r, b, _, kind=kind: (r + b) & mask(WIDTHS[kind])
    yield "add", "f32", sum_of(F32)
    yield "add", "f64", sum_of(F64)
    for kind in ("u32", "s32", "u64", "s64"):
        yield "min", kind, chosen(min, kind)
        yield "max", kind, chosen(max, kind)
    for kind in ("b32", "b64"):
        yield "and", kind, lambda r, b, _: r & b
        yield "or", kind, lambda r, b, _: r | b
        yield "xor", kind, lambda r, b, _: r ^ b
        yield "exch", kind, lambda r, b, _: b
    yield "inc", "u32", lambda r, b, _: 0 if r >= b else r + 1
    yield "dec", "u32", lambda r, b, _: b if r == 0 or r > b else r - 1
    for kind in ("b16", "b32", "b64"):
        yield "cas", kind, lambda r, b, c: c if r == b else r


@dataclass(frozen=True)
class Atomic:
    opcode: str
    operation: str
    kind: str
    function: Callable[..., int]
    space: str
    returns: bool

    @property
    def name(self) -> str:
        return re.sub(r"\W+", "_", self.opcode)


def atomics() -> Iterator[Atomic]:
    for space in SPACES:
        place = "" if space == "generic" else f".{space}"
        for operation, kind, function in operations():
            yield Atomic(f"atom{place}.{operation}.{kind}", operation, kind, function, space, True)
            if operation not in ("exch", "cas"):
                yield Atomic(f"red{place}.{operation}.{kind}", operation, kind, function, space, False)
    table = {(operation, kind): function for operation, kind, function in operations()}
    for operation, kind, modifiers in (
        ("add", "u32", ".relaxed.gpu.global"),
        ("add", "f32", ".relaxed.sys.global"),
        ("max", "s32", ".relaxed.cta.shared"),
        ("cas", "b32", ".acq_rel.gpu.global"),
        ("exch", "b64", ".acquire.cta.global"),
    ):
        opcode, function = f"atom{modifiers}.{operation}.{kind}", table[operation, kind]
        yield Atomic(opcode, operation, kind, function, modifiers.rsplit(".", 1)[1], True)


def atomic_text(atomic: Atomic) -> str:
    width = bits_of(atomic.kind)
    letter = {"f32": "f", "f64": "d"}.get(atomic.kind) or {16: "h", 32: "r", 64: "l"}[width]
    word, c_type = C_TYPES[width], REGISTERS[letter][0]
    to_bits = {"f": "__float_as_uint", "d": "__double_as_longlong"}.get(letter, "")
    from_bits = {"f": "__uint_as_float", "d": "__longlong_as_double"}.get(letter, "")
    cell = f"{'s' if atomic.space == 'shared' else 'cells'} + where[i]"
    address = {
        "global": f'"l"(__cvta_generic_to_global({cell}))',
        "shared": f'"r"((unsigned)__cvta_generic_to_shared({cell}))',
        "generic": f'"l"({cell})',
    }[atomic.space]
    operands = f'{address}, "{letter}"({from_bits}(b[i]))'
    third = atomic.operation == "cas"
    if third:
        operands += f', "{letter}"({from_bits}(c[i]))'
    lines = ["const unsigned i = threadIdx.x;"]
    if atomic.space == "shared":
        lines += [f"__shared__ {word} s[{CELLS}];", f"if (i < {CELLS}) s[i] = cells[i]; __syncthreads();"]
    if atomic.returns:
        text = f"{atomic.opcode} %0, [%1], %2{', %3' * third};"
        lines.append(f'{c_type} r; asm volatile("{text}" : "={letter}"(r) : {operands} : "memory");')
        lines.append(f"old[i] = {to_bits}(r);")
    else:
        lines.append(f'asm volatile("{atomic.opcode} [%0], %1;" :: {operands} : "memory");')
    if atomic.space == "shared":
        lines.append(f"__syncthreads(); if (i < {CELLS}) cells[i] = s[i];")
    body = "\n    ".join(lines)
    parameters = f"{word}* old, {word}* cells, const unsigned* where, const {word}* b, const {word}* c"
    return f'extern "C" __global__ void {atomic.name}({parameters}) {{\n    {body}\n}}\n'


def atomic_operands(atomic: Atomic) -> tuple[list[int], list[int], list[int], list[int]]:
    """Cells at the start; for each thread which cell it takes, b and c."""
    rng = random.Random(atomic.opcode)
    width = WIDTHS[atomic.kind]
    where = [rng.choice((0, 0, 1, 2, 3)) for _ in range(ATOMIC_THREADS)]  # nobody takes the last

    def some() -> int:
        if atomic.kind in ("f32", "f64"):  # small whole numbers: their sum is exact in any order
            fmt = F32 if atomic.kind == "f32" else F64
            number = rng.randint(-1000, 1000)
            return fmt.rounded(fmt.number(0)._replace(sign=int(number < 0), m=abs(number), e=0), "rn")
        if atomic.operation in ("inc", "dec"):
            return 11
        if atomic.operation == "cas":
            return rng.randint(0, 3)
        return rng.getrandbits(width)

    cells = [some() for _ in range(CELLS)]
    if atomic.operation == "inc":
        cells[1] = mask(32)
    if atomic.operation == "dec":
        cells[1:3] = [0, 500]
    b, c = ([some() for _ in range(ATOMIC_THREADS)] for _ in range(2))
    if atomic.operation in ("inc", "dec") and atomic.returns:
        b = [rng.choice((3, 11)) for _ in b]
    return cells, where, b, c


def left_at_last(atomic: Atomic, cells: list[int], where: list[int], b: list[int], c: list[int]) -> list[int]:
    """The cells after all operations in the order of the threads; the operands of red make any order the same."""
    cells = list(cells)
    for cell, x, y in zip(where, b, c, strict=True):
        cells[cell] = atomic.function(cells[cell], x, y)
    return cells


def has_serial_order(start: int, end: int, steps: list[tuple[int, int]]) -> bool:
    """Can all ``steps`` (value found, value left) be done one after another from ``start`` to ``end``?

    That is an Eulerian path: each value is left as often as it is found, but for the two ends, and all hang together.
    """
    balance: Counter[Any] = Counter([start])
    balance.subtract([end])
    neighbours: dict[int, set[int]] = {start: set()}
    for found, left in steps:
        balance[found] -= 1
        balance[left] += 1
        neighbours.setdefault(found, set()).add(left)
        neighbours.setdefault(left, set()).add(found)
    reached, waiting = set(), [start]
    while waiting:
        value = waiting.pop()
        if value not in reached:
            reached.add(value)
            waiting.extend(neighbours[value])
    return not any(balance.values()) and reached == set(neighbours)
