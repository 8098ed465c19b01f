// C = alpha A B + beta C, by tiles of 16 x 16 in shared memory: each value of A and B is read from L2 once for 16 results.
// Bound by shared memory: two loads a multiply-add. Next step: several results a thread, from registers.
// nvcc -cubin -arch=sm_90 sgemm.cu

template <int TILE>
__global__ void __launch_bounds__(TILE* TILE)
sgemm(int M, int N, int K, float alpha, const float* __restrict__ a, const float* __restrict__ b, float beta, float* c) {
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += TILE) {
        const int across = k + threadIdx.x, down = k + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < M && across < K ? a[static_cast<long long>(row) * K + across] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = down < K && column < N ? b[static_cast<long long>(down) * N + column] : 0.0f;
        __syncthreads();  // the tiles are there
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
            sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        }
        __syncthreads();  // nobody needs them any more
    }
    if (row < M && column < N) {
        float* result = c + static_cast<long long>(row) * N + column;
        *result = alpha * sum + beta * *result;
    }
}
