// Backward pass of layer normalisation, one warp a row: the gradient of the input, and those of gamma and beta added
// up over the rows, first in shared memory and then in global memory. Mean and reciprocal deviation of every row come
// from the forward pass. Shared memory: 2 * cols floats.

const unsigned LANES = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(LANES, value, mask);
  return value;
}

extern "C" __global__ void layernorm_backward(const float *__restrict__ dy, const float *__restrict__ x,
                                              const float *__restrict__ gamma, const float *__restrict__ mean,
                                              const float *__restrict__ rstd, float *__restrict__ dx, float *dgamma,
                                              float *dbeta, int rows, int cols) {
  extern __shared__ float shared[];
  float *block_dgamma = shared;
  float *block_dbeta = shared + cols;
  for (int c = threadIdx.x; c < 2 * cols; c += blockDim.x) shared[c] = 0.0f;
  __syncthreads();

  const int lane = threadIdx.x % warpSize;
  const int row = blockIdx.x * (blockDim.x / warpSize) + threadIdx.x / warpSize;
  if (row < rows) {
    const float mu = mean[row], r = rstd[row];
    const float *dy_row = dy + row * cols, *x_row = x + row * cols;
    float sum_dxhat = 0.0f, sum_dxhat_xhat = 0.0f;
    for (int c = lane; c < cols; c += warpSize) {
      const float xhat = (x_row[c] - mu) * r;
      const float dxhat = dy_row[c] * gamma[c];
      sum_dxhat += dxhat;
      sum_dxhat_xhat += dxhat * xhat;
      atomicAdd(&block_dgamma[c], dy_row[c] * xhat);
      atomicAdd(&block_dbeta[c], dy_row[c]);
    }
    const float mean_dxhat = warp_sum(sum_dxhat) / cols;
    const float mean_dxhat_xhat = warp_sum(sum_dxhat_xhat) / cols;
    for (int c = lane; c < cols; c += warpSize) {
      const float xhat = (x_row[c] - mu) * r;
      dx[row * cols + c] = r * (dy_row[c] * gamma[c] - mean_dxhat - xhat * mean_dxhat_xhat);
    }
  }
  __syncthreads();

  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    atomicAdd(&dgamma[c], block_dgamma[c]);
    atomicAdd(&dbeta[c], block_dbeta[c]);
  }
}
