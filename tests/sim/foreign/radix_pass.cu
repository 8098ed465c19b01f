// One stable pass of a radix sort by four bits of the key, in three launches: count the digits of every block, turn
// the counts (digit by digit, in each the blocks in order) into positions, and scatter keys and values.

constexpr int DIGITS = 16;
constexpr int WARPS = 4;  // a block, for the scatter
constexpr unsigned FULL = 0xffffffffu;

extern "C" __global__ void radix_count(const unsigned *__restrict__ keys, unsigned *__restrict__ counts, int shift,
                                       int n) {
  __shared__ unsigned count[DIGITS];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < DIGITS) count[threadIdx.x] = 0;
  __syncthreads();
  if (i < n) atomicAdd(&count[(keys[i] >> shift) % DIGITS], 1u);
  __syncthreads();
  if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = count[threadIdx.x];
}

// Exclusive scan, in place, by one warp.
extern "C" __global__ void radix_positions(unsigned *counts, int size) {
  const int lane = threadIdx.x;
  unsigned carry = 0;
  for (int first = 0; first < size; first += 32) {
    const unsigned count = first + lane < size ? counts[first + lane] : 0;
    unsigned sum = count;
    for (int delta = 1; delta < 32; delta *= 2) {
      const unsigned below = __shfl_up_sync(FULL, sum, delta);
      sum += lane >= delta ? below : 0;
    }
    if (first + lane < size) counts[first + lane] = carry + sum - count;
    carry += __shfl_sync(FULL, sum, 31);
  }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    radix_scatter(const unsigned *__restrict__ keys, const unsigned *__restrict__ values,
                  unsigned *__restrict__ keys_out, unsigned *__restrict__ values_out,
                  const unsigned *__restrict__ positions, int shift, int n) {
  __shared__ unsigned warp_count[WARPS][DIGITS];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x < WARPS * DIGITS) warp_count[threadIdx.x / DIGITS][threadIdx.x % DIGITS] = 0;
  __syncthreads();

  unsigned key = 0, digit = 0, rank = 0;
  const unsigned present = __ballot_sync(FULL, i < n);
  if (i < n) {
    key = keys[i];
    digit = (key >> shift) % DIGITS;
    const unsigned peers = __match_any_sync(present, digit);
    rank = __popc(peers & ((1u << lane) - 1u));
    if (rank == 0) warp_count[warp][digit] = __popc(peers);
  }
  __syncthreads();

  if (i < n) {
    for (int w = 0; w < warp; ++w) rank += warp_count[w][digit];
    const unsigned to = positions[digit * gridDim.x + blockIdx.x] + rank;
    keys_out[to] = key;
    values_out[to] = values[i];
  }
}
