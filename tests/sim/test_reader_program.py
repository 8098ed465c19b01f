"""What a program makes of parameters, calls, jumps and variables."""

from __future__ import annotations

import numpy as np
import pytest
from finding_run import Empty, floats, ints, kernel, run

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import UnsupportedError


def loaded(text, gpu="rtx4090"):
    device = SimDevice(gpu)
    return device, device.load(compile_source(Source.of_text("k.cu", text), device.arch), "k")


def outputs(text, *args, **sizes):
    ran = run(text, args, **sizes)
    assert ran.texts() == []
    return ran.arrays[-1]


def test_a_struct_by_value_is_a_parameter():
    """Members of every width and alignment arrive where C++ has them."""
    text = kernel(
        "char before, Mixed p, short after, double* y",
        "y[t] = before + 10 * p.a + 100 * p.b[t] + 1000 * p.c + 10000 * p.d + 100000 * after;",
        before=("struct Mixed { char a; double b[2]; short c; float d; };",),
    )
    kind = np.dtype([("a", "i1"), ("b", "f8", 2), ("c", "i2"), ("d", "f4")], align=True)
    value = np.array([(2, (3, 4), 5, 6)], kind)[0]
    args = np.int8(1), value, np.int16(7), Empty(2, "float64")
    assert outputs(text, *args, block=(2,)).tolist() == [765321, 765421]


def test_calls_that_are_not_inlined_nest():
    """Arguments and results of several widths, a struct, and a function called from two places."""
    text = kernel(
        "const float* x, float* y",
        "const Pair p = both(x[t], twice(t));",
        "y[t] = p.first + 100 * p.second + 10000 * twice(3);",
        before=(
            "struct Pair { float first; int second; };",
            "__device__ __noinline__ int twice(int n) { return 2 * n; }",
            "__device__ __noinline__ Pair both(float v, int n) { return {v, twice(n) + 1}; }",
        ),
    )
    got = outputs(text, floats(32), Empty(32), block=(32,))
    assert got.tolist() == [t + 1 + 100 * (4 * t + 1) + 60000 for t in range(32)]


def test_a_call_under_a_condition_returns_its_own_lanes():
    """Lanes that return early from a function wait for those that do not."""
    text = kernel(
        "const float* x, float* y",
        "float v = x[t]; if (t % 3) v = early(v, t);",
        "y[t] = __shfl_xor_sync(0xffffffffu, v, 1);",
        before=("__device__ __noinline__ float early(float v, int n) { if (n & 1) return -v; return v * v; }",),
    )
    want = [t + 1.0 if t % 3 == 0 else -(t + 1.0) if t & 1 else (t + 1.0) ** 2 for t in range(32)]
    assert outputs(text, floats(32), Empty(32), block=(32,)).tolist() == [want[t ^ 1] for t in range(32)]


def test_a_shared_variable_of_a_function_exists_once():
    """Two calls of a function that is not inlined see one shared variable."""
    text = kernel(
        "int* y",
        "next(t == 0);",
        "__syncthreads();",
        "y[t] = next(false);",
        before=(
            "__device__ __noinline__ int next(bool set) { __shared__ int s; if (set) s = 7; return set ? 0 : s; }",
        ),
    )
    text = text.replace("next(t == 0);", "if (t == 0) next(true);")
    assert (outputs(text, Empty(64, "int32")) == 7).all()


FIBONACCI = "__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }"
ONE_TWO = (
    "__device__ __noinline__ int one(int n) { return n; }",
    "__device__ __noinline__ int two(int n) { return 2 * n; }",
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (kernel("int n, int* y", "y[t] = fib(n);", before=(FIBONACCI,)), "fib.*recursion"),
        (
            kernel("int n, int* y", "int (*f)(int) = n ? one : two;", "y[t] = f(t);", before=ONE_TWO),
            r"k\.cu:6: an indirect call",
        ),
        (
            kernel("int* y", "int* p = (int*)malloc(4);", "y[t] = *p = 1;"),
            r"k\.cu:3: malloc has no body here",
        ),
    ],
    ids=["recursion", "function-pointer", "malloc"],
)
def test_calls_that_are_not_simulated_are_refused(text, message):
    """Recursion, function pointers and functions of the driver."""
    with pytest.raises(UnsupportedError, match=message):
        loaded(text)


@pytest.mark.parametrize("scope", ["{}", "{{ {} }}"], ids=["of-the-function", "of-its-own"])
def test_a_jump_table_takes_each_lane_to_its_label(scope):
    """brx.idx, whose targets repeat and lie before and behind it, by lanes that all take another one."""
    table = (
        ".reg .u32 n; .reg .pred q; mov.u32 n, %1; mov.u32 %0, 0; bra go; back: add.u32 %0, %0, 100; bra done; "
        "go: ts: .branchtargets zero, back, two, zero; brx.idx n, ts; "
        "zero: add.u32 %0, %0, 10; bra done; two: add.u32 %0, %0, 20; done: add.u32 %0, %0, 1;"
    )
    statement = f'asm volatile("{scope.format(table)}" : "=r"(v) : "r"(n[t]));'
    which = np.arange(64) % 4
    got = outputs(
        kernel("const int* n, int* y", "int v;", statement, "y[t] = v;"), which.astype(np.int32), Empty(64, "int32")
    )
    assert got.tolist() == [[11, 101, 21, 11][n] for n in which]


