"""ptxas's report in all its variants."""

from __future__ import annotations

import re

import pytest

from pytest_roofline.build.nvrtc import Image, compile_source
from pytest_roofline.build.ptxas import of_image, parse
from pytest_roofline.build.source import Source
from pytest_roofline.errors import ToolOutputError
from pytest_roofline.hardware.gpus import gpu_named
from pytest_roofline.hardware.occupancy import occupancy
from pytest_roofline.hardware.resources import Resources

NVRTC = """\
ptxas info    : 28 bytes gmem, 48 bytes cmem[4]
ptxas info    : Compiling entry function 'div' for 'sm_75'
ptxas info    : Function properties for div
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 388 bytes cmem[0]
ptxas info    : Compile time = 9.681 ms
ptxas info    : Compiling entry function 'sum' for 'sm_75'
ptxas info    : Function properties for sum
ptxas         .     40 bytes stack frame, 44 bytes spill stores, 36 bytes spill loads
ptxas info    : Used 44 registers, used 1 barriers, 32 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compile time = 11.471 ms
"""


def report(used: str, stack: str = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") -> str:
    return (
        "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        f"ptxas info    : Function properties for k\n    {stack}\nptxas info    : Used {used}\n"
    )


def test_every_figure_is_read() -> None:
    """Each kernel gets its own registers, stack, spills, shared and constant bytes and barriers."""
    assert parse(NVRTC) == {
        "div": Resources("div", "sm_75", 24, 0, 0, 0, 0, 388, 0),
        "sum": Resources("sum", "sm_75", 44, 40, 44, 36, 32, 388, 1),
    }


@pytest.mark.parametrize("prefix", ["    ", "ptxas info    :     ", "ptxas         .     ", ""])
def test_c67_nvrtc_and_ptxas_write_the_same_report(prefix: str) -> None:
    """The line on stack and spills is read whatever NVRTC, nvcc or ptxas put in front of it."""
    assert parse(NVRTC.replace("ptxas         .     ", prefix)) == parse(NVRTC)


def test_c67_line_ends_and_the_terminating_zero_do_not_matter() -> None:
    """CR LF line ends and the zero byte that ends NVRTC's log change no figure."""
    assert parse(NVRTC.replace("\n", "\r\n") + "\0") == parse(NVRTC)


@pytest.mark.parametrize(
    ("used", "want"),
    [
        ("24 registers", (24, 0, 0, 0, 0)),  # before CUDA 12 without barriers
        ("24 registers, used 0 barriers", (24, 0, 0, 0, 0)),  # sm_90 and newer: no constant bank is listed
        ("40 registers, used 1 barriers, 32 bytes smem", (40, 0, 32, 0, 1)),
        ("9 registers, used 1 barriers, 376 bytes cmem[0], 8 bytes cmem[2]", (9, 0, 0, 384, 1)),
        ("31 registers, used 0 barriers, 160 bytes cumulative stack size, 364 bytes cmem[0]", (31, 160, 0, 364, 0)),
        ("20 registers, used 2 barriers, 64 bytes lmem, 16 bytes smem", (20, 64, 16, 0, 2)),
        ("14 registers, 4+0 bytes lmem, 28+16 bytes smem, 4 bytes cmem[1]", (14, 4, 44, 4, 0)),
        ("18 registers, 332 bytes cmem[0], 1 textures, 1 samplers", (18, 0, 0, 332, 0)),
    ],
)
def test_c68_variants_of_the_used_line(used: str, want: tuple[int, ...]) -> None:
    """Clauses come and go with the architecture and the version; what is not listed is 0 by the report's own rule."""
    found = parse(report(used))["k"]
    assert (found.registers, found.stack_bytes, found.shared_bytes, found.constant_bytes, found.barriers) == want


def test_c68_a_stack_frame_without_spills() -> None:
    """An array that is indexed at run time shows as a stack frame while both spill figures are 0."""
    found = parse(report("31 registers", "160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"))["k"]
    assert (found.stack_bytes, found.spill_stores, found.spill_loads) == (160, 0, 0)


@pytest.mark.parametrize("first", [True, False])
def test_c68_functions_are_not_taken_for_kernels(first: bool) -> None:
    """The stack and spills of a function that was not inlined do not stand for the kernel's, before or after it."""
    function = (
        "ptxas info    : Function properties for _Z6helperfi\n"
        "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    )
    own = "ptxas info    : Function properties for k\n"
    text = report("31 registers")
    found = parse(text.replace(own, function + own) if first else text + function)
    assert found == {"k": Resources("k", "sm_90", 31, 0, 0, 0, 0, 0, 0)}


def test_c68_what_a_function_uses_is_not_what_the_kernel_uses() -> None:
    """A line on used registers that belongs to another function leaves the kernel without one, which is an error."""
    stack = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    helper = "ptxas info    : Function properties for helper\n" + stack
    text = report("31 registers").replace("ptxas info    : Used", helper + "ptxas info    : Used")
    with pytest.raises(ToolOutputError, match="report on k for sm_90 has 0 lines on used registers"):
        parse(text)


PROBE = """
__device__ __noinline__ float helper(float x, int n) {
    float a[40];
    for (int i = 0; i < 40; i++) a[i] = x * i;
    return a[n % 40];
}
extern "C" __global__ void stack(float* x, int n) { x[threadIdx.x] = helper(x[0], n); }
__global__ void mangled(float* x) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[0];
    __syncthreads();
    x[1] = s[3];
}
extern "C" __global__ void __launch_bounds__(1024, 2) spills(float* x) {
    float a[64];
    for (int i = 0; i < 64; i++) a[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 64; i++) x[i * 1024 + threadIdx.x + 7] = a[i] * a[63 - i];
}
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_c68_reports_of_the_installed_compiler(arch: str) -> None:
    """On each architecture the installed NVRTC's own report is read: a stack, spills, shared memory, mangled names."""
    found = of_image(compile_source(Source.of_text("probe.cu", PROBE), arch))
    assert sorted(found) == ["_Z7mangledPf", "spills", "stack"]
    assert found["stack"].stack_bytes == 160
    assert (found["stack"].spill_stores, found["_Z7mangledPf"].stack_bytes) == (0, 0)
    assert found["_Z7mangledPf"].barriers == 1
    # Two blocks of 1024 threads leave 32 registers a thread; sm_75 and sm_120 hold one block and leave 64.
    assert (found["spills"].spill_stores > 0) == (arch in ("sm_80", "sm_90", "sm_100"))
    assert all((one.arch, one.constant_bytes > 0) == (arch, arch in ("sm_75", "sm_80")) for one in found.values())


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "names no entry function: 'it is empty'"),
        ("nvrtc: warning: something\n", "names no entry function: 'nvrtc: warning"),
        ("ptxas info    : 0 bytes gmem\n", "no entry function"),
        (NVRTC[: NVRTC.index("ptxas info    : Used 44")], "report on sum for sm_75 has 0 lines on used registers"),
        (NVRTC[: NVRTC.index("0 bytes stack")], "report on div for sm_75 has 0 lines on stack frame"),
        (NVRTC[: NVRTC.index("4 registers, used 1")], "report on sum can't be read at '4'"),
        (NVRTC[: NVRTC.index("em, 380")], "report on sum can't be read at '32 bytes sm'"),
        (NVRTC[: NVRTC.index("36 bytes spill") + 12], "report on sum for sm_75 has 0 lines on stack frame"),
        (NVRTC[: NVRTC.index("36 bytes spill") + 19], "report on sum for sm_75 has 0 lines on stack frame"),
        (report("1 barriers"), "does not say how many registers"),
        (report("24 registers, 3 bytes tmem"), "can't be read at '3 bytes tmem'"),
        (report("24 registers") * 2, "entry function k twice"),
        (report("24 registers") + "ptxas info    : Used 25 registers\n", "has 2 lines on used registers"),
        (report("-1 registers"), "can't be read at '-1 registers'"),
    ],
)
def test_c68_a_report_that_is_cut_or_contradicts_itself_is_an_error(log: str, said: str) -> None:
    """A missing, cut, doubled or unknown line is an error that quotes it, and never a 0."""
    with pytest.raises(ToolOutputError, match=re.escape(said)):
        parse(log)


