"""Waits that never end are told at once, waits that end are waited for, and no grid is too large to begin with."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from finding_run import ints, kernel, run

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.machine.launch import STEPS_LIMIT
from pytest_roofline.sim.machine.scheduler import Scheduler

MANY = 2**31 - 1  # blocks, the most that a grid has
LOOKED_AT = 40_000  # steps allowed, so that it is looked at from 2,500 on
TOLD = 20_000  # steps; of a million it would be a minute

ENDLESS = {
    "volatile": "if (b == 0) while (((volatile int*)go)[0] == 0);",
    "atomic": "if (b == 0) while (atomicAdd(go, 0) == 0);",
    "compare-and-swap": "if (b == 0) while (atomicCAS(go, 1, 2) == 0);",
    "asleep": "if (b == 0) while (((volatile int*)go)[0] == 0) __nanosleep(100);",
    "fenced": "if (b == 0) while (((volatile int*)go)[0] == 0) __threadfence();",
    "one-lane": "if (t == 5) while (((volatile int*)go)[0] == 0);",
    "others-at-a-barrier": "if (t == 0) while (((volatile int*)go)[0] == 0);\n__syncthreads();\ngo[1] = 1;",
    "in-turns": "while (((volatile int*)go)[t & 1] == 0) if (t & 2) __nanosleep(1);",
    "of-shared-memory": "__shared__ volatile int s[1]; s[0] = 0; __syncthreads(); while (s[0] == 0);",
    "barriers": "do __syncthreads(); while (((volatile int*)go)[0] == 0);",
    "lost-lock": "if (t < 2) while (atomicExch(go + 1, 1) != 0);",
    "a-number-that-is-none": "float f = go[0] / 0.0f; while (((volatile int*)go)[0] * f != 1.0f) f = f * f;",
}


@pytest.mark.parametrize("reverse", [False, True], ids=["", "reverse"])
@pytest.mark.parametrize("way", ENDLESS)
def test_a_wait_for_nobody_is_told_at_once(way, reverse):
    """With the limit that users have: it is known by what no longer changes, long before that many steps."""
    text = kernel("int* go", *ENDLESS[way].split("\n"))
    device = SimDevice(reverse=reverse)
    ran = run(text, (np.zeros(4, np.int32),), grid=(2,), block=(32,), device=device, steps=STEPS_LIMIT)
    told = [str(finding) for finding in ran.findings if finding.kind == "steps"]
    assert len(told) == 1
    assert "a wait for what does not come at k.cu:3, block" in told[0]
    assert int(told[0].split("no end after ")[1].split()[0]) < TOLD


ENDING = {
    "by-the-clock": ("long long s = clock64(); while (clock64() - s < 250000);", 1),
    "by-a-count": ("int n = 0; while (((volatile int*)go)[0] == 0 && n < 6000) ++n; go[1] = n;", 6_000),
    "by-another-lane": (
        "volatile int* v = go;\n"
        "if (t == 0) { int n = 1; for (int i = 0; i < 4000; ++i) n = n * 5 + v[2]; v[3] = n;\n"
        "__threadfence(); v[0] = 1; }\n"
        "else if (t == 1) while (v[0] == 0);\ngo[1] = 7;",
        7,
    ),
    "by-a-counter-in-memory": ("if (t == 0) while (atomicAdd(go, 1) < 4000); go[1] = 3;", 3),
    "by-a-counter-that-is-stored": ("volatile int* v = go; if (t == 0) while (v[2]++ < 4000); go[1] = 4;", 4),
    "by-a-counter-in-shared-memory": (
        "__shared__ volatile int s[1];\nif (t == 0) { s[0] = 0; while (s[0]++ < 4000); go[1] = s[0]; }",
        4_001,
    ),
    "by-a-lane-on-a-long-way": (
        "volatile int* v = go;\nif (t == 1) {\n#pragma unroll\nfor (int i = 0; i < 300; ++i) __syncwarp(2);\n"
        "v[0] = 1;\n} else if (t == 0) while (v[0] == 0);\ngo[1] = 8;",
        8,
    ),
    "by-an-atomic-in-shared-memory": (
        "__shared__ int s[1];\nif (t == 0) { s[0] = 0; while (atomicAdd(s, 1) < 4000); go[1] = 5; }",
        5,
    ),
    "by-the-clock-in-turns": (
        "long long s = clock64(); if (t & 1) while (clock64() - s < 250000); else while (clock64() - s < 400000);"
        " go[1] = 6;",
        6,
    ),
    "locks-in-turns": (
        "volatile int* v = go;\nif (t < 4) for (int i = 0; i < 60; ++i) {\nwhile (atomicCAS(go, 0, 1) != 0);\n"
        "v[1] = v[1] + 1;\n__threadfence(); atomicExch(go, 0);\n} // go[1]",
        60 * 4,
    ),
}


@pytest.mark.parametrize("reverse", [False, True], ids=["", "reverse"])
@pytest.mark.parametrize("way", ENDING)
def test_a_wait_that_ends_is_waited_for(way, reverse):
    """Thousands of steps in which nothing happens but time, or another lane's work, are no endless wait."""
    statements, wanted = ENDING[way]
    statements = statements if "go[1]" in statements else statements + " go[1] = 1;"
    text = kernel("int* go", *statements.split("\n"))
    device = SimDevice(reverse=reverse)
    ran = run(text, (np.zeros(4, np.int32),), block=(32,), device=device, steps=LOOKED_AT)
    assert [finding for finding in ran.findings if finding.kind == "steps"] == []
    assert ran.arrays[0][1] == wanted


