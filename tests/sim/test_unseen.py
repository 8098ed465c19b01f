"""Kernels that once ran wrong, came out clean, or were refused without need; each stands for a kind."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import CompileError, DeviceError, RefusedError
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import UnsupportedError
from pytest_roofline.sim.machine.execution import WORTH_A_WAIT, Execution

SCHEDULES = pytest.mark.parametrize("reverse", [False, True], ids=["first-to-last", "last-to-first"])


def launch(text, grid, block, args, device=None, name="k", shared=0):
    """Run ``name`` of ``text``; the device, the arrays and the findings as (severity, kind)."""
    device = device or SimDevice()
    kernel = device.load(compile_source(Source.of_text("a.cu", text), device.arch), name)
    given = tuple(device.upload(a) if isinstance(a, np.ndarray) and a.ndim else a for a in args(device))
    kernel(grid, block, given, shared_mem=shared)
    found = [(finding.severity, finding.kind) for finding in device.take_findings()]
    return [device.download(a) if hasattr(a, "layout") else a for a in given], found


ROTATE = """
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = p[(i + 256) % 4096];
    p[i] = v + 1;
}"""
PAIR = np.dtype([("x", "u8"), ("n", "i8")])


def struct_of(device):
    a = device.upload(np.arange(4096, dtype=np.float32))
    device.kept = a
    return (np.array([(a.pointer, 4096)], PAIR)[0],)


def table_of(device):
    device.kept = device.upload(np.arange(4096, dtype=np.float32))
    return (device.upload(np.array([device.kept.pointer], np.uint64)),)


def number_of(device):
    device.kept = device.upload(np.arange(4096, dtype=np.float32))
    return (np.uint64(device.kept.pointer),)


@pytest.mark.parametrize(
    ("head", "args"),
    [
        ('struct P { float* x; long long n; };\nextern "C" __global__ void k(P s) { float* p = s.x;', struct_of),
        ('extern "C" __global__ void k(float** t) { float* p = t[0];', table_of),
        ('extern "C" __global__ void k(float* p) {', number_of),
        ('extern "C" __global__ void k(float* p) {', lambda d: (np.arange(4096, dtype=np.float32),)),
        (
            '__device__ float own[4096];\nextern "C" __global__ void k(float* x, int w) { float* p = w ? x : own;',
            lambda d: (np.arange(4096, dtype=np.float32), np.int32(0)),
        ),
    ],
    ids=["in-a-struct", "in-a-table", "as-a-number", "as-an-array", "or-a-variable"],
)
def test_a_race_is_found_whatever_way_the_pointer_came(head, args):
    """Blocks that read what others write race, through structs, tables, integers and module variables too."""
    _, found = launch(head + ROTATE, (16,), (256,), args)
    assert ("error", "race") in found


@SCHEDULES
def test_a_counter_that_nobody_waits_for_orders_nothing(reverse):
    """A fence and an atomic before, and no wait: the neighbour's data may not be there yet."""
    text = """
    __device__ unsigned counter;
    extern "C" __global__ void k(const float* x, float* y, float* z, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = x[i] * 2;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) atomicAdd(&counter, 1);
        __syncthreads();
        z[i] = y[(i + blockDim.x) % n];
    }"""
    x = np.arange(2048, dtype=np.float32)
    args = lambda d: (x, d.empty((2048,), "float32"), d.empty((2048,), "float32"), np.int32(2048))  # noqa: E731
    _, found = launch(text, (8,), (256,), args, SimDevice(reverse=reverse))
    assert ("error", "race") in found


