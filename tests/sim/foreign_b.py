"""Kernels with tensor cores, asynchronous copies, named barriers, clusters, packed types and rarer instructions.

Every one comes with its inputs from a fixed seed, a reference in float64 or exact integers, and one broken form.
"""

import math
from fractions import Fraction

import numpy as np
from foreign_kernel import Broken, Call, Foreign, from_bfloat16, to_bfloat16

HGEMM_M, HGEMM_N, HGEMM_K = 50, 40, 40
LINEAR_M, LINEAR_N, LINEAR_K = 77, 24, 48
TF32_M, TF32_N, TF32_K, TF32_ALPHA = 45, 28, 36, 0.75
HEADS, LENGTH, HEAD_SIZE = 3, 70, 32
DECODE_HEADS, DECODE_SIZE, CAPACITY, SPLITS = 2, 64, 200, 4
DECODE_LENGTHS = (151, 37, 200)  # one split of one key, three empty ones, and a full cache
ASYNC_M, ASYNC_N, ASYNC_K = 40, 52, 60
REVERSE_N, REVERSE_TILE = 914, 96
PIPELINE_ROWS, PIPELINE_COLUMNS, ROWS_PER_BLOCK = 23, 96, 6
CLUSTER_ROWS, CLUSTER_COLUMNS = 5, 301
HALF_N, HALF_A, HALF_LOWEST, COMPLEX_N = 1001, 1.5, -0.75, 777
GATED_ROWS, CHANNEL_PAIRS = 7, 160
COMPACT_N, COMPACT_THRESHOLD = 500, 100
GROUP_N, GROUPS = 500, 24
DOUBLE_ROWS, DOUBLE_COLUMNS, DOUBLE_BLOCK = 6, 300, 64
DIVIDE_N, BITS_N = 300, 150
IMAGE_WIDTH, IMAGE_HEIGHT, NEW_WIDTH, NEW_HEIGHT = 37, 29, 50, 41
TOP_ROWS, TOP_COLUMNS, TOP_FEW = 200, 37, 5
MODULUS, INVERSE_N = 3600, 300
LOG_ROWS, LOG_COLUMNS = 10, 50
HISTOGRAM_N, HISTOGRAM_BINS = 1000, 13
EXTREMES_N = 1500
QUANTISE_ROWS, QUANTISE_QUADS = 7, 45
FIR_N, FIR_TAPS, FIR_MOST_TAPS = 600, 11, 32


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def hgemm_inputs():
    return {
        "A": normal(101, HGEMM_M, HGEMM_K).astype(np.float16),
        "B": normal(102, HGEMM_K, HGEMM_N).astype(np.float16),
    }


def hgemm_reference(arrays):
    return {"C": arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)}


def linear_inputs():
    return {
        "x": to_bfloat16(normal(103, LINEAR_M, LINEAR_K)),
        "w": to_bfloat16(normal(104, LINEAR_N, LINEAR_K)),
        "bias": normal(105, LINEAR_N),
    }


def linear_reference(arrays):
    return {"y": from_bfloat16(arrays["x"]) @ from_bfloat16(arrays["w"]).T + arrays["bias"].astype(np.float64)}


def to_tf32(values):
    """``values`` (float32) rounded to 10 bits of mantissa, to nearest and ties away from zero, as float64."""
    bits = (values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


def tf32_inputs():
    return {"A": normal(106, TF32_M, TF32_K), "B": normal(107, TF32_K, TF32_N)}


def tf32_reference(arrays):
    return {"C": TF32_ALPHA * (to_tf32(arrays["A"]) @ to_tf32(arrays["B"]))}


def attention_inputs():
    shape = (HEADS, LENGTH, HEAD_SIZE)
    return {"q": 2 * normal(108, *shape), "k": normal(109, *shape), "v": normal(110, *shape)}


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention_reference(arrays):
    q, k, v = (arrays[name].astype(np.float64) for name in ("q", "k", "v"))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(HEAD_SIZE)
    scores[:, np.triu(np.ones((LENGTH, LENGTH), dtype=bool), 1)] = -np.inf
    return {"out": softmax(scores) @ v}


def decode_inputs():
    shape = (len(DECODE_LENGTHS), DECODE_HEADS, CAPACITY, DECODE_SIZE)
    k, v = normal(111, *shape), normal(112, *shape)
    for sequence, length in enumerate(DECODE_LENGTHS):  # what lies behind the end of a sequence must not matter
        k[sequence, :, length:] = np.nan
        v[sequence, :, length:] = np.nan
    return {
        "q": 2 * normal(113, len(DECODE_LENGTHS), DECODE_HEADS, DECODE_SIZE),
        "k": k,
        "v": v,
        "lengths": np.array(DECODE_LENGTHS, dtype=np.int32),
    }


def decode_reference(arrays):
    out = np.empty(arrays["q"].shape)
    for sequence, length in enumerate(DECODE_LENGTHS):
        for head in range(DECODE_HEADS):
            keys = arrays["k"][sequence, head, :length].astype(np.float64)
            values = arrays["v"][sequence, head, :length].astype(np.float64)
            scores = keys @ arrays["q"][sequence, head].astype(np.float64) / math.sqrt(DECODE_SIZE)
            out[sequence, head] = softmax(scores) @ values
    return {"out": out}


def async_inputs():
    return {"A": normal(114, ASYNC_M, ASYNC_K), "B": normal(115, ASYNC_K, ASYNC_N)}


def async_reference(arrays):
    return {"C": arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)}


