"""Kernels of the usual kinds: transposes, scans, histograms, reductions, products, stencils, sorts, training.

Every one comes with its inputs from a fixed seed, a reference in float64 or exact integers, and one broken form.
"""

import math

import numpy as np
from foreign_kernel import Broken, Call, Foreign, from_bfloat16, to_bfloat16

TRANSPOSE_ROWS, TRANSPOSE_COLS = 75, 110
SCAN_N, SCAN_BLOCK = 1111, 192
LARGE_N, LARGE_BLOCK, LARGE_BLOCKS = 4900, 256, 20
IMAGE_WIDTH, IMAGE_HEIGHT, IMAGE_PITCH = 101, 75, 128
BINS, BINS_LOW, BINS_HIGH, SAMPLES = 10, -2.0, 1.5, 3000
MOMENTS_N = 5003
DOT_N, DOT_BLOCK, DOT_BLOCKS = 3001, 128, 7
TILED_M, TILED_N, TILED_K = 45, 52, 37
REGISTER_M, REGISTER_N, REGISTER_K = 70, 50, 29
FIELD_WIDTH, FIELD_HEIGHT = 75, 50
HEAT_X, HEAT_Y, HEAT_Z = 37, 21, 10
SORT_N, SORT_SEGMENT = 400, 128
RADIX_N, RADIX_BLOCK, RADIX_BLOCKS, RADIX_SHIFT = 2500, 128, 20, 8
ADAM_N, ADAM_STEP = 1000, 3
ADAM = {"rate": 1e-2, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "decay": 0.1, "scale": 0.25}
NORM_ROWS, NORM_COLS = 22, 100
ACTIVATION_N, GATE_PAIRS = 1500, 700
PHILOX_N, PHILOX_SEED, PHILOX_OFFSET = 1000, 0x0123456789ABCDEF, 2**32 - 100
FRACTAL_WIDTH, FRACTAL_HEIGHT, FRACTAL_LIMIT = 70, 45, 200
FRACTAL_LEFT, FRACTAL_TOP, FRACTAL_STEP = -2.2, 1.1, 0.046875
SPARSE_ROWS, SPARSE_COLS = 150, 200
MEDIAN_WIDTH, MEDIAN_HEIGHT = 21, 11
GRAPH_N, GRAPH_TILES = 41, 3
NO_PATH = 1 << 29


def transpose_inputs():
    return {"in": np.random.default_rng(1).standard_normal((TRANSPOSE_ROWS, TRANSPOSE_COLS), dtype=np.float32)}


def transpose_reference(arrays):
    return {"out": arrays["in"].T}


def conjugate_inputs():
    return {"in": np.random.default_rng(2).standard_normal((45, 70, 2), dtype=np.float32)}


def conjugate_reference(arrays):
    return {"out": arrays["in"].transpose(1, 0, 2) * np.array([1.0, -1.0])}


def block_scan_inputs():
    return {"in": np.random.default_rng(3).integers(-1000, 1000, SCAN_N, dtype=np.int32)}


def block_scan_reference(arrays):
    parts = np.split(arrays["in"].astype(np.int64), range(SCAN_BLOCK, SCAN_N, SCAN_BLOCK))
    return {"out": np.concatenate([np.cumsum(part) for part in parts])}


def large_scan_inputs():
    return {"in": np.random.default_rng(4).integers(0, 2**32, LARGE_N, dtype=np.uint32)}


def large_scan_reference(arrays):
    out = np.cumsum(arrays["in"], dtype=np.uint64)
    return {"out": out, "totals": np.concatenate([[np.uint64(0)], out[LARGE_BLOCK - 1 :: LARGE_BLOCK]])}


def image_inputs():
    image = np.random.default_rng(5).normal(90.0, 30.0, (IMAGE_HEIGHT, IMAGE_PITCH))
    return {"pixels": np.clip(image, 0, 255).astype(np.uint8), "histogram": np.zeros(256, np.uint32)}


def image_reference(arrays):
    return {"histogram": np.bincount(arrays["pixels"][:, :IMAGE_WIDTH].ravel(), minlength=256)}


def weighted_inputs():
    rng = np.random.default_rng(6)
    samples = rng.standard_normal(SAMPLES, dtype=np.float32)
    samples[:4] = BINS_LOW, BINS_HIGH, np.nan, np.nextafter(np.float32(BINS_HIGH), np.float32(0))
    return {
        "samples": samples,
        "weights": rng.integers(0, 2**32, SAMPLES, dtype=np.uint32),
        "sums": np.zeros(BINS + 1, np.uint64),
        "largest": np.zeros(BINS + 1, np.uint32),
    }


