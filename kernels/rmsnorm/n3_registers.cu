// n3: the row stays in registers between the two passes, 32 floats a thread. x crosses DRAM once: 8N a row.
// Against n2: the second read of x is gone, whatever the cache does.
// The array is indexed by constants in fully unrolled loops only. A running index (xs[n++]) would move it to
// local memory, which is DRAM, and the point of the variant would be lost; the static tests hold that at 0 bytes.
// Limit: N <= 256 * 32 = 8192, the row has to fit the block's registers.
// Bound by: DRAM, with 4-byte requests.
#include "../common/reduce.cuh"

constexpr int PER_THREAD = 32;

extern "C" __global__ void
rms_n3(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int N, float eps) {
    long long offset = static_cast<long long>(blockIdx.x) * N;
    float xs[PER_THREAD];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        int i = k * BLOCK + threadIdx.x;
        xs[k] = i < N ? x[offset + i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) sum += xs[k] * xs[k];
    float scale = rsqrtf(block_sum(sum) / N + eps);
#pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        int i = k * BLOCK + threadIdx.x;
        if (i < N) y[offset + i] = xs[k] * scale * w[i];
    }
}