def reverse_inputs():
    return {"in": normal(116, REVERSE_N)}


def reverse_reference(arrays):
    padded = np.zeros(-(-REVERSE_N // REVERSE_TILE) * REVERSE_TILE)
    padded[:REVERSE_N] = arrays["in"]
    return {"out": 2.5 * padded.reshape(-1, REVERSE_TILE)[:, ::-1].reshape(-1)[:REVERSE_N]}


def pipeline_inputs():
    return {"x": normal(117, PIPELINE_ROWS, PIPELINE_COLUMNS)}


def pipeline_reference(arrays):
    starts = range(0, PIPELINE_ROWS, ROWS_PER_BLOCK)
    return {"sums": np.stack([arrays["x"][s : s + ROWS_PER_BLOCK].astype(np.float64).sum(axis=0) for s in starts])}


def cluster_inputs():
    return {"x": np.random.default_rng(118).uniform(0.5, 2.0, (CLUSTER_ROWS, CLUSTER_COLUMNS)).astype(np.float32)}


def cluster_reference(arrays):
    x = arrays["x"].astype(np.float64)
    return {"y": x / x.sum(axis=1, keepdims=True)}


def half_inputs():
    y = normal(120, HALF_N).astype(np.float16)
    y[5:9] = np.array([6e-8, -3e-6, 0.0, 1000.0], dtype=np.float16)  # the first two are subnormal
    x = normal(119, HALF_N).astype(np.float16)
    x[5:9] = np.array([6e-8, 2e-6, -0.0, 60000.0], dtype=np.float16)  # the last one overflows
    return {
        "x": x,
        "y": y,
        "a": normal(121, COMPLEX_N, 2).astype(np.float16),
        "b": normal(122, COMPLEX_N, 2).astype(np.float16),
    }


def half_reference(arrays):
    """Rounded to half at the places where the kernel rounds: float64 holds every product and sum in between exactly."""
    x, y, a, b = (arrays[name].astype(np.float64) for name in ("x", "y", "a", "b"))
    with np.errstate(over="ignore"):
        rounded = (HALF_A * x + y).astype(np.float16)
    turned = np.stack([-b[:, 1], b[:, 0]], axis=1)
    inner = (a[:, 1:] * turned).astype(np.float16).astype(np.float64)
    return {
        "y": np.maximum(rounded.astype(np.float64), HALF_LOWEST),
        "out": (a[:, :1] * b + inner).astype(np.float16).astype(np.float64),
    }


def gated_inputs():
    return {
        "x": to_bfloat16(3 * normal(123, GATED_ROWS, CHANNEL_PAIRS, 2)),
        "scale": to_bfloat16(normal(124, CHANNEL_PAIRS, 2)),
        "bias": to_bfloat16(normal(125, CHANNEL_PAIRS, 2)),
    }


def gated_reference(arrays):
    x, scale, bias = (from_bfloat16(arrays[name]) for name in ("x", "scale", "bias"))
    h = from_bfloat16(to_bfloat16(x * scale + bias))
    return {"y": h / (1 + np.exp(-h))}


def compact_inputs():
    values = np.random.default_rng(126).integers(-1000, 1000, COMPACT_N, dtype=np.int32)
    zero = np.zeros(1, dtype=np.int32)
    return {"in": values, "above_count": zero, "even_count": zero.copy()}


def compact_reference(arrays):
    values = arrays["in"]
    above, even = values[values > COMPACT_THRESHOLD], values[values % 2 == 0]
    return {
        "above": np.sort(above),
        "above_count": np.array([above.size]),
        "even": np.sort(even),
        "even_count": np.array([even.size]),
    }


COMPACTED = {name: values.shape for name, values in compact_reference(compact_inputs()).items()}


def group_inputs():
    rng = np.random.default_rng(127)
    return {
        "keys": rng.integers(0, GROUPS, GROUP_N, dtype=np.int32),
        "values": rng.integers(-1000, 1000, GROUP_N, dtype=np.int32),
        "sums": np.zeros(GROUPS, dtype=np.int32),
        "maxima": np.zeros(GROUPS, dtype=np.uint32),
    }


def group_reference(arrays):
    sums, maxima = np.zeros(GROUPS, dtype=np.int64), np.zeros(GROUPS, dtype=np.int64)
    np.add.at(sums, arrays["keys"], arrays["values"])
    np.maximum.at(maxima, arrays["keys"], np.abs(arrays["values"]))
    return {"sums": sums, "maxima": maxima}


def double_inputs():
    """Products of the first 256 columns cancel in pairs, each within a thread, but for about 1e-14 of them."""
    rng = np.random.default_rng(128)
    x = 3 * rng.standard_normal((DOUBLE_ROWS, DOUBLE_COLUMNS))
    y = rng.standard_normal((DOUBLE_ROWS, DOUBLE_COLUMNS))
    for start in (0, 2 * DOUBLE_BLOCK):
        first, second = slice(start, start + DOUBLE_BLOCK), slice(start + DOUBLE_BLOCK, start + 2 * DOUBLE_BLOCK)
        y[:, first] *= 1e12
        x[:, second] = x[:, first]
        y[:, second] = -y[:, first] * (1 + 1e-14 * rng.standard_normal((DOUBLE_ROWS, DOUBLE_BLOCK)))
    return {"x": x, "y": y}


def double_reference(arrays):
    x, y = arrays["x"], arrays["y"]
    exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(*row, strict=True)) for row in zip(x, y, strict=True)]
    squares = [math.fsum(row * row) for row in x]
    top = x.max(axis=1)
    return {
        "dot": np.array([float(value) for value in exact]),
        "norm": np.sqrt(squares),
        "log_sum_exp": top + np.log([math.fsum(row) for row in np.exp(x - top[:, None])]),
    }