def weighted_reference(arrays):
    """The bin of a sample is found in float32, step by step as in the kernel: it has to be the same one."""
    x, low, high = arrays["samples"], np.float32(BINS_LOW), np.float32(BINS_HIGH)
    inside = (x >= low) & (x < high)
    position = (np.where(inside, x, low) - low) * (np.float32(BINS) / (high - low))
    bins = np.where(inside, np.minimum(position.astype(np.int32), BINS - 1), BINS)
    weights = [arrays["weights"][bins == b] for b in range(BINS + 1)]
    return {
        "sums": np.array([w.sum(dtype=np.uint64) for w in weights]),
        "largest": np.array([w.max() for w in weights]),
    }


def moments_inputs():
    x = np.random.default_rng(7).uniform(-0.5, 1.5, MOMENTS_N).astype(np.float32)
    return {"x": x, "result": np.zeros(2, np.float32)}


def moments_reference(arrays):
    x = arrays["x"].astype(np.float64)
    return {"result": np.array([x.sum(), (x * x).sum()])}


def dot_inputs():
    rng = np.random.default_rng(8)
    return {"x": rng.standard_normal(DOT_N, dtype=np.float32), "y": rng.standard_normal(DOT_N, dtype=np.float32)}


def dot_reference(arrays):
    products = arrays["x"].astype(np.float64) * arrays["y"].astype(np.float64)
    block = np.arange(DOT_N) // DOT_BLOCK % DOT_BLOCKS
    partial = np.array([math.fsum(products[block == b]) for b in range(DOT_BLOCKS)])
    return {"partial": partial, "result": np.array([math.fsum(products)])}


def tiled_inputs():
    rng = np.random.default_rng(9)
    shapes = {"A": (TILED_M, TILED_K), "B": (TILED_K, TILED_N), "C": (TILED_M, TILED_N)}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def tiled_reference(arrays):
    return {"C": 1.5 * (arrays["A"].astype(np.float64) @ arrays["B"]) - 0.5 * arrays["C"]}


def register_inputs():
    rng = np.random.default_rng(10)
    shapes = {"A": (REGISTER_M, REGISTER_K), "B": (REGISTER_K, REGISTER_N)}
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def register_reference(arrays):
    return {"C": arrays["A"].astype(np.float64) @ arrays["B"]}


def field_inputs():
    return {"in": np.random.default_rng(11).uniform(-1.0, 1.0, (FIELD_HEIGHT, FIELD_WIDTH)).astype(np.float32)}


def field_reference(arrays):
    padded = np.pad(arrays["in"].astype(np.float64), 1, mode="edge")
    return {
        "out": 0.40 * padded[1:-1, 1:-1]
        + 0.20 * padded[1:-1, :-2]
        + 0.18 * padded[1:-1, 2:]
        + 0.12 * padded[:-2, 1:-1]
        + 0.10 * padded[2:, 1:-1]
    }


def heat_inputs():
    return {"u": np.random.default_rng(12).uniform(0.0, 1.0, (HEAT_Z, HEAT_Y, HEAT_X)).astype(np.float32)}


def heat_reference(arrays):
    u = arrays["u"].astype(np.float64)
    inner = (slice(1, -1),) * 3
    laplacian = -6.0 * u
    for axis in range(3):
        laplacian += np.roll(u, 1, axis) + np.roll(u, -1, axis)
    after = u.copy()
    after[inner] += 0.125 * laplacian[inner]
    return {"next": after}


def sort_inputs():
    keys = np.random.default_rng(13).choice(2**31, SORT_N, replace=False).astype(np.uint32) * np.uint32(2)
    return {"keys": keys, "values": np.arange(SORT_N, dtype=np.uint16)}


def sort_reference(arrays):
    parts = range(SORT_SEGMENT, SORT_N, SORT_SEGMENT)
    orders = [np.argsort(part) for part in np.split(arrays["keys"], parts)]
    order = np.concatenate([o + k * SORT_SEGMENT for k, o in enumerate(orders)])
    return {"keys": arrays["keys"][order], "values": arrays["values"][order]}


