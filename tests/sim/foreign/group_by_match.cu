// Sum and maximum of values by key. Lanes with the same key find each other by __match_any_sync and reduce among
// themselves in one instruction each (redux.sync); one lane of each group adds to the block's bins in shared memory,
// which are added to the global ones at the end. Needs sm_80.
constexpr int BINS = 24;

extern "C" __global__ void
group_by(const int* __restrict__ keys, const int* __restrict__ values, int* sums, unsigned* maxima, int n) {
    __shared__ int sum_bins[BINS];
    __shared__ unsigned max_bins[BINS];
    for (int b = threadIdx.x; b < BINS; b += blockDim.x) {
        sum_bins[b] = 0;
        max_bins[b] = 0;
    }
    __syncthreads();

    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned present = __ballot_sync(0xffffffffu, i < n);
    if (i < n) {
        const int key = keys[i];
        const int value = values[i];
        const unsigned peers = __match_any_sync(present, key);
        const int total = __reduce_add_sync(peers, value);
        const unsigned top = __reduce_max_sync(peers, static_cast<unsigned>(abs(value)));
        if ((threadIdx.x & 31) == __ffs(peers) - 1) {
            atomicAdd(&sum_bins[key], total);
            atomicMax(&max_bins[key], top);
        }
    }
    __syncthreads();

    for (int b = threadIdx.x; b < BINS; b += blockDim.x) {
        if (sum_bins[b] != 0) atomicAdd(&sums[b], sum_bins[b]);
        if (max_bins[b] != 0) atomicMax(&maxima[b], max_bins[b]);
    }
}
