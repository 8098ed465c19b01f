// C = A B, row major, with register blocking: a block of 8 x 8 threads computes 32 x 32 elements of C, a thread 4 x 4
// of them. A's tile is stored transposed, so that a thread takes its four values of A and of B as one float4 each.

constexpr int BLOCK = 32;  // rows and columns of C a block
constexpr int DEPTH = 8;   // of K a step
constexpr int PER = 4;     // rows and columns of C a thread
constexpr int THREADS = (BLOCK / PER) * (BLOCK / PER);

extern "C" __global__ void __launch_bounds__(THREADS)
    sgemm_register(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int M, int N,
                   int K) {
  __shared__ __align__(16) float a_tile[DEPTH][BLOCK + 4];
  __shared__ __align__(16) float b_tile[DEPTH][BLOCK];
  const int rank = threadIdx.y * blockDim.x + threadIdx.x;
  const int row0 = blockIdx.y * BLOCK;
  const int col0 = blockIdx.x * BLOCK;

  float sum[PER][PER] = {};
  for (int k0 = 0; k0 < K; k0 += DEPTH) {
    for (int e = rank; e < BLOCK * DEPTH; e += THREADS) {
      const int row = row0 + e / DEPTH, k = k0 + e % DEPTH;
      a_tile[e % DEPTH][e / DEPTH] = row < M && k < K ? A[row * K + k] : 0.0f;
    }
    for (int e = rank; e < BLOCK * DEPTH; e += THREADS) {
      const int k = k0 + e / BLOCK, col = col0 + e % BLOCK;
      b_tile[e / BLOCK][e % BLOCK] = k < K && col < N ? B[k * N + col] : 0.0f;
    }
    __syncthreads();

#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      const float4 a4 = *reinterpret_cast<const float4 *>(&a_tile[k][threadIdx.y * PER]);
      const float4 b4 = *reinterpret_cast<const float4 *>(&b_tile[k][threadIdx.x * PER]);
      const float a[PER] = {a4.x, a4.y, a4.z, a4.w};
      const float b[PER] = {b4.x, b4.y, b4.z, b4.w};
#pragma unroll
      for (int i = 0; i < PER; ++i) {
#pragma unroll
        for (int j = 0; j < PER; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < PER; ++i) {
    const int row = row0 + threadIdx.y * PER + i;
#pragma unroll
    for (int j = 0; j < PER; ++j) {
      const int col = col0 + threadIdx.x * PER + j;
      if (row < M && col < N) C[row * N + col] = sum[i][j];
    }
  }
}
