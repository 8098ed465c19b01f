// C = alpha A B + beta C, row major, of any size: one thread an element of C, A and B in 16 x 16 tiles of shared
// memory, zeros where a tile hangs over an edge.

#define TILE 16

extern "C" __global__ void sgemm_tiled(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
                                       int M, int N, int K, float alpha, float beta) {
  __shared__ float a_tile[TILE][TILE];
  __shared__ float b_tile[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < K; k0 += TILE) {
    a_tile[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
    b_tile[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
    __syncthreads();  // the tiles are loaded

#pragma unroll
    for (int k = 0; k < TILE; ++k) sum += a_tile[ty][k] * b_tile[k][tx];
    __syncthreads();  // nobody reads them any more
  }

  if (row < M && col < N) {
    float *c = &C[row * N + col];
    *c = beta == 0.0f ? alpha * sum : alpha * sum + beta * *c;  // as in BLAS, beta = 0 does not read C
  }
}
