// Philox4x32-10, a counter-based random number generator: four 32-bit numbers for every counter, and from two of
// them a point of the unit square for a Monte Carlo estimate of pi, in integers and so the same on every machine.

#include <stdint.h>

__device__ __forceinline__ uint4 philox_round(uint4 c, uint2 key) {
  constexpr uint32_t M0 = 0xD2511F53u, M1 = 0xCD9E8D57u;
  return make_uint4(__umulhi(M1, c.z) ^ c.y ^ key.x, M1 * c.z, __umulhi(M0, c.x) ^ c.w ^ key.y, M0 * c.x);
}

__device__ uint4 philox4x32_10(uint4 counter, uint2 key) {
#pragma unroll 1
  for (int round = 0; round < 9; ++round) {
    counter = philox_round(counter, key);
    key.x += 0x9E3779B9u;  // golden ratio
    key.y += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return philox_round(counter, key);
}

extern "C" __global__ void philox_pi(uint4 *__restrict__ numbers, unsigned *hits, uint64_t seed, uint64_t offset,
                                     int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool inside = false;
  if (i < n) {
    const uint64_t counter = offset + i;
    const uint4 r = philox4x32_10(make_uint4(uint32_t(counter), uint32_t(counter >> 32), 0u, 0u),
                                  make_uint2(uint32_t(seed), uint32_t(seed >> 32)));
    numbers[i] = r;
    const uint64_t x = r.x >> 1, y = r.y >> 1;  // 31 bits, so that the sum of the squares fits
    inside = x * x + y * y < uint64_t(1) << 62;
  }
  const unsigned votes = __ballot_sync(0xffffffffu, inside);
  if (threadIdx.x % 32 == 0 && votes != 0) atomicAdd(hits, __popc(votes));
}
