// RMSNorm of one row in registers, one barrier in all: the body of n6 and n7.
#pragma once

#include "../common/row.cuh"

static_assert(CLUSTER == 1, "n6 and n7 do not arrive at the first barrier of a cluster");

// READ and WRITTEN: the cache policies of x and of y.
template <CachePolicy READ, CachePolicy WRITTEN>
__device__ __forceinline__ void norm_row(const Element* x, const Element* w, Element* y, int N, float eps) {
    Position at;
    int vectors = N / WIDTH;
    long long offset = at.row * N;
    Vector xs[VECTORS], ws[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = at.vector(k);
        xs[k] = k < FULL || i < vectors ? load<READ>(x + offset + i * WIDTH) : filled(0.0f);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {  // on its way while x is: after the reduction it would be waited for
        int i = at.vector(k);
        ws[k] = k < FULL || i < vectors ? load(w + i * WIDTH) : filled(0.0f);
    }
    float inverse = 1.0f / N;  // now, for after the barrier it would be waited for
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        float v[WIDTH];
        unpack(xs[k], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sum += v[j] * v[j];
    }
    float scale = rsqrtf(row_sum<WIDE>(sum, at) * inverse + eps);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = at.vector(k);
        if (k < FULL || i < vectors) {
            float v[WIDTH], g[WIDTH];
            unpack(xs[k], v);
            unpack(ws[k], g);
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) v[j] = v[j] * scale * g[j];
            store<WRITTEN>(y + offset + i * WIDTH, pack(v));
        }
    }
}