def radix_inputs():
    rng = np.random.default_rng(14)
    keys = rng.integers(0, 2**32, RADIX_N, dtype=np.uint32)
    return {"keys": keys, "values": rng.integers(0, 2**32, RADIX_N, dtype=np.uint32)}


def radix_reference(arrays):
    digits = (arrays["keys"] >> np.uint32(RADIX_SHIFT)) & np.uint32(15)
    order = np.argsort(digits, kind="stable")
    counts = np.zeros((16, RADIX_BLOCKS), np.int64)
    np.add.at(counts, (digits, np.arange(RADIX_N) // RADIX_BLOCK), 1)
    positions = np.cumsum(counts.ravel()) - counts.ravel()
    return {"counts": positions, "keys_out": arrays["keys"][order], "values_out": arrays["values"][order]}


def adam_inputs():
    rng = np.random.default_rng(75)
    return {
        "weights": rng.standard_normal(ADAM_N, dtype=np.float32),
        "gradients": to_bfloat16(rng.standard_normal(ADAM_N)),
        "moment1": (0.1 * rng.standard_normal(ADAM_N)).astype(np.float32),
        "moment2": (0.01 * rng.standard_normal(ADAM_N) ** 2).astype(np.float32),
    }


def adam_corrections():
    return tuple(1.0 / (1.0 - ADAM[beta] ** ADAM_STEP) for beta in ("beta1", "beta2"))


def adam_reference(arrays):
    """No weight of these inputs lies so close to the middle of two bfloat16 numbers that float32 rounds another way."""
    o = {name: np.float64(np.float32(value)) for name, value in ADAM.items()}  # as the kernel is given them
    c1, c2 = (np.float64(np.float32(c)) for c in adam_corrections())
    gradient = from_bfloat16(arrays["gradients"]) * o["scale"]
    m = o["beta1"] * arrays["moment1"] + (1.0 - o["beta1"]) * gradient
    v = o["beta2"] * arrays["moment2"] + (1.0 - o["beta2"]) * gradient**2
    weights = arrays["weights"].astype(np.float64)
    weights -= o["rate"] * (m * c1 / (np.sqrt(v * c2) + o["epsilon"]) + o["decay"] * weights)
    return {"weights": weights, "weights_low": from_bfloat16(to_bfloat16(weights)), "moment1": m, "moment2": v}


def norm_inputs():
    rng = np.random.default_rng(16)
    x = (0.7 + 1.5 * rng.standard_normal((NORM_ROWS, NORM_COLS))).astype(np.float32)
    exact = x.astype(np.float64)
    return {
        "dy": rng.standard_normal((NORM_ROWS, NORM_COLS), dtype=np.float32),
        "x": x,
        "gamma": rng.uniform(0.5, 1.5, NORM_COLS).astype(np.float32),
        "mean": exact.mean(axis=1).astype(np.float32),
        "rstd": (1.0 / np.sqrt(exact.var(axis=1) + 1e-5)).astype(np.float32),
        "dgamma": np.zeros(NORM_COLS, np.float32),
        "dbeta": np.zeros(NORM_COLS, np.float32),
    }


def norm_reference(arrays):
    dy, x = arrays["dy"].astype(np.float64), arrays["x"].astype(np.float64)
    rstd = arrays["rstd"].astype(np.float64)[:, None]
    xhat = (x - arrays["mean"][:, None]) * rstd
    dxhat = dy * arrays["gamma"]
    mean, mean_xhat = dxhat.mean(axis=1, keepdims=True), (dxhat * xhat).mean(axis=1, keepdims=True)
    return {
        "dx": rstd * (dxhat - mean - xhat * mean_xhat),
        "dgamma": (dy * xhat).sum(axis=0),
        "dbeta": dy.sum(axis=0),
    }


def activation_inputs():
    x = np.random.default_rng(17).uniform(-6.0, 6.0, ACTIVATION_N).astype(np.float32)
    x[:5] = 0.0, -100.0, 100.0, 1e-6, -1e-6
    return {"x": x}


def activation_reference(arrays):
    x = arrays["x"].astype(np.float64)
    return {
        "erf": 0.5 * x * (1.0 + np.vectorize(math.erf)(x * math.sqrt(0.5))),
        "tanh": 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
        "silu": x / (1.0 + np.exp(-x)),
    }


def gate_inputs():
    rng = np.random.default_rng(18)
    return {
        "in": rng.uniform(-6.0, 6.0, (GATE_PAIRS, 2)).astype(np.float16),
        "gate": rng.uniform(-2.0, 2.0, (GATE_PAIRS, 2)).astype(np.float16),
    }


def gate_reference(arrays):
    x = arrays["in"].astype(np.float64)
    return {"out": x / (1.0 + np.exp(-x)) * arrays["gate"]}


def philox_inputs():
    return {"hits": np.zeros(1, np.uint32)}


def philox(counters, seed):
    """Philox4x32-10 of 64-bit counters with a 64-bit key: four 32-bit numbers each, in an array of uint64."""
    word = np.uint64(0xFFFFFFFF)
    counters = np.asarray(counters, dtype=np.uint64)
    zero = np.zeros_like(counters)
    c = [counters & word, counters >> np.uint64(32), zero, zero]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high = [second >> np.uint64(32), first >> np.uint64(32)]
        c = [high[0] ^ c[1] ^ np.uint64(key[0]), second & word, high[1] ^ c[3] ^ np.uint64(key[1]), first & word]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, axis=-1)


def philox_reference(arrays):
    numbers = philox([PHILOX_OFFSET + i for i in range(PHILOX_N)], PHILOX_SEED)
    x, y = numbers[:, 0] >> np.uint64(1), numbers[:, 1] >> np.uint64(1)
    inside = x * x + y * y < np.uint64(1 << 62)
    return {"numbers": numbers, "hits": arrays["hits"] + np.count_nonzero(inside)}


def fractal_inputs():
    return {}


def fractal_reference(arrays):
    cx = FRACTAL_LEFT + np.arange(FRACTAL_WIDTH, dtype=np.float64)[None, :] * FRACTAL_STEP
    cy = FRACTAL_TOP - np.arange(FRACTAL_HEIGHT, dtype=np.float64)[:, None] * FRACTAL_STEP
    cx, cy = np.broadcast_arrays(cx, cy)
    x, y = np.zeros(cx.shape), np.zeros(cx.shape)
    counts, alive = np.zeros(cx.shape, np.int64), np.ones(cx.shape, bool)
    for _ in range(FRACTAL_LIMIT):
        xx, yy = x * x, y * y
        alive &= ~(xx + yy > 4.0)
        x, y = np.where(alive, (xx - yy) + cx, x), np.where(alive, 2.0 * (x * y) + cy, y)
        counts += alive
    return {"counts": counts}


def sparse_inputs():
    rng = np.random.default_rng(19)
    lengths = rng.integers(0, 12, SPARSE_ROWS)
    lengths[::10] = rng.integers(33, 120, len(lengths[::10]))
    lengths[[3, 77, SPARSE_ROWS - 1]] = 0
    columns = [np.sort(rng.choice(SPARSE_COLS, length, replace=False)) for length in lengths]
    return {
        "row_start": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "columns": np.concatenate(columns).astype(np.int32),
        "values": rng.standard_normal(int(lengths.sum()), dtype=np.float32),
        "x": rng.standard_normal(SPARSE_COLS, dtype=np.float32),
    }


def sparse_reference(arrays):
    row = np.repeat(np.arange(SPARSE_ROWS), np.diff(arrays["row_start"]))
    y = np.zeros(SPARSE_ROWS)
    np.add.at(y, row, arrays["values"].astype(np.float64) * arrays["x"][arrays["columns"]])
    return {"y": y}


def median_inputs():
    return {"in": np.random.default_rng(21).integers(0, 2**16, (MEDIAN_HEIGHT, MEDIAN_WIDTH), dtype=np.uint16)}


def median_reference(arrays):
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(arrays["in"], 2, mode="edge"), (5, 5))
    return {"out": np.sort(windows.reshape(MEDIAN_HEIGHT, MEDIAN_WIDTH, 25), axis=-1)[..., 12]}