def test_a_bounded_local_array_is_no_endless_wait():
    """What a lane writes to its local memory changes what it does next."""
    text = kernel(
        "int* go", "int a[64]; for (int i = 0; i < 64; ++i) a[i] = go[i & 3];",
        "volatile int* v = a; int k = go[2]; while (v[k]++ < 4000);", "go[1] = v[k];",
    )  # fmt: skip
    ran = run(text, (ints(0, 0, 5, 0),), block=(1,), steps=LOOKED_AT)
    assert ran.findings == ()
    assert ran.arrays[0][1] == 4001


ASYNC = {
    "arrivals-at-an-mbarrier": (
        "__shared__ unsigned long long s[1]; unsigned a = (unsigned)__cvta_generic_to_shared(s), over = 0;\n"
        'asm volatile("mbarrier.init.shared.b64 [%0], 4000;" :: "r"(a));\n'
        'while (!over) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(a));\n'
        'asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"'
        ' : "=r"(over) : "r"(a) : "memory"); }'
    ),
    "copies-under-way": (
        "__shared__ volatile int s[1]; unsigned a = (unsigned)__cvta_generic_to_shared((int*)s); s[0] = 0;\n"
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(a), "l"(go + 2) : "memory");\n'
        'while (s[0] == 0) asm volatile("cp.async.commit_group; cp.async.wait_group 4000;" ::: "memory");'
    ),
}


@pytest.mark.parametrize("way", ASYNC)
def test_what_is_under_way_ends_a_wait(way):
    """Arrivals that are counted, and groups of copies that come to be waited for, are changes."""
    text = kernel("int* go", *ASYNC[way].split("\n"), "go[1] = 9;")
    ran = run(text, (ints(0, 0, 1, 0),), block=(1,), steps=LOOKED_AT)
    assert [finding for finding in ran.findings if finding.kind == "steps"] == []
    assert ran.arrays[0][1] == 9


class EnoughError(Exception):
    """Stops a launch of which the beginning is enough."""


@pytest.mark.parametrize("reverse", [False, True], ids=["", "reverse"])
def test_the_largest_grid_takes_no_memory_of_its_own(reverse, monkeypatch):
    """Blocks are numbered as they come: the numbers of all would be 16 GiB."""
    device = SimDevice(reverse=reverse)
    image = compile_source(Source.of_text("k.cu", kernel("int* p", "p[0] = 1;")), device.arch)
    array, loaded, chunks = device.empty((4,), "int32"), device.load(image, "k"), []

    def begin(scheduler):
        chunks.append(scheduler.chunk.numbers)
        if len(chunks) == 2:
            raise EnoughError

    monkeypatch.setattr(Scheduler, "run", begin)
    tracemalloc.start()
    try:
        with pytest.raises(EnoughError):
            loaded((MANY,), (32,), (array,))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**26
    size = len(chunks[1])
    assert 0 < size < 2**16
    first = chunks[1 if reverse else 0]
    if reverse:
        assert chunks[0][-1] == MANY - 1
        assert first[-1] + 1 == chunks[0][0]
    else:
        assert chunks[0].tolist() == list(range(size))
        assert chunks[1].tolist() == list(range(size, 2 * size))


def test_chosen_blocks_of_the_largest_grid_run():
    """The first, the last, and one between, each once."""
    device = SimDevice()
    text = kernel("long long* p", "if (t == 0) p[b % 13] = b + 1;")
    loaded = device.load(compile_source(Source.of_text("k.cu", text), device.arch), "k")
    array = device.upload(np.zeros(13, np.int64))
    chosen = [0, 10**9, MANY - 1]
    device.launch(loaded, (MANY, 1, 1), (32, 1, 1), (array,), 0, chosen)
    device.synchronize()
    want = np.zeros(13, np.int64)
    for block in chosen:
        want[block % 13] = block + 1
    assert (device.download(array) == want).all()