def integer_inputs():
    rng = np.random.default_rng(129)
    a = rng.integers(-(2**63), 2**63, DIVIDE_N, dtype=np.int64) >> rng.integers(0, 60, DIVIDE_N)
    b = rng.integers(-(2**63), 2**63, DIVIDE_N, dtype=np.int64) >> rng.integers(0, 63, DIVIDE_N)
    b[b == 0] = 7
    a[:6] = [2**63 - 1, -(2**63), -(2**63), 0, -7, 2**40]
    b[:6] = [-1, 1, 3, -5, 2, 2**20]
    p = rng.integers(0, 2**32, BITS_N, dtype=np.uint32) >> rng.integers(0, 33, BITS_N).astype(np.uint64)
    q = rng.integers(0, 2**32, BITS_N, dtype=np.uint32) >> rng.integers(0, 33, BITS_N).astype(np.uint64)
    p[:4], q[:4] = [0, 2**32 - 1, 2**31, 0], [0, 0, 2**32 - 1, 2**32 - 1]
    x = (rng.standard_normal(BITS_N) * 10.0 ** rng.integers(-2, 21, BITS_N)).astype(np.float32)
    x[:12] = [0.5, 1.5, 2.5, -0.5, -1.5, 2147483648, -2147483648, 4294967296, np.inf, -np.inf, np.nan, -1e-40]
    return {"a": a, "b": b, "p": p.astype(np.uint32), "q": q.astype(np.uint32), "x": x}