@SCHEDULES
@pytest.mark.parametrize(("last", "clean"), [("gridDim.x - 1", True), ("0", False)])
def test_only_the_last_block_knows_what_all_did(reverse, last, clean):
    """The block with the last ticket may read all partial sums, the one with the first may not."""
    text = f"""
    __device__ unsigned tickets;
    extern "C" __global__ void k(const float* x, float* part, float* out) {{
        __shared__ bool last;
        if (threadIdx.x == 0) {{
            part[blockIdx.x] = x[blockIdx.x];
            __threadfence();
            last = atomicAdd(&tickets, 1) == {last};
        }}
        __syncthreads();
        if (last && threadIdx.x == 0) {{
            float sum = 0;
            for (int b = 0; b < gridDim.x; b++) sum += part[b];
            out[0] = sum;
        }}
    }}"""
    args = lambda d: (np.ones(8, np.float32), d.empty((8,), "float32"), d.empty((1,), "float32"))  # noqa: E731
    (_, _, out), found = launch(text, (8,), (32,), args, SimDevice(reverse=reverse))
    assert (found == []) == clean
    assert not clean or out[0] == 8


COPY = """
extern "C" __global__ void k(const float* x, float* y, int tiles) {{
    __shared__ __align__(16) float s[2][256];
    int t = threadIdx.x;
    float sum = 0;
    auto issue = [&](int i) {{
        unsigned a = (unsigned)__cvta_generic_to_shared(&s[i & 1][t]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(a), "l"(x + i * 256 + t) : "memory");
    }};
    issue(0);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int i = 0; i < tiles; i++) {{
        if (i + 1 < tiles) issue(i + 1);
        asm volatile("cp.async.commit_group;\\n cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        sum += s[i & 1][255 - t];
        {barrier}
    }}
    y[t] = sum;
}}"""


@SCHEDULES
@pytest.mark.parametrize(("barrier", "clean"), [("__syncthreads();", True), ("", False)])
def test_a_copy_takes_its_bytes_from_when_it_is_issued(reverse, barrier, clean):
    """Without the second barrier a copy into a buffer begins while other warps still read it."""
    x = np.random.default_rng(1).random(2048, dtype=np.float32)
    args = lambda d: (x, d.empty((256,), "float32"), np.int32(8))  # noqa: E731
    (_, y, _), found = launch(COPY.format(barrier=barrier), (1,), (256,), args, SimDevice(reverse=reverse))
    assert (found == []) == clean
    assert not clean or np.allclose(y, x.reshape(8, 256)[:, ::-1].sum(axis=0), rtol=1e-5)


@pytest.mark.parametrize(
    ("operand", "modifier", "value", "wanted"),
    [
        ('"r"((int)threadIdx.x < 16 ? 16 : 6)', "", "%2", lambda x, tail: tail),
        ('"l"(0x14F0000000000000ull)', ".L2::cache_hint", "%2", lambda x, tail: x),
    ],
    ids=["size-of-halves", "cache-policy"],
)
def test_the_fourth_operand_of_an_asynchronous_copy(operand, modifier, value, wanted):
    """A size need not be a whole number of words, and a cache policy is no size."""
    text = f"""
    extern "C" __global__ void k(const unsigned short* x, unsigned short* y) {{
        __shared__ __align__(16) unsigned short s[256];
        unsigned a = (unsigned)__cvta_generic_to_shared(s + threadIdx.x * 8);
        asm volatile("cp.async.cg.shared.global{modifier} [%0], [%1], 16, {value};"
                     ::"r"(a), "l"(x + threadIdx.x * 8), {operand} : "memory");
        asm volatile("cp.async.commit_group;\\n cp.async.wait_group 0;" ::: "memory");
        for (int j = 0; j < 8; j++) y[threadIdx.x * 8 + j] = s[threadIdx.x * 8 + j];
    }}"""
    x = np.arange(1, 257, dtype=np.uint16)
    tail = x.reshape(32, 8).copy()
    tail[16:, 3:] = 0
    (_, y), found = launch(text, (1,), (32,), lambda d: (x, d.empty((256,), "uint16")))
    assert found == []
    np.testing.assert_array_equal(y, wanted(x, tail.ravel()))


