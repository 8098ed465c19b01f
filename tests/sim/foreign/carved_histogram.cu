// Sum (float64) and count of the values of each bin. Both histograms are first made by block in one piece of dynamic
// shared memory, carved into doubles and, behind them, integers.
extern "C" __global__ void binned_sums(
    const float* __restrict__ values,
    const unsigned char* __restrict__ bin_of,
    double* sums,
    int* counts,
    int n,
    int bins) {
    extern __shared__ __align__(8) unsigned char storage[];
    double* block_sums = reinterpret_cast<double*>(storage);
    int* block_counts = reinterpret_cast<int*>(block_sums + bins);

    for (int b = threadIdx.x; b < bins; b += blockDim.x) {
        block_sums[b] = 0.0;
        block_counts[b] = 0;
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int b = bin_of[i];
        if (b < bins) {
            atomicAdd(&block_sums[b], static_cast<double>(values[i]));
            atomicAdd(&block_counts[b], 1);
        }
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) {
        if (block_counts[b] == 0) continue;
        atomicAdd(&sums[b], block_sums[b]);
        atomicAdd(&counts[b], block_counts[b]);
    }
}
