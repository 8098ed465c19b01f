"""Tensor core instructions: mma.sync, by the fragment layouts of the PTX ISA.

With g = lane / 4, t = lane % 4 and e elements in a 32-bit register, register r of A holds row g + 8 * (r % 2) and
columns e * t + 4e * (r / 2) on; of B rows e * t + 4e * r on of column g; of C and D rows g and g + 8 of columns 2t on.
Products are summed in float64 and rounded once; hardware rounds in between in ways that PTX leaves open.
"""

from __future__ import annotations

import numpy as np

from . import fpmode
from .floats import Array, bf16, canonical_f32, f16, to_f16

LANE = np.arange(32)
G, T = LANE // 4, LANE % 4
SHAPES = {
    ("f16", "f16"): (8, 16),
    ("bf16", "bf16"): (8, 16),
    ("tf32", "tf32"): (4, 8),
    **{(a, b): (16, 32) for a in ("s8", "u8") for b in ("s8", "u8")},
}
PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}


def shape_of(mods: tuple[str, ...]) -> tuple[int, str, str, str] | None:
    """(K, type of D, of A, of B) for a supported mma.sync.m16n8kK.row.col.D.A.B.C; else None."""
    if mods[:2] != ("mma", "sync") or "sp" in mods or "satfinite" in mods or "row" not in mods or "col" not in mods:
        return None
    shape = next((m for m in mods if m.startswith("m16n8k")), "")
    d, a, b, c = mods[-4:]
    k = int(shape[6:]) if shape[6:].isdigit() else 0
    accumulators = ("s32",) if a in ("s8", "u8") else ("f32", "f16") if a == "f16" else ("f32",)
    return (k, d, a, b) if k in SHAPES.get((a, b), ()) and c == d and d in accumulators else None


def _warps(values: Array, warps: int) -> Array:
    """(rows, threads) as (rows, warps, 32)."""
    if values.shape[1] == 1:
        values = np.broadcast_to(values, (values.shape[0], 32 * warps))
    return values.reshape(values.shape[0], warps, 32)


def _elements(register: Array, kind: str) -> list[Array]:
    """The values in a register, the lowest bits first."""
    if kind == "tf32":
        return [(register & np.uint32(0xFFFFE000)).view(np.float32)]
    if kind in ("f16", "bf16"):
        wide = f16 if kind == "f16" else bf16
        halves = [(register >> np.uint32(16 * n)) & np.uint32(0xFFFF) for n in range(2)]
        return [wide(half.astype(np.uint16)) for half in halves]
    cast = np.int8 if kind == "s8" else np.uint8
    return [((register >> np.uint32(8 * n)) & np.uint32(0xFF)).astype(np.uint8).view(cast) for n in range(4)]


def _matrix(registers: tuple[Array, ...], kind: str, shape: tuple[int, int], b: bool, warps: int) -> Array:
    each = PER_REGISTER[kind]
    held = [_warps(register, warps) for register in registers]
    rows = max(v.shape[0] for v in held)
    out = np.zeros((rows, warps, *shape), np.float64)
    for r, register in enumerate(held):
        for n, value in enumerate(_elements(register, kind)):
            if b:
                out[:, :, each * T + 4 * each * r + n, G] = value
            else:
                out[:, :, G + 8 * (r % 2), each * T + 4 * each * (r // 2) + n] = value
    return out


def _mma(
    mods: tuple[str, ...], warps: int, a: tuple[Array, ...], b: tuple[Array, ...], c: tuple[Array, ...]
) -> tuple[Array, ...]:
    known = shape_of(mods)
    assert known is not None
    k, kind, type_a, type_b = known
    product = _matrix(a, type_a, (16, k), False, warps) @ _matrix(b, type_b, (k, 8), True, warps)
    outputs = []
    for n in range(4):
        part = product[:, :, G + 8 * (n // 2), 2 * T + n % 2]
        if kind == "f16":
            added = f16(((_warps(c[n // 2], warps) >> np.uint32(16 * (n % 2))) & np.uint32(0xFFFF)).astype(np.uint16))
            outputs.append(to_f16(part + added).astype(np.uint32))
        elif kind == "f32":
            outputs.append(canonical_f32((part + _warps(c[n], warps).view(np.float32)).astype(np.float32)))
        else:
            outputs.append((part + _warps(c[n], warps).view(np.int32)).astype(np.int64).astype(np.uint32))
    if kind == "f16":
        outputs = [outputs[n] | (outputs[n + 1] << np.uint32(16)) for n in (0, 2)]
    return tuple(v.reshape(v.shape[0], -1) for v in outputs)


mma = fpmode.without_flushing(_mma)
