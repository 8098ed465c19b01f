"""How findings are told: severity, counts, what they name, and how they leave the device."""

from __future__ import annotations

import pytest
from finding_run import Defect, Empty, errors, floats, kernel, local_access, run

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.sim.device import SimDevice
from pytest_roofline.sim.errors import SimulationError

XY = "const float* x, float* y"
SCHEDULES = pytest.mark.parametrize("reverse", [False, True], ids=["first-to-last", "last-to-first"])
BROADCAST_READ = kernel(XY, "__shared__ float s[1];", "if (t == 0) s[0] = x[0];", "y[t] = s[0];")


def found(text, args, reverse=False, grid=(1,), block=(64,)):
    return run(text, args, grid, block, device=SimDevice(reverse=reverse))


S4 = "__shared__ float4 s[64];"


@pytest.mark.parametrize(
    ("kind", "times", "text"),
    [
        (
            "uninitialised",
            3,
            kernel(
                "const float4* x, float4* y", S4, "if (t >= 3) s[t] = x[t];", "__syncthreads();", "y[t] = s[63 - t];"
            ),
        ),
        ("race", 64, kernel("const float4* x, float4* y", S4, "s[t] = x[t];", "y[t] = s[63 - t];")),
        ("race", 1, kernel("const float4* x, float4* y", "if (b < 2 && t == 0) y[0] = x[b];")),
    ],
    ids=["unwritten", "shared-race", "global-race"],
)
def test_the_count_is_of_threads_and_not_of_words(kind, times, text):
    """A thread that accesses a float4 is one thread."""
    (finding,) = found(text, (floats(256), Empty(256)), grid=(2,) if times == 1 else (1,)).findings
    assert (finding.kind, finding.count) == (kind, times)


def test_a_thread_that_races_with_blocks_before_and_beside_it_counts_once():
    """Eighty blocks write two places; no more than the 78 that are not the first can see another."""
    (finding,) = found(
        kernel("float* y", "if (t == 0) y[b / 40] = 1;"), (Empty(2),), grid=(80,), block=(1024,)
    ).findings
    assert (finding.kind, finding.count) == ("race", 78)


def test_a_thread_does_not_race_with_itself():
    """Thread 0 wrote what all read: 31 lanes of its warp are warned of, the 32 of the other warp are errors."""
    ran = found(BROADCAST_READ, (floats(1), Empty(64)), reverse=True)
    told = {finding.severity: finding for finding in ran.findings}
    assert {severity: (f.thread, f.count) for severity, f in told.items()} == {
        "error": ((32, 0, 0), 32),
        "warning": ((1, 0, 0), 31),
    }


@SCHEDULES
def test_in_one_warp_a_race_is_a_warning(reverse):
    """All lanes of the only warp read one slot, and lane 0 writes it again without __syncwarp."""
    text = kernel(
        XY,
        "__shared__ float s[1]; float v = 0;",
        "for (int r = 0; r < 3; ++r) {",
        "if (t == 0) s[0] = x[t] + r;",
        "__syncwarp();",
        "v += s[0];",
        "}",
        "y[t] = v;",
    )
    ran = found(text, (floats(32), Empty(32)), reverse, block=(32,))
    assert [(finding.kind, finding.severity) for finding in ran.findings] == [("race", "warning")]


def test_an_access_before_a_buffer_is_found():
    """x[t - 3] of the first three threads, of the first buffer and of another."""
    for parameters, args in ((XY, (floats(64), Empty(64))), ("float* y, const float* x", (Empty(64), floats(64)))):
        (finding,) = found(kernel(parameters, "y[t] = x[t - 3];"), args).findings
        assert (finding.kind, finding.severity, finding.lines) == ("memory", "error", ("k.cu:3",))
        assert (finding.block, finding.thread, finding.count) == ((0, 0, 0), (0, 0, 0), 3)


@pytest.mark.parametrize("first", [False, True], ids=["of-the-second-buffer", "of-the-first-buffer"])
def test_an_access_before_a_buffer_names_it(first):
    """x[-1] is told as before x, and not as far behind whatever lies there."""
    parameters = "const float* x, float* y" if first else "float* y, const float* x"
    args = (floats(64), Empty(64)) if first else (Empty(64), floats(64))
    (finding,) = found(kernel(parameters, "y[t] = x[t - 1];"), args).findings
    assert f"argument {0 if first else 1} of k (64 float32)" in finding.message
    assert "past the end" not in finding.message


def test_a_misaligned_access_names_its_buffer():
    """Size, address and buffer are told, as for an access out of bounds."""
    ran = found(kernel(XY, "((float4*)y)[t] = *(const float4*)(x + 4 * t + 1);"), (floats(264), Empty(256)))
    (finding,) = ran.findings
    assert "misaligned access of 16 bytes" in finding.message
    assert "argument 0 of k (264 float32)" in finding.message


def test_an_access_outside_of_local_memory_names_size_and_offset():
    """Size and offset are told, as for shared memory."""
    (finding,) = local_access("float", 8, "a[n[t]] = 7;", range(16)).findings
    assert (finding.kind, finding.thread, finding.count) == ("memory", (8, 0, 0), 8)
    assert "4 bytes" in finding.message
    assert "0x20" in finding.message


# How findings leave the device


@pytest.fixture
def warned():
    """A device after a launch with a warning."""
    device = SimDevice()
    text = kernel(XY, "__shared__ float s[32];", "s[t] = x[t];", "y[t] = s[t ^ 1];")
    loaded = device.load(compile_source(Source.of_text("k.cu", text), device.arch), "k")
    arrays = device.upload(floats(32)), device.empty((32,), "float32")
    loaded((1,), (32,), arrays)
    return device


def test_a_warning_does_not_raise_and_is_still_there_afterwards(warned):
    """synchronize() raises for errors only; a warning that it did not tell is not forgotten."""
    warned.synchronize()
    (finding,) = warned.take_findings()
    assert (finding.kind, finding.severity) == ("race", "warning")
    assert str(finding).startswith("warning: race in k: ")
    assert warned.take_findings() == ()


def test_an_error_raises_once_with_warnings_and_errors(warned):
    """The exception holds everything since the last call, its text each finding; then all is forgotten."""
    text = kernel("float* y", "y[t] = 1;")
    loaded = warned.load(compile_source(Source.of_text("k.cu", text), warned.arch), "k")
    for count in (30, 20):  # the same line in the second launch: one finding
        loaded((1,), (32,), (warned.empty((count,), "float32"),))
    with pytest.raises(SimulationError, match="the simulator found 2 defects:\n  warning: race in k") as caught:
        warned.synchronize()
    assert [(f.kind, f.severity, f.count) for f in caught.value.findings] == [
        ("race", "warning", 32),
        ("memory", "error", 14),
    ]
    assert all(str(finding) in str(caught.value) for finding in caught.value.findings)
    warned.synchronize()
    assert warned.take_findings() == ()


def test_a_plain_build_hides_what_the_volatile_one_shows():
    """The compiler deletes a racy read that nobody uses; with volatile shared memory the race is there."""
    text = kernel(XY, "__shared__ float s[64];", "s[t] = x[t];", "const float v = s[t ^ 32]; (void)v;", "y[t] = x[t];")
    defect = Defect("", text, ("", ""), (floats(64), Empty(64)), ())
    assert defect.run().findings == ()
    source = Source.of_text("k.cu", text).with_volatile_shared()
    assert errors(run(source, defect.args)) == {("race", ("k.cu:4", "k.cu:5"))}