@SCHEDULES
@pytest.mark.parametrize(
    ("barrier", "kinds"),
    [
        ('asm volatile("bar.sync 1, 128;" ::: "memory");', set()),
        ('asm volatile("barrier.sync %0, %1;" ::"r"(3), "r"(128) : "memory");', set()),
        ('asm volatile("bar.sync 1, 256;" ::: "memory");', {"barrier"}),
        ('asm volatile("bar.sync %0;" ::"r"(t / 32 + 1) : "memory");', {"barrier"}),
    ],
    ids=["named", "in-registers", "too-many", "one-a-warp"],
)
def test_a_named_barrier_that_all_lanes_reach_together(reverse, barrier, kinds):
    """It waits for its count and for its number, also where no lane ever parted from another."""
    text = f"""
    extern "C" __global__ void k(const float* x, float* y) {{
        __shared__ float s[128];
        int t = threadIdx.x;
        s[t] = x[t];
        {barrier}
        y[t] = s[127 - t];
    }}"""
    args = lambda d: (np.arange(128, dtype=np.float32), d.empty((128,), "float32"))  # noqa: E731
    _, found = launch(text, (1,), (128,), args, SimDevice(reverse=reverse))
    assert {kind for severity, kind in found if severity == "error"} == kinds


def test_groups_with_barriers_of_their_own():
    """Two groups of 64 threads, each with its number in a register and its half of the array, do not race."""
    text = """
    extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float s[128];
        int t = threadIdx.x, g = t / 64;
        s[t] = x[t];
        asm volatile("bar.sync %0, 64;" ::"r"(g + 1) : "memory");
        y[t] = s[g * 64 + 63 - t % 64];
    }"""
    _, found = launch(text, (1,), (128,), lambda d: (np.arange(128, dtype=np.float32), d.empty((128,), "float32")))
    assert found == []


def test_a_shuffle_from_a_lane_that_the_mask_leaves_out():
    """The value is undefined: a warning, and poison."""
    text = """
    extern "C" __global__ void k(int* y) {
        int l = threadIdx.x;
        unsigned m = l < 16 ? 0xffffu : 0xffff0000u;
        y[l] = __shfl_xor_sync(m, l, 16);
    }"""
    (y,), found = launch(text, (1,), (32,), lambda d: (d.empty((32,), "int32"),))
    assert found == [("warning", "convergence")]
    assert (y == -1).all()


@pytest.mark.parametrize(
    ("text", "grid", "block", "message"),
    [
        ('extern "C" __global__ void __launch_bounds__(128) k(float* x) { x[0] = 1; }', (2,), (256,), "at most 128"),
        ('extern "C" __global__ void k(float* x) { x[0] = 1; }', (0,), (32,), "a grid of"),
        ('extern "C" __global__ void k(float* x) { x[0] = 1; }', (1, 70000), (1,), "a grid of"),
        ('extern "C" __global__ void k(float* x) { x[0] = 1; }', (1,), (1025,), "allowed are 1 to \\(1024"),
    ],
    ids=["launch-bounds", "no-blocks", "too-many-blocks", "too-many-threads"],
)
def test_a_launch_that_no_gpu_takes_is_refused(text, grid, block, message):
    """Bounds of the kernel and of the hardware are errors before anything runs."""
    with pytest.raises(DeviceError, match=message):
        launch(text, grid, block, lambda d: (np.zeros(1, np.float32),))


def test_a_python_number_is_no_argument():
    """It has no type: refused, with what to give."""
    text = 'extern "C" __global__ void k(float* x, int n) { x[0] = n; }'
    with pytest.raises(RefusedError, match=r"parameter 1 is a int.*NumPy scalar"):
        launch(text, (1,), (1,), lambda d: (np.zeros(1, np.float32), 5))


