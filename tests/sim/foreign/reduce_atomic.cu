// Sum and sum of squares of an array: a grid-stride loop in registers, a tree in shared memory, and one atomic
// addition a block and sum. blockDim.x is a power of two; shared memory: 4 bytes a thread.

__device__ float block_sum(float value, float *scratch) {
  const int t = threadIdx.x;
  __syncthreads();  // the scratch may still be read from the call before
  scratch[t] = value;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) scratch[t] += scratch[t + half];
    __syncthreads();
  }
  return scratch[0];
}

extern "C" __global__ void moments(const float *__restrict__ x, float *result, int n) {
  extern __shared__ float scratch[];
  float sum = 0.0f;
  float squares = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += x[i];
    squares = fmaf(x[i], x[i], squares);
  }

  sum = block_sum(sum, scratch);
  squares = block_sum(squares, scratch);
  if (threadIdx.x == 0) {
    atomicAdd(&result[0], sum);
    atomicAdd(&result[1], squares);
  }
}
