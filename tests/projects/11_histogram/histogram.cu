// How often each byte occurs: 256 bins of a block in shared memory by atomics, then added to those of all blocks.
// Bound by shared-memory atomics, the more the fewer different values there are.
// nvcc -cubin -arch=sm_90 histogram.cu

constexpr int BINS = 256;  // threads of a block too

extern "C" __global__ void __launch_bounds__(BINS)
histogram(const unsigned char* __restrict__ x, int* __restrict__ h, long long N) {
    __shared__ int bins[BINS];
    bins[threadIdx.x] = 0;
    __syncthreads();
    const long long threads = static_cast<long long>(gridDim.x) * BINS;
    for (long long i = static_cast<long long>(blockIdx.x) * BINS + threadIdx.x; i < N; i += threads) {
        atomicAdd(&bins[x[i]], 1);
    }
    __syncthreads();
    if (bins[threadIdx.x] > 0) {
        atomicAdd(&h[threadIdx.x], bins[threadIdx.x]);
    }
}