@SCHEDULES
def test_a_chain_of_waiting_blocks_comes_to_its_end(reverse):
    """Each block waits for the one before, by a volatile flag: whoever can go on gets its turn."""
    text = """
    extern "C" __global__ void k(int* y, volatile int* state) {
        int t = threadIdx.x, b = blockIdx.x;
        __shared__ int before;
        if (t == 0) {
            int p = 0;
            if (b > 0) { while ((p = state[b - 1]) == 0) {} }
            before = p;
            __threadfence();
            state[b] = p + 1;
        }
        __syncthreads();
        y[b * blockDim.x + t] = before;
    }"""
    args = lambda d: (d.empty((256,), "int32"), np.zeros(8, np.int32))  # noqa: E731
    (y, _), found = launch(text, (8,), (32,), args, SimDevice(reverse=reverse))
    assert found == []
    np.testing.assert_array_equal(y, np.repeat(np.arange(8), 32))


def test_long_loops_and_waits_by_the_clock_end():
    """40000 trips are a long loop and no endless one; 400000 cycles of waiting pass."""
    text = """
    extern "C" __global__ void k(const int* x, int* y, int n) {
        int s = 0;
    #pragma unroll 1
        for (int i = 0; i < n; i++) s = s * 3 + x[i & 31];
        long long from = clock64();
        while (clock64() - from < 400000) {}
        y[0] = s;
    }"""
    args = lambda d: (np.ones(32, np.int32), d.empty((1,), "int32"), np.int32(40_000))  # noqa: E731
    (_, y, _), found = launch(text, (1,), (1,), args)
    want = 0
    for _ in range(40_000):
        want = (want * 3 + 1) & 0xFFFFFFFF
    assert found == []
    assert y.view(np.uint32)[0] == want


def test_clocks_go_on_in_every_width():
    """All clocks rise alike, the halves are those of the whole, and counting work a step is a long wait."""
    kinds = {"clock64": "u64 %0", "globaltimer": "u64 %0", "clock": "u32 %0", "clock_hi": "u32 %0"}
    reads = "".join(
        f'asm volatile("mov.{kind}, %%{name};" : "={"l" if "64" in kind else "r"}"({name}));'
        for name, kind in kinds.items()
    )
    text = f"""
    extern "C" __global__ void k(unsigned long long* y, int n) {{
        for (int i = 0; i < n; i++) {{
            unsigned long long clock64, globaltimer; unsigned clock, clock_hi;
            {reads}
            y[4 * i] = clock64; y[4 * i + 1] = globaltimer; y[4 * i + 2] = clock; y[4 * i + 3] = clock_hi;
            __syncthreads();
        }}
    }}"""
    for detailed, least in ((False, 1), (True, WORTH_A_WAIT)):
        device = SimDevice()
        device.detailed = detailed
        (y, _), found = launch(text, (1,), (1,), lambda d: (d.empty((4 * 10,), "uint64"), np.int32(10)), device)
        assert found == []
        whole, other, low, high = y.reshape(-1, 4).T
        np.testing.assert_array_equal(other, whole)
        np.testing.assert_array_equal((high << np.uint64(32)) | low, whole)
        assert (np.diff(whole.astype(np.int64)) >= least).all()


def test_the_32_bits_of_a_clock_do_not_stand_still():
    """Whatever the number of steps between two reads of %clock, they are longer apart than a kernel waits."""
    assert min(WORTH_A_WAIT * steps % 2**32 for steps in range(1, 1000)) > 10**6


def test_narrow_shared_accesses_by_a_qualified_space_do_not_race():
    """st.shared::cta.u16 of neighbours is no race: the granule is that of the narrowest access."""
    text = """
    extern "C" __global__ void k(const unsigned short* x, unsigned short* y) {
        __shared__ __align__(4) unsigned short s[64];
        int t = threadIdx.x;
        unsigned a = (unsigned)__cvta_generic_to_shared(s + (t % 32) * 2 + t / 32);
        asm volatile("st.shared::cta.u16 [%0], %1;" ::"r"(a), "h"(x[t]) : "memory");
        __syncthreads();
        y[t] = s[t];
    }"""
    _, found = launch(text, (1,), (64,), lambda d: (np.arange(64, dtype=np.uint16), d.empty((64,), "uint16")))
    assert found == []


