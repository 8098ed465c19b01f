// Divides each row by its sum; a row is shared by a cluster of two blocks. Each block sums its half and reads the
// other's partial sum out of that block's shared memory (distributed shared memory: mapa and ld.shared::cluster).
// The second cluster barrier keeps a block from leaving while its partner may still read. Needs sm_90.
#include <stdint.h>

constexpr int THREADS = 64;

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ __forceinline__ float read_remote(const float* mine, uint32_t rank) {
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(mine)), remote;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(remote) : "memory");
    return value;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS)
normalise_rows(const float* __restrict__ x, float* __restrict__ y, int columns) {
    __shared__ float warp_sums[THREADS / 32];
    __shared__ float block_sum;
    const uint32_t rank = cluster_rank();
    const int row = blockIdx.x / 2;
    const int half = (columns + 1) / 2;
    const int begin = rank * half, end = min(begin + half, columns);
    const float* from = x + static_cast<size_t>(row) * columns;

    float sum = 0.0f;
    for (int c = begin + threadIdx.x; c < end; c += THREADS) sum += from[c];
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) block_sum = warp_sums[0] + warp_sums[1];
    cluster_arrive();
    cluster_wait();

    const uint32_t other = rank ^ 1u;
    float theirs = read_remote(&block_sum, other);
    cluster_arrive();
    const float scale = 1.0f / (block_sum + theirs);
    float* to = y + static_cast<size_t>(row) * columns;
    for (int c = begin + threadIdx.x; c < end; c += THREADS) to[c] = from[c] * scale;
    cluster_wait();
}
