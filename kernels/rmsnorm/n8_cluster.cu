// n8: a long row waits in shared memory, where asynchronous copies bring it without passing through registers, the
// last REGISTER_VECTORS vectors of a thread in registers; and a row that is too long for one block, or one of too few
// rows for the GPU, is split over a cluster of blocks that exchange their sums through distributed shared memory.
// Over 96 KiB a block, but not of whole 16-bit rows, a multiple of the four that the sum takes is left, if it fits.
// Rows past the registers of one block are still read once: the bytes moved stay at 8N a row, where n2 has 12N.
// Where x and y take over three quarters of L2, x stays in it, which was found by measuring, and y as in n7; but not on
// full SMs (2048 threads), which have no registers to say so.
// Limits: N <= 524288; arrays aligned to 16 bytes; clusters need sm_90. Bound by: DRAM.
#include "../common/row.cuh"

constexpr int SHARED_VECTORS = VECTORS - REGISTER_VECTORS;
// More 16-bit ones would spill.
constexpr int AT_ONCE = sizeof(Element) == 4 || (REGISTER_VECTORS == 0 && REGISTERS > 32) ? 4 : 2;

extern "C" __global__ void ROW_KERNEL
rms_n8(const Element* __restrict__ x, const Element* __restrict__ w, Element* __restrict__ y, int N, float eps) {
    extern __shared__ uint4 dynamic[];  // (SHARED_VECTORS, THREADS) vectors; a thread touches its own column alone
    Vector* in_shared = (Vector*)dynamic + threadIdx.x;
    cluster_arrive();  // this block runs: others may write into its shared memory once all have arrived
    Position at;
    int vectors = N / WIDTH;
    long long offset = at.row * N;
    auto inside = [&](int k) { return k < FULL || at.vector(k) < vectors; };
#pragma unroll(SHARED_VECTORS <= 24 ? SHARED_VECTORS : 8)
    for (int k = 0; k < SHARED_VECTORS; ++k) {
        if (inside(k)) start_copy<X_CACHE>(&in_shared[k * THREADS], x + offset + at.vector(k) * WIDTH);
        else in_shared[k * THREADS] = filled(0.0f);
    }
    Vector xs[REGISTER_VECTORS + 1];  // no array of size 0
    float sum = 0.0f;
    auto add = [&](const Vector& one) {
        float v[WIDTH];
        unpack(one, v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sum += v[j] * v[j];
    };
#pragma unroll
    for (int k = 0; k < REGISTER_VECTORS; ++k) {
        int own = SHARED_VECTORS + k;
        xs[k] = inside(own) ? load<X_CACHE>(x + offset + at.vector(own) * WIDTH) : filled(0.0f);
    }
    finish_copies();
#pragma unroll 4
    for (int k = 0; k < SHARED_VECTORS; ++k) add(in_shared[k * THREADS]);
#pragma unroll
    for (int k = 0; k < REGISTER_VECTORS; ++k) add(xs[k]);
    float scale = rsqrtf(row_sum<NARROW>(sum, at) / N + eps);  // no 1 / N ahead as in n6: it would spill
    auto finish = [&](int k, const Vector& one) {
        if (!inside(k)) return;
        float v[WIDTH], g[WIDTH];
        unpack(one, v);
        unpack(load(w + at.vector(k) * WIDTH), g);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) v[j] = v[j] * scale * g[j];
        store<Y_CACHE>(y + offset + at.vector(k) * WIDTH, pack(v));
    };
#pragma unroll(AT_ONCE)
    for (int k = 0; k < SHARED_VECTORS; ++k) finish(k, in_shared[k * THREADS]);
#pragma unroll
    for (int k = 0; k < REGISTER_VECTORS; ++k) finish(SHARED_VECTORS + k, xs[k]);
}
