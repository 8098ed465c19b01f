// s1, the baseline: three launches. The maximum of a row, the sum of exp(x - max), then the division; each
// reads x from global memory, max[M] and sum[M] carry the results across: 4N + 4N + 4N read, 4N written, 16N.
// The maximum is taken off before the exponential so that nothing overflows, which is why it takes a pass of its own.
// Bound by: the reads of x, once x no longer fits the L2 cache.
#include "../common/reduce.cuh"

extern "C" __global__ void
sm_s1_max(const float* __restrict__ x, float* __restrict__ row_max, int N) {
    const float* row = x + static_cast<long long>(blockIdx.x) * N;  // M*N may pass 2^31
    float m = LOWEST;
    for (int i = threadIdx.x; i < N; i += BLOCK) m = fmaxf(m, row[i]);
    m = block_max(m);
    if (threadIdx.x == 0) row_max[blockIdx.x] = m;
}

extern "C" __global__ void
sm_s1_sum(const float* __restrict__ x, const float* __restrict__ row_max, float* __restrict__ row_sum, int N) {
    const float* row = x + static_cast<long long>(blockIdx.x) * N;
    float m = row_max[blockIdx.x];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < N; i += BLOCK) sum += __expf(row[i] - m);
    sum = block_sum(sum);
    if (threadIdx.x == 0) row_sum[blockIdx.x] = sum;
}

extern "C" __global__ void
sm_s1_div(const float* __restrict__ x, const float* __restrict__ row_max, const float* __restrict__ row_sum,
          float* __restrict__ y, int N) {
    long long offset = static_cast<long long>(blockIdx.x) * N;
    float m = row_max[blockIdx.x];
    float scale = 1.0f / row_sum[blockIdx.x];
    for (int i = threadIdx.x; i < N; i += BLOCK) y[offset + i] = __expf(x[offset + i] - m) * scale;
}
