// Warp specialisation with named barriers: warp 0 loads tiles of 96 values into two shared buffers, warps 1 to 3 write
// them out scaled and in reverse order within the tile. A buffer has two barriers of all 128 threads: FULL, at which
// the producer arrives and the consumers wait, and EMPTY, the other way round.
constexpr int TILE = 96, THREADS = 128, STAGES = 2;
constexpr int FULL = 1, EMPTY = FULL + STAGES;  // barrier 0 is __syncthreads

__device__ __forceinline__ void bar_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void bar_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
reverse_tiles(const float* __restrict__ in, float* __restrict__ out, int n, float factor) {
    __shared__ float buffer[STAGES][TILE];
    const int tiles = (n + TILE - 1) / TILE;
    const int step = gridDim.x;

    if (threadIdx.x < 32) {
        int round = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += step, ++round) {
            const int stage = round % STAGES;
            if (round >= STAGES) bar_sync(EMPTY + stage, THREADS);
            for (int i = threadIdx.x; i < TILE; i += 32)
                buffer[stage][i] = tile * TILE + i < n ? in[tile * TILE + i] : 0.0f;
            bar_arrive(FULL + stage, THREADS);
        }
    } else {
        const int consumer = threadIdx.x - 32;
        int round = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += step, ++round) {
            const int stage = round % STAGES;
            bar_sync(FULL + stage, THREADS);
            float value = buffer[stage][TILE - 1 - consumer];
            if (tile + STAGES * step < tiles) bar_arrive(EMPTY + stage, THREADS);  // only if the producer will wait
            int to = tile * TILE + consumer;
            if (to < n) out[to] = value * factor;
        }
    }
}