def signed(value, bits=32):
    """The two's complement number whose lowest ``bits`` are those of ``value``."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def truncated_division(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def bit_tricks(i, p, q):
    """The 16 results of thread ``i`` of the kernel of that name, each modulo 2**32."""
    word, wide = (1 << 32) - 1, q << 32 | p
    p_bytes, q_bytes = p.to_bytes(4, "little"), q.to_bytes(4, "little")
    signed_bytes = [signed(v, 8) * signed(w, 8) for v, w in zip(p_bytes, q_bytes, strict=True)]
    turn = q & 31
    shifted = (wide << 7) & ((1 << 64) - 1)
    lowest = (shifted & -shifted).bit_length()
    results = [
        32 - p.bit_length(),
        bin(wide).count("1"),
        int(f"{p:032b}"[::-1], 2),
        int.from_bytes(bytes([q_bytes[2], p_bytes[3], p_bytes[0], q_bytes[1]]), "little"),
        wide >> (i & 31),
        p << turn | p >> (32 - turn),
        sum(signed_bytes) - 5,
        signed(p) * signed(q) >> 32,
        min(max(signed(p) >> turn, 0), 255),
        p >> turn & ((1 << (q >> 5 & 15)) - 1),
        lowest + 64 - (wide >> 3).bit_length(),
        abs(p - q) + i,
        truncated_division(signed(p, 16), signed(q, 16) | 1),
        int.from_bytes(bytes(abs(v - w) for v, w in zip(p_bytes, q_bytes, strict=True)), "little"),
        p % (q | 1) ^ p // (q >> 16 | 1),
        sum(v * w for v, w in zip(p_bytes, q_bytes, strict=True)) + 7,
    ]
    return [result & word for result in results]


def saturated(x, rounded, bits, low, not_a_number):
    """``x`` as an integer: ``rounded`` to one, held between ``low`` and ``low + 2**bits - 1``; subnormals are zeros."""
    if math.isnan(x):
        return not_a_number
    if math.isinf(x):
        return low if x < 0 else low + 2**bits - 1
    return min(max(rounded(x if abs(x) >= 2.0**-126 else 0.0), low), low + 2**bits - 1)


def integer_reference(arrays):
    pairs = list(zip(arrays["a"].tolist(), arrays["b"].tolist(), strict=True))
    mask = (1 << 64) - 1
    words = zip(arrays["p"].tolist(), arrays["q"].tolist(), strict=True)
    floats = arrays["x"].tolist()
    quotients = [truncated_division(a, b) for a, b in pairs]
    return {
        "quotient": np.array(quotients, dtype=np.int64),
        "remainder": np.array([a - q * b for (a, b), q in zip(pairs, quotients, strict=True)], dtype=np.int64),
        "unsigned_remainder": np.array([(a & mask) % (b & mask) for a, b in pairs], dtype=np.uint64),
        "high_product": np.array([(a & mask) * (b & mask) >> 64 for a, b in pairs], dtype=np.uint64),
        "bits": np.array([bit_tricks(i, p, q) for i, (p, q) in enumerate(words)], dtype=np.int64),
        "to_int": np.array([saturated(x, round, 32, -(2**31), 0) for x in floats], dtype=np.int64),
        "to_uint": np.array([saturated(x, math.trunc, 32, 0, 0) for x in floats], dtype=np.int64),
        "to_long": np.array([saturated(x, math.floor, 64, -(2**63), -(2**63)) for x in floats], dtype=np.int64),
    }


def resize_inputs():
    return {"image": np.random.default_rng(130).integers(0, 256, (IMAGE_HEIGHT, IMAGE_WIDTH), dtype=np.uint8)}


def resize_reference(arrays):
    knots = np.arange(17) / 16
    curve = np.where(knots <= 0.04045, knots / 12.92, ((knots + 0.055) / 1.055) ** 2.4)
    linear = np.interp(np.arange(256) / 256, knots, curve)[arrays["image"]]

    def weights(size, new_size):
        at = np.maximum((np.arange(new_size) + 0.5) * size / new_size - 0.5, 0)
        return np.maximum(1 - np.abs(np.minimum(at, size - 1)[:, None] - np.arange(size)), 0)

    return {"out": weights(IMAGE_HEIGHT, NEW_HEIGHT) @ linear @ weights(IMAGE_WIDTH, NEW_WIDTH).T}


def top_inputs():
    values = np.random.default_rng(131).integers(-40, 40, (TOP_COLUMNS, TOP_ROWS)) / 8  # with many ties
    return {"x": values.astype(np.float32)}


def top_reference(arrays):
    def top(columns):
        x = arrays["x"][:columns].T.astype(np.float64)
        where = np.argsort(-x, axis=1, kind="stable")[:, :8]
        missing = ((0, 0), (0, 8 - where.shape[1]))
        values = np.take_along_axis(x, where, axis=1)
        return np.pad(values, missing), np.pad(where, missing, constant_values=-1)

    (values, where), (few_values, few_where) = top(TOP_COLUMNS), top(TOP_FEW)
    return {"values": values, "where": where, "few_values": few_values, "few_where": few_where}


def inverse_inputs():
    return {"numbers": np.random.default_rng(132).integers(0, MODULUS, INVERSE_N, dtype=np.int32)}


def inverse_reference(arrays):
    inverses, steps = [], []
    for number in arrays["numbers"].tolist():
        inverses.append(pow(number, -1, MODULUS) if math.gcd(number, MODULUS) == 1 else 0)
        a, b, count = number, MODULUS, 0
        while b:
            a, b, count = b, a % b, count + 1
        steps.append(count)
    return {"inverses": np.array(inverses), "steps": np.array(steps)}


def log_inputs():
    x = np.random.default_rng(133).uniform(0, 10, (LOG_ROWS, LOG_COLUMNS)).astype(np.float32)
    x[2, 7] = x[8, 40] = -0.5
    return {"x": x}


def log_reference(arrays):
    return {"means": np.log1p(np.maximum(arrays["x"].astype(np.float64), 0)).mean(axis=1)}


def histogram_inputs():
    rng = np.random.default_rng(134)
    return {
        "values": (rng.integers(-6400, 6400, HISTOGRAM_N) / 64).astype(np.float32),  # sums are exact in any order
        "bin_of": rng.integers(0, HISTOGRAM_BINS + 3, HISTOGRAM_N, dtype=np.uint8),  # some belong to no bin
        "sums": np.zeros(HISTOGRAM_BINS, dtype=np.float64),
        "counts": np.zeros(HISTOGRAM_BINS, dtype=np.int32),
    }


def histogram_reference(arrays):
    members = arrays["bin_of"] == np.arange(HISTOGRAM_BINS)[:, None]
    return {"sums": members @ arrays["values"].astype(np.float64), "counts": members.sum(axis=1)}


def extremes_inputs():
    return {
        "x": normal(135, EXTREMES_N),
        "maximum": np.array([-np.inf], dtype=np.float32),
        "product": np.array([1.0]),
    }


def extremes_reference(arrays):
    x = arrays["x"].astype(np.float64)
    return {"maximum": x.max(keepdims=True), "product": np.exp(np.log1p(0.001 * x).sum(keepdims=True))}


def quantise_inputs():
    x = normal(136, QUANTISE_ROWS, QUANTISE_QUADS * 4) * np.float32(3)
    x[4] = 0
    return {"x": x}


def quantise_reference(arrays):
    """In float32 with the kernel's own operations, each of them rounded once: a tie then falls the same way."""
    x = arrays["x"]
    top = np.abs(x).max(axis=1, keepdims=True)
    inverse = np.divide(np.float32(127), top, out=np.zeros_like(top), where=top > 0)
    q = np.rint(x * inverse)
    scales = top / np.float32(127)
    return {"q": q, "scales": scales[:, 0], "back": q * scales}


