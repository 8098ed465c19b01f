// Inclusive prefix sum of each block's own segment: a scan by shuffles in every warp, a scan of the warps' totals in
// the first warp, and the total of the warps before added at the end. blockDim.x is a multiple of 32.

#define FULL_MASK 0xffffffffu

__device__ __forceinline__ int warp_inclusive_scan(int value, int lane) {
#pragma unroll
  for (int delta = 1; delta < 32; delta *= 2) {
    const int below = __shfl_up_sync(FULL_MASK, value, delta);
    if (lane >= delta) value += below;
  }
  return value;
}

extern "C" __global__ void block_scan(const int *__restrict__ in, int *__restrict__ out, int n) {
  __shared__ int totals[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int warps = blockDim.x >> 5;

  int value = warp_inclusive_scan(i < n ? in[i] : 0, lane);
  if (lane == 31) totals[warp] = value;
  __syncthreads();

  if (warp == 0) {
    const int total = warp_inclusive_scan(lane < warps ? totals[lane] : 0, lane);
    if (lane < warps) totals[lane] = total;
  }
  __syncthreads();

  if (warp > 0) value += totals[warp - 1];
  if (i < n) out[i] = value;
}
