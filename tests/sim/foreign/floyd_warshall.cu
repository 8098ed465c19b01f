// All shortest paths in a graph by the tiled algorithm of Floyd and Warshall, in place: for every pivot tile k the
// tile itself, then its row and column of tiles, then all others. INFINITE means that there is no path.

constexpr int TILE = 16;
constexpr int INFINITE = 1 << 29;  // the sum of two of them is no overflow

__device__ __forceinline__ int cell(const int *d, int n, int row, int col) {
  return row < n && col < n ? d[row * n + col] : INFINITE;
}

extern "C" __global__ void fw_pivot(int *d, int n, int k) {
  __shared__ int pivot[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y, row = k * TILE + y, col = k * TILE + x;
  pivot[y][x] = cell(d, n, row, col);
  for (int m = 0; m < TILE; ++m) {
    __syncthreads();
    const int through = pivot[y][m] + pivot[m][x];
    if (through < pivot[y][x]) pivot[y][x] = through;  // never in row or column m, which the others are reading
  }
  if (row < n && col < n) d[row * n + col] = pivot[y][x];
}

// Blocks (i, 0): tile i of the pivot's row; blocks (i, 1): tile i of its column.
extern "C" __global__ void fw_cross(int *d, int n, int k) {
  if (blockIdx.x == k) return;
  __shared__ int pivot[TILE][TILE], own[TILE][TILE];
  const bool is_row = blockIdx.y == 0;
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = (is_row ? k : blockIdx.x) * TILE + y, col = (is_row ? blockIdx.x : k) * TILE + x;
  pivot[y][x] = cell(d, n, k * TILE + y, k * TILE + x);
  own[y][x] = cell(d, n, row, col);
  __syncthreads();
  for (int m = 0; m < TILE; ++m) {
    const int through = is_row ? pivot[y][m] + own[m][x] : own[y][m] + pivot[m][x];
    __syncthreads();
    own[y][x] = min(own[y][x], through);
    __syncthreads();
  }
  if (row < n && col < n) d[row * n + col] = own[y][x];
}

extern "C" __global__ void fw_rest(int *d, int n, int k) {
  if (blockIdx.x == k || blockIdx.y == k) return;
  __shared__ int left[TILE][TILE], above[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
  left[y][x] = cell(d, n, row, k * TILE + x);
  above[y][x] = cell(d, n, k * TILE + y, col);
  int best = cell(d, n, row, col);
  __syncthreads();
#pragma unroll
  for (int m = 0; m < TILE; ++m) best = min(best, left[y][m] + above[m][x]);
  if (row < n && col < n) d[row * n + col] = best;
}
