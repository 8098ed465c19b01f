// s2: maximum and sum in one pass, by the online recurrence: whenever a new maximum turns up, the sum so far
// is rescaled to it. Against s1: one read of x fewer, 12N a row; the division kernel of s1 is reused as it is.
// It pays with a second exponential for each element.
// Bound by: the two reads of x, and at long rows with few blocks by latency: each step waits for the one before.
#include "../common/reduce.cuh"

extern "C" __global__ void
sm_s2_ms(const float* __restrict__ x, float* __restrict__ row_max, float* __restrict__ row_sum, int N) {
    const float* row = x + static_cast<long long>(blockIdx.x) * N;  // M*N may pass 2^31
    MaxSum v = EMPTY;
    for (int i = threadIdx.x; i < N; i += BLOCK) v = merge(v, {row[i], 1.0f});
    v = block_merge(v);
    if (threadIdx.x == 0) {
        row_max[blockIdx.x] = v.m;
        row_sum[blockIdx.x] = v.s;
    }
}
