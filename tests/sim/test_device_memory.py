"""Arrays of the simulated device: patterns, what kernels stored to, contents given anew, null pointers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from finding_run import errors, kernel, run

from pytest_roofline.build.nvrtc import compile_source
from pytest_roofline.build.source import Source
from pytest_roofline.errors import DeviceError, RefusedError
from pytest_roofline.sim.device import SimDevice

POISON = 0xFF
SPARSE = pytest.mark.parametrize("sparse_above", [2**28, 2**10], ids=["dense", "by-pages"])


def store(device, array, *statements, parameters="int* p", args=(), threads=32):
    """Launch a kernel of ``statements`` over ``array``; nothing may be found."""
    image = compile_source(Source.of_text("k.cu", kernel(parameters, *statements)), device.arch)
    device.load(image, "k")((1,), (threads,), (array, *args))
    assert device.take_findings() == ()


@SPARSE
@pytest.mark.parametrize("dtype", [np.int8, np.float16, ml_dtypes.bfloat16, np.int32, np.float32, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (20_011,), (40, 3, 999)])
def test_a_pattern_is_repeated_over_any_shape(sparse_above, dtype, shape):
    """Element i in C order is tile[i % len(tile)], bit for bit, whether it exists whole or by pages."""
    tile = np.random.default_rng(0).integers(0, 2**16, 13 * np.dtype(dtype).itemsize).astype(np.uint8).view(dtype)
    array = SimDevice(sparse_above=sparse_above).repeat(tile, shape)
    got = array.get()
    assert (got.shape, got.dtype) == (shape, tile.dtype)
    assert got.tobytes() == np.resize(tile, shape).tobytes()


def test_a_pattern_is_a_row_of_values():
    """Two dims, or no value at all, are refused."""
    for tile in (np.zeros((2, 2)), np.zeros(0)):
        with pytest.raises(RefusedError, match="row of values"):
            SimDevice().repeat(tile, (4,))


def test_reading_a_pattern_is_no_finding():
    """It counts as written by the host."""
    device = SimDevice(sparse_above=2**10)
    store(device, device.repeat(np.arange(3, dtype=np.int32), (99_999,)), "p[t] = p[90000 + t];")


WAYS = {
    "the value that was there": ("p[2 * t] = -1;", range(0, 64, 2)),
    "after a fence": ("__threadfence(); p[t + 7] = 0; __threadfence();", range(7, 39)),
    "volatile": ("((volatile int*)p)[t + 3] = 0;", range(3, 35)),
    "vector": ("((int4*)p)[t / 16] = int4{0, 0, 0, 0};", range(8)),
    "one byte": ("((char*)p)[4 * t + 1] = 0;", range(32)),
    "atomicAdd": ("if (t < 5) atomicAdd(p + 9, 1);", [9]),
    "red of nothing": ("if (t == 0) atomicAdd(p + 11, 0);", [11]),
    "a cas that fails": ("atomicCAS(p + 40 + t % 4, 123456, 1);", range(40, 44)),
    "an exchange": ("atomicExch(p + 63, 1);", [63]),
    "none": ("if (p[t] == 123456) p[t] = 1;", []),
}


@SPARSE
@pytest.mark.parametrize("way", WAYS)
def test_what_was_stored_to_is_known_whatever_the_values(sparse_above, way):
    """Every way to store, into arrays that the host had filled, with values or with a pattern."""
    statement, wanted = WAYS[way]
    device = SimDevice(sparse_above=sparse_above)
    for array in (device.upload(np.full(20_000, -1, np.int32)), device.repeat(np.array([-1], np.int32), (200, 100))):
        assert device.written(array).size == 0
        store(device, array, statement)
        found = device.written(array)
        assert found.dtype == np.int64
        assert found.tolist() == list(wanted)
        assert device.fingerprint(array) == len(wanted)


@SPARSE
def test_stores_add_up_over_launches(sparse_above):
    """What an earlier launch stored stays known, also in an array that began as poison."""
    device = SimDevice(sparse_above=sparse_above)
    array = device.empty((100_000,), "int32")
    store(device, array, "p[99999 - t] = 1;")
    store(device, array, "p[t + 16000] = 1;")
    assert device.written(array).tolist() == [*range(16_000, 16_032), *range(99_968, 100_000)]


VIEWS = {
    "whole": lambda a: a,
    "a row": lambda a: a[3],
    "a slice of rows": lambda a: a[2:7],
    "columns": lambda a: a[:, 5:90:3],
    "backwards": lambda a: a[::-1, ::-2],
    "a column": lambda a: a[:, 7],
    "one element": lambda a: a[1, 2],
    "other shape": lambda a: a.reshape((200, 50)),
    "no elements": lambda a: a[4:4],
}


@SPARSE
@pytest.mark.parametrize("dtype", ["int32", "int16", "complex128"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_tells_of_its_own_elements(sparse_above, dtype, view):
    """Indices are those of the view, in C order: the same as NumPy gives for a mask viewed alike."""
    device = SimDevice(sparse_above=sparse_above)
    array = device.empty((100, 100), dtype)
    places = np.random.default_rng(1).permutation(100 * 100)[:3000].astype(np.int32)
    size = array.dtype.itemsize
    store(
        device, array, f"for (int i = t; i < 3000; i += 32) p[{size}ll * n[i]] = 0;",
        parameters="char* p, const int* n", args=(device.upload(places),),
    )  # fmt: skip
    mask = np.zeros(100 * 100, bool)
    mask[places] = True
    wanted = np.flatnonzero(VIEWS[view](mask.reshape(100, 100)))
    assert device.written(VIEWS[view](array)).tolist() == wanted.tolist()


@SPARSE
def test_contents_given_anew_are_those_of_the_host(sparse_above):
    """write: the values, no store is known any more, reading is no finding, and neighbours keep theirs."""
    device = SimDevice(sparse_above=sparse_above)
    array = device.empty((50_000,), "int32")
    store(device, array, "for (int i = t; i < 50000; i += 32) p[i] = i;")
    device.write(array[100:30_000], np.arange(29_900, dtype=np.int32) * 3)
    assert device.written(array).tolist() == [*range(100), *range(30_000, 50_000)]
    want = np.arange(50_000, dtype=np.int32)
    want[100:30_000] = np.arange(29_900) * 3
    assert (device.download(array) == want).all()
    device.write(device.empty((4, 4), "float32")[1], np.ones(4, np.float32))
    fresh = device.empty((64,), "int32")
    device.write(fresh, np.arange(64, dtype=np.int32))
    store(device, fresh, "p[t] = p[t + 32];")
    assert device.written(fresh).tolist() == list(range(32))


def test_contents_of_another_kind_are_refused():
    """Another type, another size, or a view that is not contiguous."""
    device = SimDevice()
    array = device.empty((8, 8), "int32")
    for target, host in (
        (array, np.zeros(64, np.int64)),
        (array, np.zeros(63, np.int32)),
        (array[:, :4], np.zeros(32, np.int32)),
    ):
        with pytest.raises(RefusedError, match="nothing was written"):
            device.write(target, host)
    with pytest.raises(RefusedError, match="not poisoned"):
        device.poison(array[:, :4], POISON)


@SPARSE
def test_poison_is_as_if_nobody_had_written(sparse_above):
    """poison: the byte everywhere, no store is known, and reading it is found; what lies behind is as it was."""
    device = SimDevice(sparse_above=sparse_above)
    base = device.upload(np.zeros(90_000, np.int32))
    array = base[:60_000]
    store(device, base, "p[70000 + t] = 5;", "p[t] = 5;", "p[30000 + t] = 5;")
    device.poison(array, 0x55)
    assert device.written(array).size == 0
    assert device.written(base).tolist() == list(range(70_000, 70_032))
    assert (device.download(array) == 0x55555555).all()
    assert device.download(base[60_000:]).tolist() == [0] * 10_000 + [5] * 32 + [0] * 19_968
    ran = run(kernel("int* p", "p[t] = p[t + 16380];"), (array,), block=(32,), device=device)
    assert errors(ran) == {("uninitialised", ("k.cu:3",))}
    assert device.written(array).tolist() == list(range(32))


def test_what_would_be_a_copy_is_no_view():
    """Indices by arrays, and other shapes of what is not contiguous: refused, for the device copies nothing."""
    array = SimDevice().empty((8, 8), "int32")
    for make in (lambda: array[np.array([1, 2])], lambda: array[array.layout > 0], lambda: array[:, :4].reshape(32)):
        with pytest.raises(RefusedError, match="copy"):
            make()


def test_poison_reaches_pages_that_are_made_later():
    """Of a large array only the pages that exist are written; the others come with the byte, or with a later one."""
    device = SimDevice(sparse_above=2**10)
    array = device.repeat(np.arange(7, dtype=np.uint8), (2**20,))
    device.poison(array[5 : 2**19], 0x11)
    device.poison(array[2**17 : 2**18], 0x22)
    assert array.allocation.data.size == 0
    want = np.resize(np.arange(7, dtype=np.uint8), 2**20)
    want[5 : 2**19] = 0x11
    want[2**17 : 2**18] = 0x22
    assert (device.download(array) == want).all()
    store(device, array, "p[t] = p[600000 + t];", parameters="char* p")
    ran = run(kernel("char* p", "p[t] = p[t + 300000];"), (array,), block=(32,), device=device)
    assert errors(ran) == {("uninitialised", ("k.cu:3",))}


def test_none_is_a_null_pointer():
    """A kernel that asks for it sees 0 and does nothing."""
    text = kernel("int* p, int* y", "y[t] = p == nullptr ? 1 : *p;")
    ran = run(text, (None, np.zeros(32, np.int32)), block=(32,))
    assert ran.findings == ()
    assert (ran.arrays[0] == 1).all()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("y[t] = p[t];", "access of 4 bytes at 0x0, through a null pointer, argument 0 of k"),
        ("if (t == 3) p[t] = 0;", "access of 4 bytes at 0xc, through a null pointer, argument 0 of k"),
        ("if (t < 3) atomicAdd(p + 100, 1);", "access of 4 bytes at 0x190, through a null pointer, argument 0 of k"),
        ("y[t] = *(int*)(long long)(4 * t);", "access of 4 bytes at 0x0, through a null pointer at"),
        ("y[t] = p[-1];", "access of 4 bytes at 0xfffffffffffffffc, where nothing is allocated"),
    ],
    ids=["read", "write", "atomic", "made-up", "before-it"],
)
def test_an_access_through_a_null_pointer_is_told_as_one(statement, said):
    """A memory finding with the argument, where it is known which."""
    ran = run(kernel("int* p, int* y", statement), (None, np.zeros(32, np.int32)), block=(32,))
    assert [(f.kind, f.severity) for f in ran.findings] == [("memory", "error")]
    assert said in str(ran.findings[0])


def test_null_is_a_pointer_and_no_number():
    """A parameter of another size refuses it."""
    with pytest.raises(DeviceError, match="parameter 1 has 4 bytes, 8 were given"):
        run(kernel("int* p, int n", "p[t] = n;"), (np.zeros(64, np.int32), None))
