// Bitonic sort of each block's own segment of 128 keys with their values, in shared memory, ascending.
// A thread exchanges one pair a round; the last segment is padded with the largest key.

constexpr int SEGMENT = 128;
constexpr unsigned PAD = 0xffffffffu;

extern "C" __global__ void __launch_bounds__(SEGMENT / 2)
    bitonic_sort(unsigned *__restrict__ keys, unsigned short *__restrict__ values, int n) {
  __shared__ unsigned key[SEGMENT];
  __shared__ unsigned short value[SEGMENT];
  const int t = threadIdx.x;
  const int base = blockIdx.x * SEGMENT;

  for (int i = t; i < SEGMENT; i += SEGMENT / 2) {
    key[i] = base + i < n ? keys[base + i] : PAD;
    value[i] = base + i < n ? values[base + i] : 0;
  }
  __syncthreads();

#pragma unroll 1  // the rounds of all sizes in a row would be long code
  for (int size = 2; size <= SEGMENT; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const int low = 2 * t - (t & (stride - 1));
      const int high = low + stride;
      const bool ascending = (low & size) == 0;
      if ((key[low] > key[high]) == ascending) {
        const unsigned k = key[low];
        key[low] = key[high];
        key[high] = k;
        const unsigned short v = value[low];
        value[low] = value[high];
        value[high] = v;
      }
      __syncthreads();
    }
  }

  for (int i = t; i < SEGMENT; i += SEGMENT / 2) {
    if (base + i < n) {
      keys[base + i] = key[i];
      values[base + i] = value[i];
    }
  }
}
