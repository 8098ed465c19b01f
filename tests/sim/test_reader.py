"""The reader of PTX, and the instructions that are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest
from finding_run import kernel
from specimens import built

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.ptx.reader import parse
from pytest_roofline.build.ptx.syntax import Imm, Label, Loc, Mem, Not, Pair, Reg, Sym, Vec
from pytest_roofline.build.source import Source
from pytest_roofline.hardware.gpus import GPUS
from pytest_roofline.run.run import check
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import UnsupportedError
from pytest_roofline.sim.isa.translate import translate

HEAD = ".version 8.8\n.target sm_89\n.address_size 64\n"
FILES = '.file 1 "/somewhere/k.cu"\n.file 2 "/somewhere/else/reduce.cuh"\n'
REGISTERS = ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .f32 %f<8>;\n"


def body(*statements):
    """What the reader makes of the statements of a kernel."""
    text = "\n".join(statements)
    head = f"{HEAD}.visible .entry k(\n.param .u64 k_param_0\n)"
    return parse(f"{head}\n{{\n{REGISTERS}{text}\nret;\n}}\n{FILES}").functions["k"].body


def instructions(*statements):
    return [item for item in body(*statements).items if not isinstance(item, Label)][:-1]


@pytest.mark.parametrize(
    ("text", "value", "float_bytes"),
    [
        ("0", 0, 0),
        ("42", 42, 0),
        ("-7", -7, 0),
        ("0x1F", 31, 0),
        ("-0x10", -16, 0),
        ("0b101", 5, 0),
        ("017", 15, 0),
        ("-017", -15, 0),
        ("4294967295U", 2**32 - 1, 0),
        ("0f3F800000", 0x3F800000, 4),
        ("0Fbf800000", 0xBF800000, 4),
        ("-0f3F800000", 0xBF800000, 4),
        ("0d3FF0000000000000", 0x3FF0 << 48, 8),
        ("0D3FF0000000000000", 0x3FF0 << 48, 8),
        ("1.5", 0x3FF8 << 48, 8),
        ("-2.0e0", 0xC000 << 48, 8),
    ],
)
def test_an_immediate_is_read(text, value, float_bytes):
    """Decimal, hexadecimal, binary and octal integers with a sign, and floats as bits or in decimal."""
    (item,) = instructions(f"mov.b64 %rd1, {text};")
    assert item.operands == (Reg("%rd1"), Imm(value, float_bytes))


def test_operands_are_read():
    """Vectors, sinks, addresses with an offset, negated and paired predicates, a guard, special registers."""
    items = instructions(
        "ld.global.v4.f32 {%f1, %f2, _, %f4}, [%rd1+-16];",
        "st.shared.v2.u32 [%r1+0x20], {%r2, 5};",
        "@!%p1 add.s32 %r1, %r2, -1;",
        "@%p2\tbra\tL;",
        "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;",
        "mov.u32 %r1, %tid.x;",
        "ld.param.u64 %rd1, [k_param_0+8];",
        "L:",
    )
    load, store, guarded, jump, compare, special, param = items
    assert load.operands == (Vec((Reg("%f1"), Reg("%f2"), Sym("_"), Reg("%f4"))), Mem(Reg("%rd1"), -16))
    assert load.mods == ("ld", "global", "v4", "f32")
    assert store.operands == (Mem(Reg("%r1"), 32), Vec((Reg("%r2"), Imm(5))))
    assert (guarded.pred, guarded.operands) == (("%p1", True), (Reg("%r1"), Reg("%r2"), Imm(-1)))
    assert (jump.pred, jump.opcode, jump.operands) == (("%p2", False), "bra", (Sym("L"),))
    assert compare.operands == (Pair(Reg("%p1"), Reg("%p2")), Reg("%r1"), Reg("%r2"), Not(Reg("%p3")))
    assert special.operands == (Reg("%r1"), Sym("%tid.x"))
    assert param.operands == (Reg("%rd1"), Mem(Sym("k_param_0"), 8))


def test_source_lines_are_a_chain():
    """A .loc names the file without its folder, and where the function it is in was inlined, and that one in turn."""
    items = instructions(
        ".loc\t1 20 3",
        "mov.u32 %r1, 1;",
        ".loc\t2 7 5, function_name $L__info_string0, inlined_at 1 20 3",
        "mov.u32 %r1, 2;",
        ".loc\t2 3 1, function_name $L__info_string1, inlined_at 2 7 5",
        "mov.u32 %r1, 3;",
        "mov.u32 %r1, 4;",
        ".loc\t1 21 3",
        "mov.u32 %r1, 5;",
    )
    outer = Loc("k.cu", 20)
    middle = Loc("reduce.cuh", 7, outer)
    inner = Loc("reduce.cuh", 3, middle)
    assert [item.loc for item in items] == [outer, middle, inner, inner, Loc("k.cu", 21)]
    assert str(inner) == "reduce.cuh:3 (inlined at reduce.cuh:7 (inlined at k.cu:20))"


def test_names_in_a_nested_scope_are_its_own():
    """A label or register that two scopes of inline assembly declare is two; an outer one is seen from within."""
    function = body(
        "{ .reg .u32 t; .reg .pred %q; mov.u32 t, %r1; L: setp.eq.u32 %q, t, 0; @%q bra L;",
        "{ .reg .u32 t; mov.u32 t, %r2; bra L; M: bra M; } }",
        "{ .reg .u32 t; mov.u32 t, 0; bra L; L: mov.u32 %r1, t; }",
    )
    labels = [item.name for item in function.items if isinstance(item, Label)]
    assert len(labels) == len(set(labels)) == 3
    items = [item for item in function.items if not isinstance(item, Label)]
    first, compare, jump, second, back, own, third, forward = items[:8]
    assert len({first.operands[0], second.operands[0], third.operands[0]}) == 3
    assert compare.operands[1] == first.operands[0]
    assert jump.pred == (compare.operands[0].name, False)
    assert [item.operands[0].name for item in (jump, back, own, forward)] == [
        labels[0],
        labels[0],
        labels[1],
        labels[2],
    ]


def test_variables_are_read():
    """Space, alignment, size, vectors, several dimensions, and initial values in every base."""
    text = """