@pytest.mark.parametrize(
    "line",
    [
        "ptxas fatal   : Unsupported .version 9.9; current version is '8.8'",
        "ptxas bad.ptx, line 9; fatal   : Unsupported .version 9.9; current version is '9.0'",
        "ptxas info    : 0 bytes gmem\nptxas fatal   : Unsupported .version 9.9; current version is '8.8'",
    ],
)
def test_c27_ptx_newer_than_the_tool_is_a_tool_error(line: str) -> None:
    """PTX that ptxas can't read is a tool error that quotes it and says what to do, not a verdict on spills."""
    with pytest.raises(ToolOutputError, match=r"Unsupported \.version 9\.9.*PTX is newer than this ptxas") as raised:
        parse(line)
    assert "nothing is known" in str(raised.value)


def test_c27_another_failure_of_ptxas_hides_the_figures_too() -> None:
    """Figures that stand beside an error of ptxas are not handed out."""
    with pytest.raises(ToolOutputError, match="uses too much shared data"):
        parse(NVRTC + "\0ptxas error   : Entry function 'sum' uses too much shared data (0x13880 bytes, 0xc000 max)\n")


def image(log: str, kernels: tuple[str, ...], arch: str = "sm_75") -> Image:
    ptx = "".join(f".visible .entry {kernel}(\n)\n{{\n\tret;\n}}\n" for kernel in kernels)
    return Image("some.cu", arch, ptx, b"", log, "some")


