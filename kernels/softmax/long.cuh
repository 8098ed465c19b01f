// Softmax of one long row, in the shared memory of a cluster of blocks but for the last KEPT vectors of a thread, which
// stay in registers: the body of s8 and s9. KEPT, X_LINES and Y_LINES come from the declaration.
#pragma once

#include "../common/row.cuh"

constexpr int STAGED = VECTORS - KEPT;

// Where a thread has registers for its row and OTHERS more, the passes for maximum and sum are unrolled, so that the
// second finds the row in registers.
constexpr int OTHERS = 24;
constexpr bool ROOM = STAGED * WIDTH + OTHERS <= REGISTERS;
constexpr int UNROLLED = STAGED > 0 && ROOM ? STAGED : 4;  // never 0, which is no number of times
constexpr int COPIES = STAGED > 0 && STAGED <= 24 ? STAGED : 8;
constexpr float LOG2E = 1.4426950408889634f;

__device__ __forceinline__ float exp2_of(float v) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));
    return v;
}

// Called once a launch, after one cluster_arrive().
__device__ __forceinline__ void softmax_long_row(const Element* x, Element* y, int N) {
    extern __shared__ uint4 dynamic[];  // (STAGED, THREADS) vectors; a thread touches its own column alone
    Vector* staged = (Vector*)dynamic + threadIdx.x;
    Place at;
    int vectors = N / WIDTH;
    long long offset = at.row * N;
    auto inside = [&](int k) { return k < FULL || at.vector(k) < vectors; };
#pragma unroll(COPIES)
    for (int k = 0; k < STAGED; ++k) {  // the exponential of -inf is 0, and LOWEST is the least maximum
        if (inside(k)) start_copy<X_LINES>(&staged[k * THREADS], x + offset + at.vector(k) * WIDTH);
        else staged[k * THREADS] = filled(minus_infinity());
    }
    float e[KEPT + 1][WIDTH];  // no array of size 0
    float m = LOWEST;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int own = STAGED + k;
        unpack(inside(own) ? load<X_LINES>(x + offset + at.vector(own) * WIDTH) : filled(minus_infinity()), e[k]);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) m = fmaxf(m, e[k][j]);
    }
    finish_copies();
#pragma unroll(UNROLLED)
    for (int k = 0; k < STAGED; ++k) {
        float v[WIDTH];
        unpack(staged[k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) m = fmaxf(m, v[j]);
    }
    m = warp_max(m);
    float s = 0.0f;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            e[k][j] = __expf(e[k][j] - m);
            s += e[k][j];
        }
    }
#pragma unroll(UNROLLED)
    for (int k = 0; k < STAGED; ++k) {
        float v[WIDTH];
        unpack(staged[k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            v[j] = __expf(v[j] - m);
            s += v[j];
        }
        if (sizeof(Element) == 4) staged[k * THREADS] = pack(v);  // a 16-bit one would be rounded twice
    }
    MaxSum all = row_merge<NARROW>({m, warp_sum(s)}, at);
    float scale = __fdividef(__expf(m - all.m), all.s);  // as in softmax.cuh
    float power = __log2f(scale);  // one multiplication fewer where they are taken again
#pragma unroll 4
    for (int k = 0; k < STAGED; ++k) {
        if (!inside(k)) continue;
        float v[WIDTH];
        unpack(staged[k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) {
            if (sizeof(Element) == 4) v[j] *= scale;
            else v[j] = exp2_of((v[j] - m) * LOG2E + power);
        }
        store<Y_LINES>(y + offset + at.vector(k) * WIDTH, pack(v));
    }
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int own = STAGED + k;
        if (!inside(own)) continue;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) e[k][j] *= scale;
        store<Y_LINES>(y + offset + at.vector(own) * WIDTH, pack(e[k]));
    }
}
