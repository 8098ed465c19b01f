"""Cases that are easy to get wrong: false alarms, defects that hide, and messages that lead astray."""

from __future__ import annotations

import numpy as np
import pytest
from finding_run import Empty, asm, errors, floats, ints, kernel, local_access, run

from pytest_roofline.sim.device import SimDevice

XY = "const float* x, float* y"
SCHEDULES = pytest.mark.parametrize("reverse", [False, True], ids=["first-to-last", "last-to-first"])


def found(text, args, reverse=False, grid=(1,), block=(64,), gpu="rtx4090"):
    return run(text, args, grid, block, device=SimDevice(gpu, reverse=reverse))


# False alarms


@SCHEDULES
def test_lanes_may_come_late_to_the_wait_of_a_cluster(reverse):
    """Once all have arrived each lane may pass the wait when it gets there, though others passed it before."""
    text = kernel(
        XY,
        "float v = 0;",
        asm("barrier.cluster.arrive.release.aligned;"),
        "if (t < 32) for (int n = 0; n < 3; ++n) y[i] = v += x[n];",
        asm("barrier.cluster.wait.acquire.aligned;"),
        "__syncthreads(); y[i + 128] = v;",
        bounds="__cluster_dims__(2, 1, 1)",
    )
    assert found(text, (floats(3), Empty(256)), reverse, grid=(2,), gpu="h200").texts() == []


@SCHEDULES
def test_an_atomic_takes_shared_and_global_addresses_in_one_instruction(reverse):
    """Lanes of one generic atomic may address different memories."""
    text = kernel(
        "int* y",
        "__shared__ int s[64];",
        "s[t] = 0; y[t] = 0; __syncthreads();",
        "add(t & 1 ? s + t : y + t, 1);",
        "__syncthreads();",
        "y[t] += s[t];",
        before=("__device__ __noinline__ void add(int* p, int v) { atomicAdd(p, v); }",),
    )
    ran = found(text, (Empty(64, "int32"),), reverse)
    assert ran.texts() == []
    assert (ran.arrays[0] == 1).all()


@pytest.mark.parametrize("space", ["__shared__ int s[64]; int* p = s;", "int* p = x;"], ids=["shared", "global"])
def test_an_exchange_is_a_first_write(space):
    """An atomicExch whose old value nobody takes reads nothing, in shared memory as in global."""
    text = kernel("int* x, int* y", space, "atomicExch(p + 63 - t, 1);", "__syncthreads();", "y[t] = p[t];")
    assert found(text, (Empty(64, "int32"), Empty(64, "int32"))).texts() == []


# Defects that hide


@SCHEDULES
def test_of_many_readers_in_one_instruction_none_is_forgotten(reverse):
    """All blocks read x[0] at once and one of them writes it: a race with the others, whichever block it is."""
    for writer in (0, 3):
        text = kernel("float* x, float* y", "y[i] = x[0];", f"if (t == 0 && b == {writer}) x[0] = 5;")
        assert errors(found(text, (floats(2), Empty(256)), reverse, grid=(4,))) == {("race", ("k.cu:3", "k.cu:4"))}


@SCHEDULES
def test_of_many_updaters_in_one_instruction_none_is_forgotten(reverse):
    """All blocks update x[0] atomically at once and one of them reads it plainly: a warning."""
    for reader in (0, 1):
        text = kernel("int* x, int* y", "atomicAdd(x, 1);", f"if (b == {reader}) y[t] = x[0];")
        assert errors(found(text, (ints(0), Empty(64, "int32")), reverse, grid=(2,))) == {
            ("race", ("k.cu:3", "k.cu:4"))
        }


@SCHEDULES
@pytest.mark.parametrize("space", ["__shared__ int s; int* p = &s;", "int* p = x;"], ids=["shared", "global"])
def test_atomics_against_atomics_are_no_race(space, reverse):
    """Threads and blocks may update one place atomically, by different operations at different lines."""
    text = kernel(
        "int* x", space, "if (p != x) { if (t == 0) *p = 0; __syncthreads(); }", "atomicAdd(p, 1);", "atomicMax(p, 1);"
    )
    ran = found(text, (ints(0),), reverse, grid=(3,))
    assert ran.texts() == []


@SCHEDULES
def test_of_readers_in_two_warps_none_is_forgotten(reverse):
    """Two warps read one slot in one instruction; a write after __syncwarp is ordered after one of them only."""
    for writer in (0, 63):
        text = kernel(
            "const int* n, float* y",
            "__shared__ float s[1];",
            "if (t == 0) s[0] = 1;",
            "__syncthreads();",
            "y[t] = s[n[t]];",
            "__syncwarp();",
            f"if (t == {writer}) s[0] = 5;",
        )
        ran = found(text, (np.zeros(64, np.int32), Empty(64)), reverse)
        assert errors(ran) == {("race", ("k.cu:6", "k.cu:8"))}