def test_an_image_needs_a_report_on_each_kernel() -> None:
    """A kernel of the image that ptxas did not report on is an error with its name; the order is the image's."""
    assert list(of_image(image(NVRTC, ("sum", "div")))) == ["sum", "div"]
    with pytest.raises(ToolOutputError, match=r"some\.cu has no entry for third; it has div, sum"):
        of_image(image(NVRTC, ("sum", "third")))


def test_an_image_needs_a_report_for_its_architecture() -> None:
    """A report for another architecture than the image's is an error."""
    with pytest.raises(ToolOutputError, match="is for sm_75, the image is for sm_90"):
        of_image(image(NVRTC, ("sum",), arch="sm_90"))


BOUNDED = 'extern "C" __global__ void __launch_bounds__(256, 8) k(float* x) { x[threadIdx.x] *= 2.0f; }'
HUNGRY = """
extern "C" __global__ void k(float* x) {
    float a[48];
    for (int i = 0; i < 48; i++) a[i] = x[i * 256 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 48; i++) x[i * 256 + threadIdx.x] = a[47 - i];
}
"""


def test_c69_registers_are_reported_as_compiled() -> None:
    """A cap below the least that ptxas accepts, or overridden by launch bounds, is not what is reported."""
    raised = of_image(compile_source(Source.of_text("k.cu", HUNGRY), "sm_90", ("--maxrregcount=1",)))["k"]
    assert 16 <= raised.registers <= 24  # ptxas raises the cap to 24 on sm_90
    assert raised.spill_stores > 0
    free = of_image(compile_source(Source.of_text("k.cu", HUNGRY), "sm_90"))["k"]
    assert free.registers > 48
    assert free.spill_stores == 0
    bounded = of_image(compile_source(Source.of_text("k.cu", BOUNDED), "sm_90", ("--maxrregcount=24",)))["k"]
    assert bounded.registers < 24


def test_c69_the_notes_on_a_cap_are_no_figures() -> None:
    """ptxas's remarks on a cap that it changed do not disturb the reading."""
    notes = (
        "ptxas warning : For profile sm_90 adjusting per thread register count of 1 to lower bound of 24\n"
        "ptxas info    : Overriding maximum register limit 256 for 'k' with  24 of maxrregcount option\n"
    )
    assert parse(notes + report("22 registers"))["k"].registers == 22


@pytest.mark.parametrize(
    ("name", "blocks", "limit"),
    [
        ("t4", 0, "shared memory"),
        ("a10", 1, "shared memory"),
        ("rtx4090", 1, "shared memory"),
        ("h200", 2, "shared memory"),
    ],
)
def test_c28_98304_bytes_of_dynamic_shared_memory(name: str, blocks: int, limit: str) -> None:
    """They fit after opting in from sm_80 on; on sm_75 the answer is 0 blocks and the GPU's limit."""
    source = Source.of_text("probe.cu", PROBE)
    compiled = of_image(compile_source(source, gpu_named(name).arch))["_Z7mangledPf"]
    found = occupancy(compiled, 256, 98304, gpu_named(name))
    assert (found.blocks, found.limited_by) == (blocks, limit)
    assert ("98304 dynamic bytes" in found.why and "Tesla T4 allows 0 to 65536" in found.why) == (blocks == 0)
