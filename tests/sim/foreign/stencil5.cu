// One step of an anisotropic five-point stencil, two-dimensional, with the block's cells and a halo of one cell in
// shared memory. Beyond the edge of the field the edge cell repeats. The corners of the halo are not needed.

constexpr int BX = 32;
constexpr int BY = 8;

__constant__ float weights[5] = {0.40f, 0.20f, 0.18f, 0.12f, 0.10f};  // centre, west, east, north, south

extern "C" __global__ void __launch_bounds__(BX *BY)
    stencil5(const float *__restrict__ in, float *__restrict__ out, int width, int height) {
  __shared__ float tile[BY + 2][BX + 2];
  const int x = blockIdx.x * BX + threadIdx.x;
  const int y = blockIdx.y * BY + threadIdx.y;
  const int tx = threadIdx.x + 1;
  const int ty = threadIdx.y + 1;

  auto load = [=](int cx, int cy) {
    cx = min(max(cx, 0), width - 1);
    cy = min(max(cy, 0), height - 1);
    return in[cy * width + cx];
  };
  tile[ty][tx] = load(x, y);
  if (threadIdx.x == 0) tile[ty][0] = load(x - 1, y);
  if (threadIdx.x == BX - 1) tile[ty][BX + 1] = load(x + 1, y);
  if (threadIdx.y == 0) tile[0][tx] = load(x, y - 1);
  if (threadIdx.y == BY - 1) tile[BY + 1][tx] = load(x, y + 1);
  __syncthreads();

  if (x < width && y < height) {
    out[y * width + x] = weights[0] * tile[ty][tx] + weights[1] * tile[ty][tx - 1] + weights[2] * tile[ty][tx + 1] +
                         weights[3] * tile[ty - 1][tx] + weights[4] * tile[ty + 1][tx];
  }
}
