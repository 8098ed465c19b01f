// s8: a long row waits in shared memory, where asynchronous copies bring it without passing through registers, the
// last KEPT vectors of a thread in registers; and a row that is too long for one block, or one of too few rows for the
// card, is split over a cluster of blocks that exchange maxima and sums through distributed shared memory.
// A vocabulary of 152064 is read once: the ledger stays at 8N a row, where s2 has 12N.
// Beyond three quarters of the L2 cache both x and y get eviction priorities as in s7, which was found by measuring.
// Limits: N <= 524288; arrays aligned to 16 bytes; clusters need sm_90.
// Bound by: DRAM; 16-bit rows take a second exponential instead of room for floats in shared memory.
#include "../row.cuh"

constexpr int STAGED = VECTORS - KEPT;

extern "C" __global__ void ROW_KERNEL
sm_s8(const Element* __restrict__ x, Element* __restrict__ y, int N) {
    extern __shared__ uint4 dynamic[];  // (STAGED, THREADS) vectors; a thread touches its own column alone
    Vector* staged = (Vector*)dynamic + threadIdx.x;
    cluster_arrive();  // this block runs: others may write into its shared memory once all have arrived
    Place at;
    int vectors = N / WIDTH;
    long long offset = at.row * N;
    auto inside = [&](int k) { return k < FULL || at.vector(k) < vectors; };
#pragma unroll(STAGED <= 24 ? STAGED : 8)
    for (int k = 0; k < STAGED; ++k) {  // the exponential of -inf is 0, and LOWEST is the least maximum
        if (inside(k)) start_copy<KEEP_X>(&staged[k * THREADS], x + offset + at.vector(k) * WIDTH);
        else staged[k * THREADS] = filled(minus_infinity());
    }
    float e[KEPT + 1][WIDTH];  // no array of size 0
    float m = LOWEST;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int own = STAGED + k;
        unpack(inside(own) ? load<KEEP_X>(x + offset + at.vector(own) * WIDTH) : filled(minus_infinity()), e[k]);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) m = fmaxf(m, e[k][j]);
    }
    finish_copies();
#pragma unroll 4
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
#pragma unroll 4
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
    MaxSum all = row_merge({m, warp_sum(s)}, at);
    float scale = __expf(m - all.m) / all.s;  // exponentials are around the warp's maximum
#pragma unroll 4
    for (int k = 0; k < STAGED; ++k) {
        if (!inside(k)) continue;
        float v[WIDTH];
        unpack(staged[k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) v[j] = (sizeof(Element) == 4 ? v[j] : __expf(v[j] - m)) * scale;
        store<KEEP_Y>(y + offset + at.vector(k) * WIDTH, pack(v));
    }
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int own = STAGED + k;
        if (!inside(own)) continue;
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) e[k][j] *= scale;
        store<KEEP_Y>(y + offset + at.vector(own) * WIDTH, pack(e[k]));
    }
}