def fir_inputs():
    rng = np.random.default_rng(137)
    return {
        "x": rng.integers(-1000, 1000, FIR_N, dtype=np.int32),
        "w": rng.integers(-50, 50, FIR_MOST_TAPS, dtype=np.int32),
    }


def fir_reference(arrays):
    x, w = arrays["x"].astype(np.int64), arrays["w"].astype(np.int64)
    return {"out": np.convolve(x, w[:FIR_TAPS])[:FIR_N], "long_out": np.convolve(x, w)[:FIR_N]}


KERNELS = [
    Foreign(
        name="hgemm_ldmatrix",
        file="hgemm_ldmatrix.cu",
        inputs=hgemm_inputs,
        outputs={"C": ((HGEMM_M, HGEMM_N), "float16")},
        calls=(
            Call(
                "hgemm",
                (2, 2, 1),
                (128, 1, 1),
                ("A", "B", "C", np.int32(HGEMM_M), np.int32(HGEMM_N), np.int32(HGEMM_K)),
            ),
        ),
        reference=hgemm_reference,
        broken=Broken(
            "rows padded by two bytes, which ldmatrix can't take",
            "constexpr int LDA = BK + 8;",
            "constexpr int LDA = BK + 1;",
            "memory",
        ),
        rtol=5e-4,
        atol=1e-5,
    ),
    Foreign(
        name="linear_bf16_mma",
        file="linear_bf16_mma.cu",
        inputs=linear_inputs,
        outputs={"y": ((LINEAR_M, LINEAR_N), "uint16")},
        calls=(
            Call(
                "linear_bf16",
                (LINEAR_N // 8, 2, 1),
                (128, 1, 1),
                ("x", "w", "bias", "y", np.int32(LINEAR_M), np.int32(LINEAR_N), np.int32(LINEAR_K)),
            ),
        ),
        reference=linear_reference,
        broken=Broken(
            "lanes without a row keep out of the warp's product",
            "        mma(acc, a, b);",
            "        if (lower < M) mma(acc, a, b);",
            "convergence",
        ),
        rtol=4e-3,
        atol=2e-5,
        decode={"y": from_bfloat16},
    ),
    Foreign(
        name="gemm_tf32_mma",
        file="gemm_tf32_mma.cu",
        inputs=tf32_inputs,
        outputs={"C": ((TF32_M, TF32_N), "float32")},
        calls=(
            Call(
                "gemm_tf32",
                (2, 2, 1),
                (128, 1, 1),
                ("A", "B", "C", np.int32(TF32_M), np.int32(TF32_N), np.int32(TF32_K), np.float32(TF32_ALPHA)),
            ),
        ),
        reference=tf32_reference,
        broken=Broken(
            "second and third register of A exchanged",
            '"r"(a0), "r"(a1), "r"(a2), "r"(a3)',
            '"r"(a0), "r"(a2), "r"(a1), "r"(a3)',
            "answer",
        ),
        rtol=1e-5,
        atol=1e-5,
    ),
    Foreign(
        name="flash_attention",
        file="flash_attention.cu",
        inputs=attention_inputs,
        outputs={"out": ((HEADS, LENGTH, HEAD_SIZE), "float32")},
        calls=(
            Call(
                "flash_attention",
                (5, HEADS, 1),
                (128, 1, 1),
                ("q", "k", "v", "out", np.int32(LENGTH), np.float32(1 / math.sqrt(HEAD_SIZE))),
            ),
        ),
        reference=attention_reference,
        broken=Broken(
            "barrier before the next tile removed",
            "        __syncthreads();  // before the tiles are overwritten\n",
            "",
            "race",
        ),
        rtol=2e-5,
        atol=2e-6,
    ),
    Foreign(
        name="attention_decode_split",
        file="attention_decode_split.cu",
        inputs=decode_inputs,
        outputs={
            "partial_out": ((len(DECODE_LENGTHS) * DECODE_HEADS * SPLITS, DECODE_SIZE), "float32"),
            "partial_max_sum": ((len(DECODE_LENGTHS) * DECODE_HEADS * SPLITS, 2), "float32"),
            "out": ((len(DECODE_LENGTHS), DECODE_HEADS, DECODE_SIZE), "float32"),
        },
        calls=(
            Call(
                "decode_partial",
                (SPLITS, DECODE_HEADS, len(DECODE_LENGTHS)),
                (64, 1, 1),
                (
                    *("q", "k", "v", "lengths", "partial_out", "partial_max_sum"),
                    *(np.int32(CAPACITY), np.int32(CAPACITY // SPLITS)),
                ),
            ),
            Call(
                "decode_merge",
                (DECODE_HEADS, len(DECODE_LENGTHS), 1),
                (DECODE_SIZE, 1, 1),
                ("partial_out", "partial_max_sum", "out", np.int32(SPLITS)),
            ),
        ),
        reference=decode_reference,
        broken=Broken(
            "an empty split says nothing",
            "        if (threadIdx.x == 0) partial_max_sum[slot] = make_float2(-INFINITY, 0.0f);\n",
            "",
            "uninitialised",
        ),
        rtol=1e-5,
        atol=1e-6,
    ),
    Foreign(
        name="gemm_cp_async",
        file="gemm_cp_async.cu",
        inputs=async_inputs,
        outputs={"C": ((ASYNC_M, ASYNC_N), "float32")},
        calls=(
            Call(
                "gemm_cp_async",
                (2, 2, 1),
                (128, 1, 1),
                ("A", "B", "C", np.int32(ASYNC_M), np.int32(ASYNC_N), np.int32(ASYNC_K)),
            ),
        ),
        reference=async_reference,
        broken=Broken("no wait for the copies", "        wait<1>();", "        ", "uninitialised"),
        rtol=1e-5,
        atol=1e-5,
    ),
    Foreign(
        name="named_barriers",
        file="named_barriers.cu",
        inputs=reverse_inputs,
        outputs={"out": ((REVERSE_N,), "float32")},
        calls=(Call("reverse_tiles", (2, 1, 1), (128, 1, 1), ("in", "out", np.int32(REVERSE_N), np.float32(2.5))),),
        reference=reverse_reference,
        broken=Broken(
            "consumers count only themselves at the barrier",
            "bar_arrive(EMPTY + stage, THREADS)",
            "bar_arrive(EMPTY + stage, TILE)",
            "barrier",
        ),
        rtol=1e-6,
    ),
    Foreign(
        name="mbarrier_pipeline",
        file="mbarrier_pipeline.cu",
        inputs=pipeline_inputs,
        outputs={"sums": ((4, PIPELINE_COLUMNS), "float32")},
        calls=(
            Call(
                "column_sums", (4, 1, 1), (128, 1, 1), ("x", "sums", np.int32(PIPELINE_ROWS), np.int32(ROWS_PER_BLOCK))
            ),
        ),
        reference=pipeline_reference,
        broken=Broken(
            "one arrival more expected than there are consumers",
            "initialise(&empty[s], CONSUMERS);",
            "initialise(&empty[s], CONSUMERS + 1);",
            "steps",
        ),
        rtol=1e-6,
        atol=1e-6,
        arch="sm_90",
    ),
    Foreign(
        name="cluster_normalise",
        file="cluster_normalise.cu",
        inputs=cluster_inputs,
        outputs={"y": ((CLUSTER_ROWS, CLUSTER_COLUMNS), "float32")},
        calls=(Call("normalise_rows", (2 * CLUSTER_ROWS, 1, 1), (64, 1, 1), ("x", "y", np.int32(CLUSTER_COLUMNS))),),
        reference=cluster_reference,
        broken=Broken(
            "second block reads from a third, which the cluster lacks",
            "other = rank ^ 1u;",
            "other = rank + 1u;",
            "memory",
        ),
        rtol=2e-6,
        arch="sm_90",
    ),
    Foreign(
        name="half2_vectors",
        file="half2_vectors.cu",
        inputs=half_inputs,
        outputs={"y": ((HALF_N,), "float16"), "out": ((COMPLEX_N, 2), "float16")},
        calls=(
            Call(
                "axpy_floor",
                (4, 1, 1),
                (128, 1, 1),
                ("x", "y", np.float32(HALF_A), np.float32(HALF_LOWEST), np.int32(HALF_N)),
            ),
            Call("complex_multiply", (3, 1, 1), (128, 1, 1), ("a", "b", "out", np.int32(COMPLEX_N))),
        ),
        reference=half_reference,
        broken=Broken("one pair too many", "    if (i < pairs) {\n", "    if (i <= pairs) {\n", "memory"),
    ),
    Foreign(
        name="bf162_gated",
        file="bf162_gated.cu",
        inputs=gated_inputs,
        outputs={"y": ((GATED_ROWS, CHANNEL_PAIRS, 2), "uint16")},
        calls=(
            Call(
                "affine_silu",
                (4, 1, 1),
                (96, 1, 1),
                ("x", "scale", "bias", "y", np.int32(GATED_ROWS), np.int32(CHANNEL_PAIRS)),
            ),
        ),
        reference=gated_reference,
        broken=Broken(
            "only as many channels staged as there are threads",
            "for (int c = threadIdx.x; c < channel_pairs; c += blockDim.x) {",
            "if (int c = threadIdx.x; c < channel_pairs) {",
            "uninitialised",
        ),
        rtol=4e-3,
        decode={"y": from_bfloat16},
    ),
    Foreign(
        name="compact_warp_aggregated",
        file="compact_warp_aggregated.cu",
        inputs=compact_inputs,
        outputs={name: (shape, "int32") for name, shape in COMPACTED.items()},
        calls=(
            Call(
                "compact_above",
                (3, 1, 1),
                (96, 1, 1),
                ("in", "above", "above_count", np.int32(COMPACT_N), np.int32(COMPACT_THRESHOLD)),
            ),
            Call("compact_even", (6, 1, 1), (96, 1, 1), ("in", "even", "even_count", np.int32(COMPACT_N))),
        ),
        reference=compact_reference,
        broken=Broken(
            "ballot with a full mask by those lanes alone that keep their value",
            "    const unsigned kept = __ballot_sync(0xffffffffu, keep);\n",
            "    unsigned kept = 0;\n    if (keep) kept = __ballot_sync(0xffffffffu, true);\n",
            "convergence",
        ),
        decode={"above": np.sort, "even": np.sort},
    ),
    Foreign(
        name="group_by_match",
        file="group_by_match.cu",
        inputs=group_inputs,
        outputs={"sums": ((GROUPS,), "int32"), "maxima": ((GROUPS,), "uint32")},
        calls=(Call("group_by", (4, 1, 1), (128, 1, 1), ("keys", "values", "sums", "maxima", np.int32(GROUP_N))),),
        reference=group_reference,
        broken=Broken(
            "plain addition to a bin that other warps add to",
            "atomicAdd(&sum_bins[key], total);",
            "sum_bins[key] += total;",
            "race",
        ),
    ),
    Foreign(
        name="compensated_float64",
        file="compensated_float64.cu",
        inputs=double_inputs,
        outputs=dict.fromkeys(("dot", "norm", "log_sum_exp"), ((DOUBLE_ROWS,), "float64")),
        calls=(
            Call(
                "row_statistics",
                (DOUBLE_ROWS, 1, 1),
                (DOUBLE_BLOCK, 1, 1),
                ("x", "y", "dot", "norm", "log_sum_exp", np.int32(DOUBLE_COLUMNS)),
                shared=8 * DOUBLE_BLOCK,
            ),
        ),
        reference=double_reference,
        broken=Broken(
            "barrier drawn into the branch",
            "        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];\n"
            "        __syncthreads();  // the next sum reads what this one wrote\n",
            "        if (threadIdx.x < half) {\n"
            "            scratch[threadIdx.x] += scratch[threadIdx.x + half];\n"
            "            __syncthreads();\n"
            "        }\n",
            "barrier",
        ),
        rtol=1e-13,
    ),
    Foreign(
        name="integer_zoo",
        file="integer_zoo.cu",
        inputs=integer_inputs,
        outputs={
            "quotient": ((DIVIDE_N,), "int64"),
            "remainder": ((DIVIDE_N,), "int64"),
            "unsigned_remainder": ((DIVIDE_N,), "uint64"),
            "high_product": ((DIVIDE_N,), "uint64"),
            "bits": ((BITS_N, 16), "uint32"),
            "to_int": ((BITS_N,), "int32"),
            "to_uint": ((BITS_N,), "uint32"),
            "to_long": ((BITS_N,), "int64"),
        },
        calls=(
            Call(
                "divide_64",
                (3, 1, 1),
                (128, 1, 1),
                ("a", "b", "quotient", "remainder", "unsigned_remainder", "high_product", np.int32(DIVIDE_N)),
            ),
            Call("bit_tricks", (2, 1, 1), (96, 1, 1), ("p", "q", "bits", np.int32(BITS_N))),
            Call("convert", (2, 1, 1), (96, 1, 1), ("x", "to_int", "to_uint", "to_long", np.int32(BITS_N))),
        ),
        reference=integer_reference,
        broken=Broken(
            "halves of the funnel shift exchanged",
            "__funnelshift_r(p, q, i & 31)",
            "__funnelshift_r(q, p, i & 31)",
            "answer",
        ),
    ),
    Foreign(
        name="bilinear_gamma",
        file="bilinear_gamma.cu",
        inputs=resize_inputs,
        outputs={"out": ((NEW_HEIGHT, NEW_WIDTH), "float32")},
        calls=(
            Call(
                "resize",
                (4, 6, 1),
                (16, 8, 1),
                (
                    *("image", "out", np.int32(IMAGE_WIDTH), np.int32(IMAGE_HEIGHT)),
                    *(np.int32(NEW_WIDTH), np.int32(NEW_HEIGHT)),
                ),
            ),
        ),
        reference=resize_reference,
        broken=Broken("right edge not repeated", "min(x0 + 1, width - 1)", "x0 + 1", "memory"),
        rtol=1e-5,
        atol=5e-6,
    ),
    Foreign(
        name="top8_local",
        file="top8_local.cu",
        inputs=top_inputs,
        outputs={
            "values": ((TOP_ROWS, 8), "float32"),
            "where": ((TOP_ROWS, 8), "int32"),
            "few_values": ((TOP_ROWS, 8), "float32"),
            "few_where": ((TOP_ROWS, 8), "int32"),
        },
        calls=(
            Call("top8", (4, 1, 1), (64, 1, 1), ("x", "values", "where", np.int32(TOP_ROWS), np.int32(TOP_COLUMNS))),
            Call(
                "top8", (4, 1, 1), (64, 1, 1), ("x", "few_values", "few_where", np.int32(TOP_ROWS), np.int32(TOP_FEW))
            ),
        ),
        reference=top_reference,
        broken=Broken(
            "a ninth value goes behind the arrays", "filled < K ? filled++", "filled <= K ? filled++", "memory"
        ),
    ),
    Foreign(
        name="modular_inverse",
        file="modular_inverse.cu",
        inputs=inverse_inputs,
        outputs={"inverses": ((INVERSE_N,), "int32"), "steps": ((INVERSE_N,), "int32")},
        calls=(
            Call(
                "modular_inverse",
                (3, 1, 1),
                (128, 1, 1),
                ("numbers", "inverses", "steps", np.int32(INVERSE_N), np.int32(MODULUS)),
            ),
        ),
        reference=inverse_reference,
        broken=Broken(
            "the remainder stays as it was",
            "next.b = s.a - quotient * s.b;",
            "next.b = s.b;",
            "steps",
        ),
    ),
    Foreign(
        name="log_rows_printf",
        file="log_rows_printf.cu",
        inputs=log_inputs,
        outputs={"means": ((LOG_ROWS,), "float32")},
        calls=(Call("mean_log", (3, 1, 1), (128, 1, 1), ("x", "means", np.int32(LOG_ROWS), np.int32(LOG_COLUMNS))),),
        reference=log_reference,
        broken=Broken(
            "lanes with a negative value skip the shuffles",
            "            v = 0.0f;",
            "            continue;",
            "convergence",
        ),
        rtol=1e-5,
    ),
    Foreign(
        name="carved_histogram",
        file="carved_histogram.cu",
        inputs=histogram_inputs,
        outputs={"sums": ((HISTOGRAM_BINS,), "float64"), "counts": ((HISTOGRAM_BINS,), "int32")},
        calls=(
            Call(
                "binned_sums",
                (3, 1, 1),
                (96, 1, 1),
                ("values", "bin_of", "sums", "counts", np.int32(HISTOGRAM_N), np.int32(HISTOGRAM_BINS)),
                shared=12 * HISTOGRAM_BINS,
            ),
        ),
        reference=histogram_reference,
        broken=Broken(
            "doubles behind an odd number of integers",
            "    double* block_sums = reinterpret_cast<double*>(storage);\n"
            "    int* block_counts = reinterpret_cast<int*>(block_sums + bins);\n",
            "    int* block_counts = reinterpret_cast<int*>(storage);\n"
            "    double* block_sums = reinterpret_cast<double*>(block_counts + bins);\n",
            "memory",
        ),
    ),
    Foreign(
        name="extremes_cas",
        file="extremes_cas.cu",
        inputs=extremes_inputs,
        outputs={"maximum": ((1,), "float32"), "product": ((1,), "float64")},
        calls=(Call("extremes", (4, 1, 1), (96, 1, 1), ("x", "maximum", "product", np.int32(EXTREMES_N))),),
        reference=extremes_reference,
        broken=Broken(
            "plain store in place of the swap",
            "old = atomicCAS(bits, assumed, __double_as_longlong(factor * __longlong_as_double(assumed)));",
            "*bits = __double_as_longlong(factor * __longlong_as_double(assumed));",
            "race",
        ),
        rtol=1e-12,
    ),
    Foreign(
        name="quantise_int8",
        file="quantise_int8.cu",
        inputs=quantise_inputs,
        outputs={
            "q": ((QUANTISE_ROWS, QUANTISE_QUADS * 4), "int8"),
            "scales": ((QUANTISE_ROWS,), "float32"),
            "back": ((QUANTISE_ROWS, QUANTISE_QUADS * 4), "float32"),
        },
        calls=(
            Call("quantise", (QUANTISE_ROWS, 1, 1), (96, 1, 1), ("x", "q", "scales", np.int32(QUANTISE_QUADS))),
            Call(
                "dequantise",
                (3, 1, 1),
                (128, 1, 1),
                ("q", "scales", "back", np.int32(QUANTISE_ROWS), np.int32(QUANTISE_QUADS)),
            ),
        ),
        reference=quantise_reference,
        broken=Broken(
            "maxima of warps read that the block doesn't have",
            "top = lane < THREADS / 32 ? warp_max[lane] : 0.0f;",
            "top = warp_max[lane];",
            "uninitialised",
        ),
    ),
    Foreign(
        name="fir_int4",
        file="fir_int4.cu",
        inputs=fir_inputs,
        outputs={"out": ((FIR_N,), "int32"), "long_out": ((FIR_N,), "int32")},
        calls=(
            Call("fir", (3, 1, 1), (64, 1, 1), ("x", "w", "out", np.int32(FIR_N), np.int32(FIR_TAPS))),
            Call("fir", (3, 1, 1), (64, 1, 1), ("x", "w", "long_out", np.int32(FIR_N), np.int32(FIR_MOST_TAPS))),
        ),
        reference=fir_reference,
        broken=Broken("barrier behind the staging removed", "    __syncthreads();\n", "", "race"),
    ),
]
