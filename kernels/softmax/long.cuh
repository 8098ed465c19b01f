// Softmax of one long row, in the shared memory of a cluster of blocks but for the last REGISTER_VECTORS vectors of a
// thread, which stay in registers: the body of s8 and s9. REGISTER_VECTORS, X_CACHE and Y_CACHE are declared.
#pragma once

#include "../common/row.cuh"

constexpr int SHARED_VECTORS = VECTORS - REGISTER_VECTORS;

// Where a thread has registers for its row and OTHERS more, the passes for maximum and sum are unrolled, so that the
// second finds the row in registers.
constexpr int OTHERS = 24;
constexpr bool ROOM = SHARED_VECTORS * WIDTH + OTHERS <= REGISTERS;
constexpr int UNROLLED = SHARED_VECTORS > 0 && ROOM ? SHARED_VECTORS : 4;  // never 0, which is no number of times
constexpr int COPIES = SHARED_VECTORS > 0 && SHARED_VECTORS <= 24 ? SHARED_VECTORS : 8;
constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ float exp2_of(float v) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));
    return v;
}

// Called once a launch, after one cluster_arrive().
__device__ __forceinline__ void softmax_long_row(const Element* x, Element* y, int N) {
    extern __shared__ uint4 dynamic[];  // (SHARED_VECTORS, THREADS) vectors; a thread touches its own column alone
    Vector* in_shared = (Vector*)dynamic + threadIdx.x;
    Position at;
    int vectors = N / WIDTH;
    long long offset = at.row * N;
    auto inside = [&](int k) { return k < FULL || at.vector(k) < vectors; };
#pragma unroll(COPIES)
    for (int k = 0; k < SHARED_VECTORS; ++k) {  // the exponential of -inf is 0, and LOWEST is the least maximum
        if (inside(k)) start_copy<X_CACHE>(&in_shared[k * THREADS], x + offset + at.vector(k) * WIDTH);
        else in_shared[k * THREADS] = filled(minus_infinity());
    }
    float e[REGISTER_VECTORS + 1][WIDTH];  // no array of size 0
    float m = LOWEST;
#pragma unroll
    for (int k = 0; k < REGISTER_VECTORS; ++k) {
        int own = SHARED_VECTORS + k;
        unpack(inside(own) ? load<X_CACHE>(x + offset + at.vector(own) * WIDTH) : filled(minus_infinity()), e[k]);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) m = fmaxf(m, e[k][j]);
    }
    finish_copies();
#pragma unroll(UNROLLED)
    for (int k = 0; k < SHARED_VECTORS; ++k) {
        float v[WIDTH];
        unpack(in_shared[k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) m = fmaxf(m, v[j]);
    }
    m = warp_max(m);
    float s = 0.0f;
#pragma unroll
    for (int k = 0; k < REGISTER_VECTORS; ++k) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            e[k][j] = __expf(e[k][j] - m);
            s += e[k][j];
        }
    }
#pragma unroll(UNROLLED)
    for (int k = 0; k < SHARED_VECTORS; ++k) {
        float v[WIDTH];
        unpack(in_shared[k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            v[j] = __expf(v[j] - m);
            s += v[j];
        }
        if (sizeof(Element) == 4) in_shared[k * THREADS] = pack(v);  // a 16-bit one would be rounded twice
    }
    MaxSum all = row_merge<NARROW>({m, warp_sum(s)}, at);
    float scale = __fdividef(__expf(m - all.m), all.s);  // as in softmax.cuh
    float power = __log2f(scale);  // one multiplication fewer where they are taken again
#pragma unroll 4
    for (int k = 0; k < SHARED_VECTORS; ++k) {
        if (!inside(k)) continue;
        float v[WIDTH];
        unpack(in_shared[k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            if (sizeof(Element) == 4) v[j] *= scale;
            else v[j] = exp2_of((v[j] - m) * LOG2E + power);
        }
        store<Y_CACHE>(y + offset + at.vector(k) * WIDTH, pack(v));
    }
#pragma unroll
    for (int k = 0; k < REGISTER_VECTORS; ++k) {
        int own = SHARED_VECTORS + k;
        if (!inside(own)) continue;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) e[k][j] *= scale;
        store<Y_CACHE>(y + offset + at.vector(own) * WIDTH, pack(e[k]));
    }
}
