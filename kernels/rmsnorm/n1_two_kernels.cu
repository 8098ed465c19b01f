// n1, the baseline: two launches, x crosses DRAM twice.
// Pass 1 reduces a row to 1/rms and writes it to rstd[M]; pass 2 reads the same row again and scales it.
// Nothing is kept between the launches but 4 bytes a row, so a row costs 4N + 4N read and 4N written: 12N.
// Bound by: the second read of x, once x no longer fits the L2 cache.
#include "../common/reduce.cuh"

extern "C" __global__ void
rms_n1_pass1(const float* __restrict__ x, float* __restrict__ rstd, int N, float eps) {
    const float* row = x + static_cast<long long>(blockIdx.x) * N;  // M*N may pass 2^31
    float sum = 0.0f;
    for (int i = threadIdx.x; i < N; i += BLOCK) sum += row[i] * row[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) rstd[blockIdx.x] = rsqrtf(sum / N + eps);
}

extern "C" __global__ void
rms_n1_pass2(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ rstd,
             float* __restrict__ y, int N) {
    long long offset = static_cast<long long>(blockIdx.x) * N;
    float scale = rstd[blockIdx.x];
    for (int i = threadIdx.x; i < N; i += BLOCK) y[offset + i] = x[offset + i] * scale * w[i];
}