def test_half_precision_functions_of_the_header():
    """cuda_fp16.h writes its declarations without blanks; reciprocal and exponential run and are right."""
    text = """
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const __half* x, __half* y) {
        int t = threadIdx.x;
        y[t] = hrcp(x[t]);
        y[t + 32] = hexp(x[t]);
    }"""
    x = np.linspace(0.25, 4, 32).astype(np.float16)
    (_, y), found = launch(text, (1,), (32,), lambda d: (x.view(np.uint16), d.empty((64,), "uint16")))
    assert found == []
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y.view(np.float16), np.concatenate([1 / wide, np.exp(wide)]), rtol=2e-3)


def test_what_a_trap_stops_is_told_once():
    """Lanes that stopped themselves make no further findings."""
    text = """
    extern "C" __global__ void k(int* y, int n) {
        int i = threadIdx.x;
        if (i >= n) asm volatile("trap;");
        y[i] = 1;
    }"""
    _, found = launch(text, (1,), (64,), lambda d: (d.empty((40,), "int32"), np.int32(40)))
    assert found == [("error", "trap")]


@SCHEDULES
def test_a_barrier_of_the_warp_is_one_wherever_it_stands(reverse):
    """__syncwarp in both branches brings the lanes together: they wait for the operation, not for the line."""
    text = """
    extern "C" __global__ void k(const int* x, int* y) {
        __shared__ int s[32];
        int t = threadIdx.x;
        if (t < 16) {
            s[t] = x[t];
            __syncwarp();
            y[t] = s[31 - t];
        } else {
            s[t] = x[t] * 2;
            __syncwarp();
            y[t] = s[31 - t] + 1;
        }
    }"""
    x = np.arange(32, dtype=np.int32)
    (_, y), found = launch(text, (1,), (32,), lambda d: (x, d.empty((32,), "int32")), SimDevice(reverse=reverse))
    assert found == []
    put = np.where(x < 16, x, 2 * x)
    np.testing.assert_array_equal(y, np.where(x < 16, put[::-1], put[::-1] + 1))


def test_atomics_on_the_memory_of_another_block_of_the_cluster():
    """Each block adds into its neighbour's shared memory, as in a histogram over a cluster."""
    text = """
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* bins) {
        __shared__ int s[32];
        unsigned rank, a;
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        s[threadIdx.x] = 0;
        asm volatile("barrier.cluster.arrive;\\nbarrier.cluster.wait;" ::: "memory");
        unsigned own = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(own), "r"(rank ^ 1));
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(a), "r"(rank + 1) : "memory");
        asm volatile("barrier.cluster.arrive;\\nbarrier.cluster.wait;" ::: "memory");
        bins[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
    }"""
    (bins,), found = launch(text, (2,), (32,), lambda d: (d.empty((64,), "int32"),), SimDevice("h200"))
    assert found == []
    np.testing.assert_array_equal(bins, np.repeat([2, 1], 32))


@pytest.mark.parametrize(
    "instruction",
    [
        "max.s32.relu %0, %1, %1;",
        "max.relu.s32 %0, %1, %1;",
        "fma.rn.oob.f16x2 %0, %1, %1, %1;",
        "{ .reg .pred p; lop3.or.b32 %0|p, %1, %1, %1, 0x3f, 0; }",
        "vadd.s32.s32.s32 %0, %1, %1;",
    ],
)
def test_a_modifier_that_is_not_understood_is_refused(instruction):
    """An instruction is simulated as it stands or not at all."""
    text = f"""
    extern "C" __global__ void k(int* y) {{
        int r;
        asm("{instruction}" : "=r"(r) : "r"((unsigned)now));
        y[0] = r;
    }}"""
    device = SimDevice("h200")
    ptx = instruction.strip("{ }").split(";")[-2 if ".reg" in instruction else 0].split()[0]
    try:
        image = compile_source(Source.of_text("a.cu", text), device.arch)
    except CompileError:
        pytest.skip("not checked: this compiler does not take it")
    with pytest.raises(UnsupportedError, match=r"a\.cu:\d+: " + re.escape(ptx)):
        device.load(image, "k")


