"""RMSNorm, softmax and add + RMSNorm in Triton: one program a row, which stays in registers where it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import triton
import triton.language as tl

IN_REGISTERS = 32768  # columns up to which a program holds its row: 32 values a thread at 32 warps
CHUNK = 8192  # columns a turn of the loop of longer rows
PER_THREAD = 16  # values of a row that a thread holds, by which the number of warps is chosen
LOG2E = tl.constexpr(1.4426950408889634)
LOWEST = tl.constexpr(-3.0e38)

Tensors = Mapping[str, torch.Tensor]


@triton.jit
def rms_row(x_ptr, w_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    mask = at < N
    x = tl.load(x_ptr + row + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    w = tl.load(w_ptr + at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(y_ptr + row + at, (x * scale * w).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rms_loop(x_ptr, w_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        mask = start + at < N
        x = tl.load(x_ptr + row + start + at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        mask = start + at < N
        x = tl.load(x_ptr + row + start + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        w = tl.load(w_ptr + start + at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(y_ptr + row + start + at, (x * scale * w).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_row(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    mask = at < N
    x = tl.load(x_ptr + row + at, mask=mask, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
    e = tl.exp2((x - tl.max(x, axis=0)) * LOG2E)
    tl.store(y_ptr + row + at, (e * (1.0 / tl.sum(e, axis=0))).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def softmax_loop(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    # A running maximum and sum for each lane: what is reduced over the lanes is reduced once, after the loop.
    top = tl.full((BLOCK,), LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        mask = start + at < N
        x = tl.load(x_ptr + row + start + at, mask=mask, other=-float("inf"), eviction_policy="evict_last")
        x = x.to(tl.float32) * LOG2E
        higher = tl.maximum(top, x)
        total = total * tl.exp2(top - higher) + tl.exp2(x - higher)
        top = higher
    most = tl.max(top, axis=0)
    inverse = 1.0 / tl.sum(total * tl.exp2(top - most), axis=0)
    for start in range(0, N, BLOCK):
        mask = start + at < N
        x = tl.load(x_ptr + row + start + at, mask=mask, other=-float("inf"), eviction_policy="evict_first")
        y = tl.exp2(x.to(tl.float32) * LOG2E - most) * inverse
        tl.store(y_ptr + row + start + at, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def add_rms_row(x_ptr, r_ptr, w_ptr, h_ptr, y_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    at = tl.arange(0, BLOCK)
    mask = at < N
    x = tl.load(x_ptr + row + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    r = tl.load(r_ptr + row + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    w = tl.load(w_ptr + at, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
    stored = (x + r).to(h_ptr.dtype.element_ty)  # the norm is that of h as it is stored
    tl.store(h_ptr + row + at, stored, mask=mask)
    h = stored.to(tl.float32)
    scale = tl.rsqrt(tl.sum(h * h, axis=0) / N + eps)
    tl.store(y_ptr + row + at, (h * scale * w).to(y_ptr.dtype.element_ty), mask=mask)


def blocks(columns: int) -> int:
    """Columns of a program's block: the whole row, or a part of it in a loop."""
    return triton.next_power_of_2(columns) if columns <= IN_REGISTERS else CHUNK


def warps(columns: int) -> tuple[int, ...]:
    """Numbers of warps to try: PER_THREAD values a thread, and half and twice as many."""
    fitting = blocks(columns) // (32 * PER_THREAD)
    return tuple(sorted({min(32, max(1, n)) for n in (fitting // 2, fitting, 2 * fitting)}))


def rmsnorm(warp: int, eps: float) -> Callable[[Tensors], Tensors]:
    def run(t: Tensors) -> Tensors:
        rows, columns = t["x"].shape
        kernel = rms_row if columns <= IN_REGISTERS else rms_loop
        kernel[(rows,)](t["x"], t["w"], t["y"], columns, eps, BLOCK=blocks(columns), num_warps=warp)
        return t

    return run


def softmax(warp: int) -> Callable[[Tensors], Tensors]:
    def run(t: Tensors) -> Tensors:
        rows, columns = t["x"].shape
        kernel = softmax_row if columns <= IN_REGISTERS else softmax_loop
        kernel[(rows,)](t["x"], t["y"], columns, BLOCK=blocks(columns), num_warps=warp)
        return t

    return run


def add_rmsnorm(warp: int, eps: float) -> Callable[[Tensors], Tensors]:
    def run(t: Tensors) -> Tensors:
        rows, columns = t["x"].shape
        arrays = (t["x"], t["r"], t["w"], t["h"], t["y"])
        add_rms_row[(rows,)](*arrays, columns, eps, BLOCK=blocks(columns), num_warps=warp)
        return t

    return run