.global .align 8 .b8 table[12] = {1, 2, 0xFF, 010};
.visible .global .align 4 .f32 scale = 0f3F800000;
.const .align 4 .u32 numbers[2][3] = {1, 2, 3, 4, 5, 4294967295};
.shared .align 16 .v4 .f32 tile[8];
.extern .shared .align 16 .b8 more[];
"""
    found = parse(HEAD + text).variables
    assert [(v.space, v.align, v.size) for v in found.values()] == [
        ("global", 8, 12),
        ("global", 4, 4),
        ("const", 4, 24),
        ("shared", 16, 128),
        ("shared", 16, -1),
    ]
    assert found["table"].data == bytes([1, 2, 255, 8]) + bytes(8)
    assert np.frombuffer(found["scale"].data, "f4") == 1.0
    assert np.frombuffer(found["numbers"].data, "u4").tolist() == [1, 2, 3, 4, 5, 2**32 - 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".visible .entry k()\n{\nmov.u32 %r1, 1;", "PTX ends within the function k"),
        (".global .u32 x", "PTX ends within '.global .u32 x"),
        (".visible .entry k()\n{\n.strange %r1;\nret;\n}", "statement can't be read: '.strange %r1'"),
        (".visible .entry k()\n{\nmov.u32 %r1, 1\n}", "PTX of k ends within 'mov.u32 %r1, 1"),
    ],
)
def test_what_cannot_be_read_is_refused(text, message):
    """Nothing is skipped in silence: text that is cut short, and a statement once its function is looked at."""
    with pytest.raises(UnsupportedError, match=message):
        _ = parse(HEAD + text + "\n").functions["k"].body


@pytest.mark.parametrize(
    ("before", "statement", "message"),
    [
        (".global .b64 x[1] = {one};", "ld.global.u64 %rd1, [x];", "a variable that holds an address (one) is not"),
        (".alias a, b;", "", "PTX at module level can't be read: '.alias a, b'"),
    ],
)
def test_what_a_kernel_needs_and_cannot_be_read_is_refused_by_it(before, statement, message):
    """The text can be read for everything else that it says."""
    module = parse(f"{HEAD}{before}\n.visible .entry k()\n{{\n{REGISTERS}{statement}\nret;\n}}\n")
    assert module.kernels == ("k",)
    with pytest.raises(UnsupportedError, match=re.escape(message)):
        translate(module, "k")


def test_a_variable_that_holds_an_address_is_refused_where_it_is_used():
    """A table of functions or strings is nothing to a kernel that does not look at it."""
    module = parse(f"{HEAD}.global .b64 x[1] = {{one}};\n.visible .entry k()\n{{\nret;\n}}\n")
    assert translate(module, "k").name == "k"


def test_kernels_and_what_they_were_compiled_for():
    """Visible and weak entries, in order, with bounds and clusters in any order; debug data are left out."""
    text = """
