// y = transpose of x, by tiles of 32 x 32 in shared memory: rows are read and written in order, both coalesced.
// A tile's rows are 33 words apart, so that its columns lie in 32 different banks. Bound by DRAM.
// nvcc -cubin -arch=sm_90 transpose.cu

constexpr int TILE = 32;
constexpr int ROWS = 8;  // of a tile that the block has in hand at a time

extern "C" __global__ void __launch_bounds__(TILE * ROWS)
transpose(const float* __restrict__ x, float* __restrict__ y, int M, int N) {
    __shared__ float tile[TILE][TILE + 1];
    const int column = blockIdx.x * TILE, row = blockIdx.y * TILE;
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        if (row + r < M && column + threadIdx.x < N) {
            tile[r][threadIdx.x] = x[static_cast<long long>(row + r) * N + column + threadIdx.x];
        }
    }
    __syncthreads();
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        if (column + r < N && row + threadIdx.x < M) {
            y[static_cast<long long>(column + r) * M + row + threadIdx.x] = tile[threadIdx.x][r];
        }
    }
}
