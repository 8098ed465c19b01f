// The sum of x, in two launches: 128 blocks sum a part each, one block sums the parts. The same bits every time,
// which atomics would not give. Bound by DRAM.
// nvcc -cubin -arch=sm_90 sum.cu

constexpr int BLOCK = 256;
constexpr int PARTS = 128;  // blocks of the first launch

// The sum over the block, in thread 0.
template <int THREADS>
__device__ float block_sum(float value) {
    __shared__ float warps[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float total = 0.0f;
    if (threadIdx.x == 0) {
        for (int warp = 0; warp < THREADS / 32; ++warp) {
            total += warps[warp];
        }
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
sum_parts(const float* __restrict__ x, float* __restrict__ parts, long long N) {
    const long long thread = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
    const long long threads = static_cast<long long>(gridDim.x) * BLOCK;
    const float4* vectors = reinterpret_cast<const float4*>(x);
    float sum = 0.0f;
    for (long long i = thread; i < N / 4; i += threads) {
        const float4 v = vectors[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    if (thread < N % 4) {
        sum += x[N / 4 * 4 + thread];
    }
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(PARTS)
sum_all(const float* __restrict__ parts, float* __restrict__ s) {
    const float sum = block_sum<PARTS>(parts[threadIdx.x]);
    if (threadIdx.x == 0) {
        *s = sum;
    }
}
