// Softmax of one row in registers, one barrier in all: the body of s6 and s7.
#pragma once

#include "../common/row.cuh"

static_assert(CLUSTER == 1, "s6 and s7 do not arrive at the first barrier of a cluster");

// READ and WRITTEN: the cache policies of x and of y.
template <CachePolicy READ, CachePolicy WRITTEN>
__device__ __forceinline__ void softmax_row(const Element* x, Element* y, int N) {
    Position at;
    int vectors = N / WIDTH;
    long long offset = at.row * N;
    Vector xs[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = at.vector(k);  // the exponential of -inf is 0, and LOWEST is the least maximum
        xs[k] = k < FULL || i < vectors ? load<READ>(x + offset + i * WIDTH) : filled(minus_infinity());
    }
    float e[VECTORS][WIDTH];
    float m = LOWEST;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        unpack(xs[k], e[k]);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) m = fmaxf(m, e[k][j]);
    }
    m = warp_max(m);
    float s = 0.0f;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            e[k][j] = __expf(e[k][j] - m);
            s += e[k][j];
        }
    }
    MaxSum all = row_merge<WIDE>({m, warp_sum(s)}, at);
    // Exponentials are around the warp's maximum. The division is approximate, as they are.
    float scale = __fdividef(__expf(m - all.m), all.s);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = at.vector(k);
        if (k < FULL || i < vectors) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) e[k][j] *= scale;
            store<WRITTEN>(y + offset + i * WIDTH, pack(e[k]));
        }
    }
}
