// Matrix transpose through a 32 x 32 tile of shared memory: reads and writes both run along rows of memory.
// One column of padding puts the elements of a tile's column in different banks. Block: 32 x 8 threads.

constexpr int TILE = 32;
constexpr int STEP = 8;

extern "C" __global__ void __launch_bounds__(TILE *STEP)
    transpose_tiled(const float *__restrict__ in, float *__restrict__ out, int rows, int cols) {
  __shared__ float tile[TILE][TILE + 1];

  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
  for (int j = 0; j < TILE; j += STEP) {
    if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
  }
  __syncthreads();

  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
  for (int j = 0; j < TILE; j += STEP) {
    if (x < rows && y + j < cols) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
  }
}