.visible .entry a(.param .u64 .ptr .global .align 16 a_0, .param .align 8 .b8 a_1[24], .param .f32 a_2)
.minnctapersm 3
.maxntid 256, 2, 1
.maxnreg 64
{
.loc 1 1 0
ret;
}
.weak .entry b() .reqntid 96
{ ret; }
.entry c()
.explicitcluster
.reqnctapercluster 2, 4, 1
{ ret; }
.visible .func d() { ret; }
.extern .func (.param .b32 r) e(.param .b32 p);
.section .debug_abbrev
{
.b8 1 // Abbreviation Code
.b8 17
}
.section .debug_macinfo { }
.section .debug_str
{
$L__info_string0:
.b8 95,90
}
"""
    module = parse(HEAD + text + FILES)
    a, b, c, d, e = module.functions.values()
    assert module.kernels == ("a", "b", "c")
    assert (a.max_threads, a.required_block, a.max_registers, a.min_blocks) == (512, None, 64, 3)
    assert [(p.type, p.size, p.align, p.pointer) for p in a.params] == [
        ("u64", 8, 8, True),
        ("b8", 24, 8, False),
        ("f32", 4, 4, False),
    ]
    assert (b.max_threads, b.required_block, b.max_registers, b.min_blocks) == (96, (96, 1, 1), None, None)
    assert (a.cluster, c.cluster, c.max_threads) == ((1, 1, 1), (2, 4, 1), None)
    assert [d.entry, e.entry] == [False, False]
    assert module.problems == []


def test_the_dynamic_shared_memory_of_a_module():
    """It has no size of its own, wherever it is declared."""
    text = ".extern .shared .align 16 .b8 whole[];\n.visible .entry k()\n{\n.extern .shared .f32 own[];\nret;\n}\n"
    module = parse(HEAD + text)
    assert module.variables["whole"].size == module.functions["k"].body.variables["own"].size == -1


def loaded(text, gpu="rtx4090"):
    device = SimDevice(gpu)
    return device, device.load(compile_source(Source.of_text("k.cu", text), device.arch), "k")


S = "__shared__ __align__(16) int s[64]; __shared__ unsigned long long m;"
AT, M = '"r"((unsigned)__cvta_generic_to_shared(s))', '"r"((unsigned)__cvta_generic_to_shared(&m))'
D = 'unsigned d[2] = {0, 0}; asm volatile("mma.%s" : "=r"(d[0]), "=r"(d[1]) : "r"(t)); y[t] = d[0];'
REFUSED = {
    "cp.async.bulk.prefetch.tensor.1d.L2.global": (
        "h200",
        'asm volatile("cp.async.bulk.prefetch.tensor.1d.L2.global [%0, {%1}];" ::"l"(y), "r"(t));',
    ),
    "cp.async.bulk.global.shared::cta.bulk_group": (
        "h200",
        f'{S} asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(y), {AT});',
    ),
    "mbarrier.arrive.expect_tx.shared::cta.b64": (
        "h200",
        f'{S} asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::{M});',
    ),
    "atom.global.add.v4.f32": ("h200", "atomicAdd((float4*)y, make_float4(1, 1, 1, 1));"),
    "wmma.load.a.sync.aligned.row.m8n8k32.shared.s4": (
        "rtx4090",
        f'{S} int r; asm volatile("wmma.load.a.sync.aligned.row.m8n8k32.shared.s4 {{%0}}, [%1], 32;" : "=r"(r) : {AT});'
        " y[t] = r;",
    ),
    "vadd.s32.s32.s32": ("rtx4090", 'int v; asm("vadd.s32.s32.s32 %0, %1, %1;" : "=r"(v) : "r"(t)); y[t] = v;'),
    "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16": (
        "rtx4090",
        D % "sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%2}, {%2,%2}, {%2,%2}, %2, 0x0;",
    ),
    "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32": (
        "rtx4090",
        D % "sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {%0,%1}, {%2}, {%2}, {%2,%2};",
    ),
    "alloca.u64": ("rtx4090", 'asm volatile("{ .reg .u64 p; alloca.u64 p, 16; }");'),
    "tex.1d.v4.f32.s32": ("rtx4090", "y[t] = tex1Dfetch<float>((unsigned long long)y, t);"),
    "suld.b.1d.b32.trap": ("rtx4090", "int v; surf1Dread(&v, (unsigned long long)y, t); y[t] = v;"),
    "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group": (
        "h200",
        f"{S} asm volatile("
        f'"cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {{%1}}], [%2];" ::"l"(y), "r"(t), {AT});',
    ),
    "%pm0": ("rtx4090", 'int v; asm volatile("mov.u32 %0, %%pm0;" : "=r"(v)); y[t] = v;'),
}


@pytest.mark.parametrize("opcode", REFUSED)
def test_an_instruction_that_is_not_simulated_is_refused_by_load(opcode):
    """Its name and its source line are told, before any launch, though it stands in a branch that nobody takes."""
    gpu, statement = REFUSED[opcode]
    text = kernel("float* y, int never", "y[t] = 1;", "if (never) {", statement, "}")
    with pytest.raises(UnsupportedError) as caught:
        loaded(text, gpu)
    assert opcode in str(caught.value)
    assert "k.cu:5" in str(caught.value)


def test_every_instruction_that_is_not_simulated_is_told():
    """Two kinds at three lines are three reasons; a kernel beside it in the same source is not affected."""
    add = 'asm volatile("v{0}.s32.s32.s32 %0, %0, %0;" : "+r"(v));'
    text = kernel("int* y", "int v = t;", add.format("add"), add.format("sub"), add.format("add"), "y[t] = v;")
    other = text + 'extern "C" __global__ void other(int* y) { y[0] = 1; }\n'
    device = SimDevice()
    image = compile_source(Source.of_text("k.cu", other), device.arch)
    with pytest.raises(UnsupportedError) as caught:
        device.load(image, "k")
    assert str(caught.value).startswith("k is not checked, it can't be simulated: ")
    told = str(caught.value).partition("simulated: ")[2].split("; ")
    want = [f"k.cu:{line}: v{what}.s32.s32.s32 is not simulated" for line, what in ((4, "add"), (5, "sub"), (6, "add"))]
    assert told == want
    device.load(image, "other")


@pytest.mark.parametrize("name", GPUS)
def test_a_variant_runs_as_compiled_for_each_gpu(suite, name):
    """NVRTC writes parameters and more in another way for each architecture: none of them is left out."""
    try:
        check(SimDevice(name), built(suite, "n4", name, M=4, N=1024))
    except UnsupportedError as error:  # elsewhere that is a skip
        pytest.fail(str(error))