@SCHEDULES
def test_an_acquire_before_the_fence_orders_nothing(reverse):
    """A block that went through an atomic access before the writer's fence has not synchronised with it."""
    text = kernel(
        "float* y, int* c, float* z",
        "atomicAdd(c, 1);",
        "__syncthreads();",
        "if (b == 0) { y[t] = 1; __threadfence(); }",
        "__syncthreads();",
        "if (b == 1) z[t] = y[t];",
    )
    ran = found(text, (floats(128), ints(0), Empty(64)), reverse, grid=(2,))
    assert errors(ran) == {("race", ("k.cu:5", "k.cu:7"))}


@SCHEDULES
@pytest.mark.parametrize("called", ["put", "get"])
def test_a_race_through_a_call_is_found(called, reverse):
    """A pointer that a function that is not inlined was given is known for what it points to."""
    functions = (
        "__device__ __noinline__ void put(float* p, const float* q) { p[0] = q[0]; }",
        "__device__ __noinline__ float get(const float* p, int n) { float v = 0; while (n--) v += p[n]; return v; }",
    )
    reads = {"put": "put(z + t, y + t);", "get": "z[t] = get(y + t, n);"}[called]
    text = kernel("float* y, float* z, int n", "if (b == 0) put(y + t, z + 64 + t);", f"else {reads}", before=functions)
    ran = found(text, (floats(128), floats(128), np.int32(1)), reverse, grid=(2,))
    assert [finding.kind for finding in ran.findings] == ["race"]


@SCHEDULES
def test_a_race_through_pointers_in_a_struct_is_found(reverse):
    """Pointers in a parameter that is a struct by value may point to anything."""
    text = kernel(
        "Two p",
        "if (b == 0) p.y[t] = 2;",
        "else p.z[t] = p.y[t];",
        before=("struct Two { float* y; float* z; };",),
    )
    device = SimDevice(reverse=reverse)
    y, z = device.upload(floats(64)), device.empty((64,), "float32")
    two = np.array([(y.pointer, z.pointer)], [("y", "u8"), ("z", "u8")])[0]
    assert errors(run(text, (two,), grid=(2,), device=device)) == {("race", ("k.cu:4", "k.cu:5"))}


@SCHEDULES
def test_counts_of_a_named_barrier_that_differ_are_found_by_either_schedule(reverse):
    """Two warps meet at a barrier, one for 64 and one for 32 threads."""
    text = kernel("float* y", "if (t < 32) " + asm("bar.sync 1, 64;"), "else " + asm("bar.sync 1, 32;"), "y[t] = 1;")
    assert [finding.kind for finding in found(text, (Empty(64),), reverse).findings] == ["barrier"]


def test_the_old_value_of_an_exchange_is_a_read():
    """An atomicExch whose old value is used reads what nobody wrote."""
    ran = found(kernel("int* x, int* y", "y[t] = atomicExch(x + t, 1);"), (Empty(64, "int32"), Empty(64, "int32")))
    assert errors(ran) == {("uninitialised", ("k.cu:3",))}


def test_local_memory_ends_where_its_last_variable_ends():
    """An array of 5 floats has no sixth, though local memory is held in units of 16 bytes."""
    (finding,) = local_access("float", 5, "a[n[t]] = 7;", range(8)).findings
    assert (finding.kind, finding.thread, finding.count) == ("memory", (5, 0, 0), 3)


def test_a_misaligned_access_to_local_memory_is_found():
    """An int at an odd address of a char array."""
    (finding,) = local_access("char", 64, "*(volatile int*)(a + n[t]) = 7;", range(16)).findings
    assert (finding.kind, finding.thread, finding.count) == ("memory", (1, 0, 0), 12)
    assert "misaligned" in finding.message


@pytest.mark.parametrize("address", [0x7F00000000000010, 2**64 - 16], ids=["in-no-window", "negative"])
@pytest.mark.parametrize("mixed", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("call", ["y[t] = get({});", "put({});"], ids=["load", "store"])
def test_a_generic_address_of_no_memory_is_found(address, mixed, call):
    """A wild pointer is an access to what is not allocated, whatever its upper bits are."""
    pointer = "t & 1 ? s + t : (float*)a[0]" if mixed else "(float*)a[t & 1]"
    text = kernel(
        "const unsigned long long* a, float* y",
        "__shared__ float s[64]; s[t] = 1; __syncthreads();",
        call.format(pointer),
        before=(
            "__device__ __noinline__ float get(volatile float* p) { return *p; }",
            "__device__ __noinline__ void put(volatile float* p) { *p = 1; }",
        ),
    )
    (finding,) = found(text, (np.array([address, address], np.uint64), Empty(64))).findings
    assert (finding.kind, finding.count) == ("memory", 32 if mixed else 64)
    assert f"{address:#x}, where nothing is allocated" in finding.message