def graph_inputs():
    rng = np.random.default_rng(20)
    d = rng.integers(1, 1000, (GRAPH_N, GRAPH_N))
    d[rng.random((GRAPH_N, GRAPH_N)) < 0.9] = NO_PATH
    d[:, 5] = NO_PATH  # nobody gets to node 5
    np.fill_diagonal(d, 0)
    return {"d": d.astype(np.int32)}


def graph_reference(arrays):
    d = arrays["d"].astype(np.int64)
    for k in range(GRAPH_N):
        d = np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return {"d": d}


def graph_calls():
    calls = []
    for k in range(GRAPH_TILES):
        args = ("d", np.int32(GRAPH_N), np.int32(k))
        calls += [
            Call("fw_pivot", (1, 1, 1), (16, 16, 1), args),
            Call("fw_cross", (GRAPH_TILES, 2, 1), (16, 16, 1), args),
            Call("fw_rest", (GRAPH_TILES, GRAPH_TILES, 1), (16, 16, 1), args),
        ]
    return tuple(calls)


KERNELS = [
    Foreign(
        name="transpose_tiled",
        file="transpose_tiled.cu",
        inputs=transpose_inputs,
        outputs={"out": ((TRANSPOSE_COLS, TRANSPOSE_ROWS), "float32")},
        calls=(
            Call(
                "transpose_tiled",
                (4, 3, 1),
                (32, 8, 1),
                ("in", "out", np.int32(TRANSPOSE_ROWS), np.int32(TRANSPOSE_COLS)),
            ),
        ),
        reference=transpose_reference,
        broken=Broken("no barrier between filling the tile and reading it", "  __syncthreads();\n", "", "race"),
    ),
    Foreign(
        name="transpose_conjugate",
        file="transpose_naive.cu",
        inputs=conjugate_inputs,
        outputs={"out": ((70, 45, 2), "float32")},
        calls=(Call("transpose_conjugate", (5, 3, 1), (16, 16, 1), ("in", "out", np.int32(45), np.int32(70))),),
        reference=conjugate_reference,
        broken=Broken("rows are not tested", "row >= rows || col >= cols", "col >= cols", "memory"),
    ),
    Foreign(
        name="block_scan",
        file="block_scan.cu",
        inputs=block_scan_inputs,
        outputs={"out": ((SCAN_N,), "int32")},
        calls=(Call("block_scan", (6, 1, 1), (SCAN_BLOCK, 1, 1), ("in", "out", np.int32(SCAN_N))),),
        reference=block_scan_reference,
        broken=Broken(
            "shuffles that name the whole warp where only six lanes are",
            "if (warp == 0) {",
            "if (threadIdx.x < warps) {",
            "convergence",
        ),
    ),
    Foreign(
        name="large_scan",
        file="large_scan.cu",
        inputs=large_scan_inputs,
        outputs={"out": ((LARGE_N,), "uint64"), "totals": ((LARGE_BLOCKS,), "uint64")},
        calls=(
            Call(
                "scan_blocks",
                (LARGE_BLOCKS, 1, 1),
                (LARGE_BLOCK, 1, 1),
                ("in", "out", "totals", np.int32(LARGE_N)),
                shared=8 * LARGE_BLOCK,
            ),
            Call("scan_totals", (1, 1, 1), (16, 1, 1), ("totals", np.int32(LARGE_BLOCKS)), shared=8 * 32),
            Call("add_totals", (LARGE_BLOCKS, 1, 1), (LARGE_BLOCK, 1, 1), ("out", "totals", np.int32(LARGE_N))),
        ),
        reference=large_scan_reference,
        broken=Broken(
            "the partial block leaves no total",
            "if (t == blockDim.x - 1) totals",
            "if (i < n && t == blockDim.x - 1) totals",
            "uninitialised",
        ),
    ),
    Foreign(
        name="histogram_image",
        file="histogram_shared.cu",
        inputs=image_inputs,
        outputs={"histogram": ((256,), "uint32")},
        calls=(
            Call(
                "histogram_image",
                (2, 5, 1),
                (32, 6, 1),
                ("pixels", "histogram", np.int32(IMAGE_WIDTH), np.int32(IMAGE_HEIGHT), np.int32(IMAGE_PITCH)),
            ),
        ),
        reference=image_reference,
        broken=Broken(
            "shared bins are not zeroed",
            "  for (int b = rank; b < BINS; b += threads) bins[b] = 0;\n",
            "",
            "uninitialised",
        ),
    ),
    Foreign(
        name="histogram_weighted",
        file="histogram_weighted.cu",
        inputs=weighted_inputs,
        outputs={"sums": ((BINS + 1,), "uint64"), "largest": ((BINS + 1,), "uint32")},
        calls=(
            Call(
                "histogram_weighted",
                (12, 1, 1),
                (256, 1, 1),
                (
                    "samples",
                    "weights",
                    "sums",
                    "largest",
                    np.float32(BINS_LOW),
                    np.float32(BINS_HIGH),
                    np.int32(BINS),
                    np.int32(SAMPLES),
                ),
            ),
        ),
        reference=weighted_reference,
        broken=Broken(
            "plain addition in place of an atomic one",
            "atomicAdd(&sums[bin], (unsigned long long)weight);",
            "sums[bin] += weight;",
            "race",
        ),
    ),
    Foreign(
        name="moments",
        file="reduce_atomic.cu",
        inputs=moments_inputs,
        outputs={"result": ((2,), "float32")},
        calls=(Call("moments", (6, 1, 1), (128, 1, 1), ("x", "result", np.int32(MOMENTS_N)), shared=4 * 128),),
        reference=moments_reference,
        broken=Broken(
            "the tree's barrier in a divergent branch",
            "    if (t < half) scratch[t] += scratch[t + half];\n    __syncthreads();\n",
            "    if (t < half) {\n      scratch[t] += scratch[t + half];\n      __syncthreads();\n    }\n",
            "barrier",
        ),
        rtol=1e-5,
    ),
    Foreign(
        name="dot_last_block",
        file="last_block.cu",
        inputs=dot_inputs,
        outputs={"partial": ((DOT_BLOCKS,), "float64"), "result": ((1,), "float64")},
        calls=(
            Call(
                "dot_last_block",
                (DOT_BLOCKS, 1, 1),
                (DOT_BLOCK, 1, 1),
                ("x", "y", "partial", "result", np.int32(DOT_N)),
            ),
        ),
        reference=dot_reference,
        broken=Broken("is_last is read without a barrier", "  __syncthreads();  // is_last\n", "", "race"),
        rtol=1e-12,
        atol=1e-12,
    ),
    Foreign(
        name="sgemm_tiled",
        file="sgemm_tiled.cu",
        inputs=tiled_inputs,
        outputs={"C": ((TILED_M, TILED_N), "float32")},
        calls=(
            Call(
                "sgemm_tiled",
                (4, 3, 1),
                (16, 16, 1),
                (
                    "A",
                    "B",
                    "C",
                    np.int32(TILED_M),
                    np.int32(TILED_N),
                    np.int32(TILED_K),
                    np.float32(1.5),
                    np.float32(-0.5),
                ),
            ),
        ),
        reference=tiled_reference,
        broken=Broken(
            "tiles are filled anew without a barrier",
            "    __syncthreads();  // nobody reads them any more\n",
            "",
            "race",
        ),
        rtol=1e-5,
        atol=1e-5,
    ),
    Foreign(
        name="sgemm_register",
        file="sgemm_register.cu",
        inputs=register_inputs,
        outputs={"C": ((REGISTER_M, REGISTER_N), "float32")},
        calls=(
            Call(
                "sgemm_register",
                (2, 3, 1),
                (8, 8, 1),
                ("A", "B", "C", np.int32(REGISTER_M), np.int32(REGISTER_N), np.int32(REGISTER_K)),
            ),
        ),
        reference=register_reference,
        broken=Broken("the end of A's rows is not tested", "row < M && k < K ?", "row < M ?", "memory"),
        rtol=1e-5,
        atol=1e-5,
    ),
    Foreign(
        name="stencil5",
        file="stencil5.cu",
        inputs=field_inputs,
        outputs={"out": ((FIELD_HEIGHT, FIELD_WIDTH), "float32")},
        calls=(Call("stencil5", (3, 7, 1), (32, 8, 1), ("in", "out", np.int32(FIELD_WIDTH), np.int32(FIELD_HEIGHT))),),
        reference=field_reference,
        broken=Broken(
            "only the first row of blocks loads its northern halo",
            "if (threadIdx.y == 0) tile",
            "if (y == 0) tile",
            "uninitialised",
        ),
        rtol=1e-5,
        atol=1e-6,
    ),
    Foreign(
        name="heat3d",
        file="stencil7_3d.cu",
        inputs=heat_inputs,
        outputs={"next": ((HEAT_Z, HEAT_Y, HEAT_X), "float32")},
        calls=(
            Call(
                "heat3d",
                (5, 6, 3),
                (8, 4, 4),
                ("u", "next", np.int32(HEAT_X), np.int32(HEAT_Y), np.int32(HEAT_Z), np.float32(0.125)),
            ),
        ),
        reference=heat_reference,
        broken=Broken("the last plane counts as inner", "z > 0 && z < nz - 1", "z > 0", "memory"),
        rtol=1e-5,
        atol=1e-6,
    ),
    Foreign(
        name="bitonic_sort",
        file="bitonic_sort.cu",
        inputs=sort_inputs,
        outputs={"keys": ((SORT_N,), "uint32"), "values": ((SORT_N,), "uint16")},
        calls=(Call("bitonic_sort", (4, 1, 1), (64, 1, 1), ("keys", "values", np.int32(SORT_N))),),
        reference=sort_reference,
        broken=Broken(
            "only threads that exchange reach the barrier",
            "      }\n      __syncthreads();\n",
            "        __syncthreads();\n      }\n",
            "barrier",
        ),
    ),
    Foreign(
        name="radix_pass",
        file="radix_pass.cu",
        inputs=radix_inputs,
        outputs={
            "counts": ((16 * RADIX_BLOCKS,), "uint32"),
            "keys_out": ((RADIX_N,), "uint32"),
            "values_out": ((RADIX_N,), "uint32"),
        },
        calls=(
            Call(
                "radix_count",
                (RADIX_BLOCKS, 1, 1),
                (RADIX_BLOCK, 1, 1),
                ("keys", "counts", np.int32(RADIX_SHIFT), np.int32(RADIX_N)),
            ),
            Call("radix_positions", (1, 1, 1), (32, 1, 1), ("counts", np.int32(16 * RADIX_BLOCKS))),
            Call(
                "radix_scatter",
                (RADIX_BLOCKS, 1, 1),
                (RADIX_BLOCK, 1, 1),
                ("keys", "values", "keys_out", "values_out", "counts", np.int32(RADIX_SHIFT), np.int32(RADIX_N)),
            ),
        ),
        reference=radix_reference,
        broken=Broken(
            "every block writes to the first block's place",
            "positions[digit * gridDim.x + blockIdx.x]",
            "positions[digit * gridDim.x]",
            "race",
        ),
    ),
    Foreign(
        name="adamw_step",
        file="adam.cu",
        inputs=adam_inputs,
        outputs={
            "weights": ((ADAM_N,), "float32"),
            "weights_low": ((ADAM_N,), "uint16"),
            "moment1": ((ADAM_N,), "float32"),
            "moment2": ((ADAM_N,), "float32"),
        },
        calls=(
            Call(
                "adamw_step",
                (8, 1, 1),
                (128, 1, 1),
                (
                    "weights",
                    "weights_low",
                    "gradients",
                    "moment1",
                    "moment2",
                    np.float32(ADAM["rate"]),
                    np.float32(ADAM["beta1"]),
                    np.float32(ADAM["beta2"]),
                    np.float32(ADAM["epsilon"]),
                    np.float32(ADAM["decay"]),
                    np.float32(adam_corrections()[0]),
                    np.float32(adam_corrections()[1]),
                    np.float32(ADAM["scale"]),
                    np.int32(ADAM_N),
                ),
            ),
        ),
        reference=adam_reference,
        broken=Broken("one element too many", "if (i < n)", "if (i <= n)", "memory"),
        rtol=1e-5,
        atol=1e-7,
        decode={"weights_low": from_bfloat16},
    ),
    Foreign(
        name="layernorm_backward",
        file="layernorm_backward.cu",
        inputs=norm_inputs,
        outputs={
            "dx": ((NORM_ROWS, NORM_COLS), "float32"),
            "dgamma": ((NORM_COLS,), "float32"),
            "dbeta": ((NORM_COLS,), "float32"),
        },
        calls=(
            Call(
                "layernorm_backward",
                (6, 1, 1),
                (128, 1, 1),
                (
                    "dy",
                    "x",
                    "gamma",
                    "mean",
                    "rstd",
                    "dx",
                    "dgamma",
                    "dbeta",
                    np.int32(NORM_ROWS),
                    np.int32(NORM_COLS),
                ),
                shared=2 * 4 * NORM_COLS,
            ),
        ),
        reference=norm_reference,
        broken=Broken(
            "the shuffle's mask leaves out half the warp", "LANES = 0xffffffffu", "LANES = 0x0000ffffu", "convergence"
        ),
        rtol=1e-4,
        atol=1e-5,
    ),
    Foreign(
        name="activations",
        file="activations.cu",
        inputs=activation_inputs,
        outputs=dict.fromkeys(("erf", "tanh", "silu"), ((ACTIVATION_N,), "float32")),
        calls=tuple(
            Call(kernel, (5, 1, 1), (128, 1, 1), ("x", out, np.int32(ACTIVATION_N)))
            for kernel, out in (("gelu_erf", "erf"), ("gelu_tanh", "tanh"), ("silu", "silu"))
        ),
        reference=activation_reference,
        broken=Broken(
            "one element too many", "threadIdx.x; i < n; i += stride)", "threadIdx.x; i <= n; i += stride)", "memory"
        ),
        rtol=1e-5,
        atol=1e-6,
    ),
    Foreign(
        name="silu_gate",
        file="activations.cu",
        inputs=gate_inputs,
        outputs={"out": ((GATE_PAIRS, 2), "float16")},
        calls=(Call("silu_gate", (2, 1, 1), (128, 1, 1), ("in", "gate", "out", np.int32(GATE_PAIRS))),),
        reference=gate_reference,
        broken=Broken(
            "pairs are addressed like single elements, every other one misaligned",
            "__half22float2(in[i])",
            "__half22float2(*reinterpret_cast<const __half2 *>(reinterpret_cast<const __half *>(in) + i))",
            "memory",
        ),
        rtol=2e-3,
        atol=1e-6,
    ),
    Foreign(
        name="philox_pi",
        file="philox.cu",
        inputs=philox_inputs,
        outputs={"numbers": ((PHILOX_N, 4), "uint32"), "hits": ((1,), "uint32")},
        calls=(
            Call(
                "philox_pi",
                (8, 1, 1),
                (128, 1, 1),
                ("numbers", "hits", np.uint64(PHILOX_SEED), np.uint64(PHILOX_OFFSET), np.int32(PHILOX_N)),
            ),
        ),
        reference=philox_reference,
        broken=Broken(
            "half the key stays the same in all rounds", "    key.y += 0xBB67AE85u;  // sqrt(3) - 1\n", "", "answer"
        ),
    ),
    Foreign(
        name="mandelbrot",
        file="mandelbrot.cu",
        inputs=fractal_inputs,
        outputs={"counts": ((FRACTAL_HEIGHT, FRACTAL_WIDTH), "int32")},
        calls=(
            Call(
                "mandelbrot",
                (5, 3, 1),
                (16, 16, 1),
                (
                    "counts",
                    np.int32(FRACTAL_WIDTH),
                    np.int32(FRACTAL_HEIGHT),
                    np.float64(FRACTAL_LEFT),
                    np.float64(FRACTAL_TOP),
                    np.float64(FRACTAL_STEP),
                    np.int32(FRACTAL_LIMIT),
                ),
            ),
        ),
        reference=fractal_reference,
        broken=Broken("iterations are not counted", "    ++count;\n", "", "steps"),
    ),
    Foreign(
        name="spmv_csr",
        file="spmv_csr.cu",
        inputs=sparse_inputs,
        outputs={"y": ((SPARSE_ROWS,), "float32")},
        calls=(
            Call(
                "spmv_csr",
                (10, 1, 1),
                (64, 1, 1),
                ("row_start", "columns", "values", "x", "y", np.int32(SPARSE_ROWS)),
            ),
        ),
        reference=sparse_reference,
        broken=Broken(
            "only lanes with elements of the row reach the shuffles",
            "    for (int offset = 16;",
            "    if (begin + lane < end) for (int offset = 16;",
            "answer",
        ),
        rtol=1e-5,
        atol=1e-5,
    ),
    Foreign(
        name="median_filter",
        file="median_filter.cu",
        inputs=median_inputs,
        outputs={"out": ((MEDIAN_HEIGHT, MEDIAN_WIDTH), "uint16")},
        calls=(
            Call(
                "median_filter", (2, 2, 1), (16, 8, 1), ("in", "out", np.int32(MEDIAN_WIDTH), np.int32(MEDIAN_HEIGHT))
            ),
        ),
        reference=median_reference,
        broken=Broken("rows are not clamped", "clamped(y + dy, height) * width", "(y + dy) * width", "memory"),
    ),
    Foreign(
        name="floyd_warshall",
        file="floyd_warshall.cu",
        inputs=graph_inputs,
        outputs={"d": ((GRAPH_N, GRAPH_N), "int32")},
        calls=graph_calls(),
        reference=graph_reference,
        broken=Broken(
            "the pivot's row and column are written while other blocks read them",
            "  if (blockIdx.x == k || blockIdx.y == k) return;\n",
            "",
            "race",
        ),
    ),
]