@SCHEDULES
def test_a_predicated_carry_is_kept_where_the_predicate_fails(reverse):
    """@p add.cc sets the carry of its own lanes only."""
    text = """
    extern "C" __global__ void k(const unsigned* x, unsigned* y) {
        unsigned r;
        asm volatile("{ .reg .pred p; .reg .u32 t; add.cc.u32 t, %1, %1; setp.eq.u32 p, %2, 0;"
                     "@p add.cc.u32 t, 1, 1; addc.u32 %0, 0, 0; }"
                     : "=r"(r) : "r"(x[threadIdx.x]), "r"(threadIdx.x % 2));
        y[threadIdx.x] = r;
    }"""
    args = lambda d: (np.full(32, 2**31, np.uint32), d.empty((32,), "uint32"))  # noqa: E731
    (_, y), _ = launch(text, (1,), (32,), args, SimDevice(reverse=reverse))
    np.testing.assert_array_equal(y, np.arange(32) % 2)


def test_a_barrier_of_the_cta_is_a_barrier():
    """bar.cta.sync is bar.sync: ordered where all reach it, and told where part of the block does not."""
    text = """
    extern "C" __global__ void k(const float* x, float* y, int n) {
        __shared__ float s[64];
        int t = threadIdx.x;
        s[t] = x[t];
        if (t / 32 < n) asm volatile("bar.cta.sync 0;" ::: "memory");
        y[t] = s[63 - t];
        if (t / 32 >= n) asm volatile("bar.cta.sync 0;" ::: "memory");
    }"""
    for n, kinds in ((2, set()), (1, {"barrier"})):
        args = lambda d, n=n: (np.arange(64, dtype=np.float32), d.empty((64,), "float32"), np.int32(n))  # noqa: E731
        _, found = launch(text, (1,), (64,), args)
        assert kinds <= {kind for _, kind in found}
        assert kinds or found == []


def test_a_race_in_shared_and_one_between_blocks_on_a_line_are_two():
    """s[i] = g[i] can be both, and neither hides the other."""
    text = """
    extern "C" __global__ void k(int* g) {
        __shared__ int s[1];
        s[0] = threadIdx.x; g[0] = s[0];
    }"""
    device = SimDevice()
    kernel = device.load(compile_source(Source.of_text("a.cu", text).with_volatile_shared(), device.arch), "k")
    kernel((2,), (64,), (device.upload(np.zeros(1, np.int32)),))
    assert {finding.between_blocks for finding in device.take_findings()} == {False, True}


def test_a_product_of_uniform_fragments():
    """mma.sync in a block of two warps whose fragments are all zero constants."""
    text = """
    extern "C" __global__ void k(float* y) {
        float a, b, c, d;
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%5,%5,%5,%5};"
                     : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(0), "f"(1.0f));
        y[threadIdx.x] = a + b + c + d;
    }"""
    (y,), found = launch(text, (1,), (64,), lambda d: (d.empty((64,), "float32"),))
    assert found == []
    assert (y == 4).all()


def test_launches_leave_no_memory_behind():
    """A chunk's arrays are gone when it has run, and what blocks knew of each other with the launch."""
    text = """
    extern "C" __global__ void k(int* y) {
        y[blockIdx.x * blockDim.x + threadIdx.x] = 1;
        __threadfence();
    }"""
    device = SimDevice()
    kernel = device.load(compile_source(Source.of_text("a.cu", text), device.arch), "k")
    y = device.empty((4096 * 64,), "int32")
    for _ in range(3):
        kernel((4096,), (64,), (y,))
    assert not any(done.history.shadows or done.history.carried for done in device.launches)
    assert not [thing for thing in gc.get_objects() if type(thing) is Execution and thing.__dict__]
