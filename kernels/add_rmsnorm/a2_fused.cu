// a2: both in one launch: h goes out as soon as it is known and stays in registers for the norm, one barrier in all;
// long rows are split over a cluster of blocks.
// Bytes moved: 16N a row in float32: the second read of h is gone.
// Cache policies as in n7, by the sizes of x, r, h and y together.
// Limits: N <= 262144; arrays aligned to 16 bytes; clusters need sm_90. The norm is that of the rounded h, as in a1.
// Bound by: DRAM.
#include "../common/row.cuh"

constexpr int EACH = VECTORS * WIDTH <= 16 ? WIDE : NARROW;  // 32 elements and WIDE partials spill in blocks of 1024

extern "C" __global__ void ROW_KERNEL
add_rms_a2(const Element* __restrict__ x, const Element* __restrict__ r, const Element* __restrict__ w,
           Element* __restrict__ h, Element* __restrict__ y, int N, float eps) {
    cluster_arrive();  // this block runs: others may write into its shared memory once all have arrived
    Position at;
    int vectors = N / WIDTH;
    long long offset = at.row * N;
    auto inside = [&](int k) { return k < FULL || at.vector(k) < vectors; };
    Vector hs[VECTORS], rs[VECTORS], ws[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        hs[k] = inside(k) ? load<X_CACHE>(x + offset + at.vector(k) * WIDTH) : filled(0.0f);
        rs[k] = inside(k) ? load<X_CACHE>(r + offset + at.vector(k) * WIDTH) : filled(0.0f);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {  // on its way before h is stored
        ws[k] = inside(k) ? load(w + at.vector(k) * WIDTH) : filled(0.0f);
    }
    float inverse = 1.0f / N;  // now, for after the barrier it would be waited for
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        float v[WIDTH], b[WIDTH];
        unpack(hs[k], v);
        unpack(rs[k], b);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) v[j] += b[j];
        hs[k] = pack(v);
        if (inside(k)) store<Y_CACHE>(h + offset + at.vector(k) * WIDTH, hs[k]);
        unpack(hs[k], v);  // as it was stored
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sum += v[j] * v[j];
    }
    float scale = rsqrtf(row_sum<EACH>(sum, at) * inverse + eps);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        if (!inside(k)) continue;
        float v[WIDTH], g[WIDTH];
        unpack(hs[k], v);
        unpack(ws[k], g);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) v[j] = v[j] * scale * g[j];
        store<Y_CACHE>(y + offset + at.vector(k) * WIDTH, pack(v));
    }
}
