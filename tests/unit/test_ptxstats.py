"""Global memory accesses, counted in PTX."""

from __future__ import annotations

import re

import pytest

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.ptx.accesses import GlobalAccess, global_accesses
from pytest_roofline.build.source import Source
from pytest_roofline.errors import ToolOutputError

ACCESSES = """
//
.visible .entry other(
\t.param .u64 other_param_0
)
{
\tst.global.f32 [%rd1], %f1;
}
.visible .entry k(
\t.param .u64 .ptr .align 1 k_param_0,
\t.param .u32 k_param_1
)
.maxntid 256, 1, 1
{
\t.reg .f32 %f<9>;
\t.loc\t1 11 5
\tld.param.u64 \t%rd1, [k_param_0];
\tcvta.to.global.u64 \t%rd2, %rd1;
\t// ld.global.f32 %f1, [%rd9];
\t/* {
\tld.global.f32 %f1, [%rd9];
\t*/
$L__BB0_1:
\tld.global.f32 \t%f1, [%rd2];
\t.loc\t1 12 5, function_name $L__info_string0, inlined_at 1 30 1
\t@%p1 ld.global.nc.v4.f32 \t{%f1, %f2, %f3, %f4}, [%rd2+16];
\t@!%p2 bra $L__BB0_1;
\tld.global.nc.L1::no_allocate.L2::128B.v8.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%rd2];
\tld.volatile.global.v2.f64 {%fd1, %fd2}, [%rd2];
\tld.relaxed.gpu.global.s8 %rs1, [%rd2]; ld.global.b128 %q, [%rd2];
\t{ .reg .f32 q; ldu.global.u16 q, [%rd12]; st.global.cs.f32 [%rd12], q; }
\t{ st.global.b16 [%rd12], q; }
\tld.shared.f32 %f1, [%r1];
\tst.shared.v4.f32 [%r1], {%f1, %f2, %f3, %f4};
\tld.local.f32 %f1, [%rd1];
\tcp.async.ca.shared.global [%r11], [%rd12], 16;
\tprefetch.global.L2 [%rd12];
\t{ // callseq 0
\tcall.uni (retval0), helper, (param0);
\t}
\tatom.global.add.f32 %f7, [%rd32], 0f40000000;
\tatom.global.cas.b64 %rd1, [%rd32], %rd2, %rd3;
\tred.global.add.noftz.f16x2 [%rd1], %r1;
\tred.global.v4.bf16x2.add.noftz [%rd1], {%r1, %r2, %r3, %r4};
\tst.global.u8 [%rd35+1], %r13;
\tret;
}
.visible .entry last(
)
{
\tld.global.f32 \t%f1, [%rd2];
}
"""


def test_global_accesses_of_one_kernel() -> None:
    """Every global instruction of the kernel, and of no other, is there in order with its bytes per thread."""
    assert global_accesses(ACCESSES, "k") == [
        GlobalAccess("ld", 4),
        GlobalAccess("ld", 16),
        GlobalAccess("ld", 32),
        GlobalAccess("ld", 16),
        GlobalAccess("ld", 1),
        GlobalAccess("ld", 16),
        GlobalAccess("ldu", 2),
        GlobalAccess("st", 4),
        GlobalAccess("st", 2),
        GlobalAccess("cp.async", 16),
        GlobalAccess("atom", 4),
        GlobalAccess("atom", 8),
        GlobalAccess("red", 4),
        GlobalAccess("red", 16),
        GlobalAccess("st", 1),
    ]
    assert global_accesses(ACCESSES, "other") == [GlobalAccess("st", 4)]


@pytest.mark.parametrize(
    ("ptx", "said"),
    [
        (ACCESSES.replace("entry k(", "entry kk("), "no kernel k; it has other, kk, last"),
        ("", "no kernel k; it has none"),
        (ACCESSES[: ACCESSES.index("\tret;")], "k is cut short"),
        (ACCESSES.replace("[%rd12], 16;", "[%rd12], %r9;"), "can't be read from the PTX: cp.async"),
        (
            ACCESSES.replace("ld.global.f32 \t%f1, [%rd2];\n\t.loc", "ld.global.odd %f1, [%rd2];\n\t.loc"),
            "ld.global.odd",
        ),
    ],
)
def test_accesses_that_can_not_be_counted_are_an_error(ptx: str, said: str) -> None:
    """A missing kernel, a cut body or an access of unknown width is an error, never a smaller count."""
    with pytest.raises(ToolOutputError, match=re.escape(said)):
        global_accesses(ptx, "k")


def test_global_accesses_of_compiled_code() -> None:
    """In PTX of the installed compiler a float4 copy is one load and one store of 16 bytes."""
    text = 'extern "C" __global__ void k(const float4* x, float4* y, float* z) { y[1] = x[2]; atomicAdd(z, 1.0f); }'
    ptx = compile_source(Source.of_text("copy.cu", text), "sm_90").ptx
    found = global_accesses(ptx, "k")
    assert found[:2] == [GlobalAccess("ld", 16), GlobalAccess("st", 16)]
    assert [access.bytes for access in found[2:]] == [4]
