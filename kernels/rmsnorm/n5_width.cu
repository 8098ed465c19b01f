// n5: n4 compiled for its width: VECTORS, the vectors a thread holds, is what N needs and not what the largest N would.
// The bytes moved stay at 8N a row.
// Why it should be faster: registers shrink with N, so that more blocks fit an SM, and the loops have no idle trips;
// most where few rows leave little else to hide latency behind.
// Limits: N <= 8192, N % 4 == 0, x, w and y aligned to 16 bytes.
// Bound by: DRAM.
#include "../common/reduce.cuh"

extern "C" __global__ void
rms_n5(const float4* __restrict__ x, const float4* __restrict__ w, float4* __restrict__ y, int N, float eps) {
    int groups = N >> 2;  // N % 4 == 0; a shift, for N is signed
    long long offset = static_cast<long long>(blockIdx.x) * groups;
    float4 xs[VECTORS];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = k * BLOCK + threadIdx.x;
        xs[k] = k < FULL || i < groups ? x[offset + i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        sum += xs[k].x * xs[k].x + xs[k].y * xs[k].y + xs[k].z * xs[k].z + xs[k].w * xs[k].w;
    float scale = rsqrtf(block_sum(sum) / N + eps);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int i = k * BLOCK + threadIdx.x;
        if (k < FULL || i < groups) {
            float4 v = xs[k];
            float4 g = w[i];
            y[offset + i] = make_float4(v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w);
        }
    }
}