def test_a_dense_switch_takes_each_lane_to_its_case():
    """Forty cases, of which some fall through, and a default."""
    cases = " ".join(f"case {n}: v {'+-^'[n % 3]}= {n * n + 1}; {'break;' if n % 4 else ''}" for n in range(40))
    text = kernel("const int* n, int* y", "int v = t; switch (n[t]) {", cases, "default: v = -1; }", "y[t] = v;")

    def want(t, n):
        if not 0 <= n < 40:
            return -1
        v = t
        while n < 40:
            v = v + n * n + 1 if n % 3 == 0 else v - n * n - 1 if n % 3 == 1 else v ^ (n * n + 1)
            if n % 4:
                return v
            n += 1
        return -1

    which = (np.arange(64) * 7 % 45 - 2).astype(np.int32)
    assert outputs(text, which, Empty(64, "int32")).tolist() == [want(t, int(n)) for t, n in enumerate(which)]


def test_printf_is_ignored_and_noted():
    """The kernel runs as if it were not there; each place is noted once."""
    text = kernel("int n, int* y", 'if (n) printf("n is %d\\n", n);', "y[t] = n;", 'printf("done\\n");')
    _, found = loaded(text)
    assert found.program.notes == ("k.cu:3: printf is ignored", "k.cu:5: printf is ignored")
    assert (outputs(text, np.int32(3), Empty(64, "int32")) == 3).all()
    assert loaded(kernel("int* y", "y[t] = 1;"))[1].program.notes == ()


def test_dynamic_shared_memory_lies_behind_the_static():
    """Extern arrays of two types share one place, aligned, and no static variable overlaps it."""
    text = kernel(
        "int* y",
        "__shared__ char odd[3]; extern __shared__ double d[]; extern __shared__ int n[];",
        "if (t < 3) odd[t] = t + 1;",
        "d[t] = t; __syncthreads();",
        "y[t] = n[2 * t + 1] + odd[t % 3];",
    )
    high = np.arange(64, dtype=np.float64).view(np.uint32)[1::2].astype(np.int64)
    got = outputs(text, Empty(64, "int32"), shared=512)
    assert got.tolist() == [int(h) + t % 3 + 1 for t, h in enumerate(high)]


def test_constant_tables_and_initial_values_are_there():
    """__constant__ tables, and module variables with initial values of several types and dimensions."""
    text = kernel(
        "double* y",
        "y[t] = small[t] + wide[t][1] + scale + (zero[t] ? 1 : 0) + text[t];",
        before=(
            "__constant__ short small[4] = {1, -2, 3};",
            "__device__ long long wide[4][2] = {{0, 10}, {0, -20}, {0, 1LL << 40}};",
            "__device__ double scale = 0.25;",
            "__device__ int zero[4];",
            '__device__ char text[] = "abc";',
        ),
    )
    want = [1 + 10 + 97, -2 - 20 + 98, 3 + (1 << 40) + 99, 0]
    assert outputs(text, Empty(4, "float64"), block=(4,)).tolist() == [value + 0.25 for value in want]


def test_a_variable_keeps_its_value_between_launches():
    """What one kernel of a module writes to a device variable the next launch reads; another device has its own."""
    text = kernel(
        "int add, int* y",
        "if (t == 0) total += add;",
        "__syncthreads();",
        "y[t] = total;",
        before=("__device__ int total = 5;",),
    )
    device = SimDevice()
    for add, want in ((1, 6), (10, 16)):
        ran = run(text, (np.int32(add), Empty(32, "int32")), block=(32,), device=device)
        assert ran.texts() == []
        assert (ran.arrays[0] == want).all()
    assert (outputs(text, np.int32(1), Empty(32, "int32"), block=(32,)) == 6).all()


def test_a_predicated_instruction_leaves_other_lanes_alone():
    """Of a guarded instruction of inline assembly only the lanes whose predicate holds see the result."""
    guarded = "{ .reg .pred p; setp.lt.s32 p, %1, 10; @p add.s32 %0, %0, 100; @!p sub.s32 %0, %0, 1; }"
    text = kernel(
        "const int* x, int* y", "int v = x[t];", f'asm volatile("{guarded}" : "+r"(v) : "r"(t));', "y[t] = v;"
    )
    got = outputs(text, ints(*range(64)), Empty(64, "int32"))
    assert got.tolist() == [t + 100 if t < 10 else t - 1 for t in range(64)]
