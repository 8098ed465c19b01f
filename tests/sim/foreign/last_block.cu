// Dot product in one launch: every block leaves a partial sum, and the block that finishes last adds them up.
// The ticket counter wraps to zero with the last block, so that the next launch finds it as this one did.

__device__ unsigned int tickets = 0;

template <int THREADS>
__device__ double block_reduce(double value) {
  __shared__ double warp_sums[THREADS / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < THREADS / 32; ++w) value += warp_sums[w];
  }
  __syncthreads();
  return value;  // thread 0 has the block's sum
}

extern "C" __global__ void __launch_bounds__(128)
    dot_last_block(const float *__restrict__ x, const float *__restrict__ y, volatile double *partial, double *result,
                   int n) {
  __shared__ bool is_last;

  double sum = 0.0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += double(x[i]) * double(y[i]);
  }
  sum = block_reduce<128>(sum);

  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();  // the partial sum is visible before the ticket is
    is_last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();  // is_last

  if (is_last) {
    __threadfence();
    sum = 0.0;
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x) sum += partial[b];
    sum = block_reduce<128>(sum);
    if (threadIdx.x == 0) *result = sum;
  }
}
