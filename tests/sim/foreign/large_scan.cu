// Inclusive prefix sum of an array of any length, in three launches: scan every block and keep its total, scan the
// totals, add to every block what came before it. 32-bit counts in, 64-bit sums out.

typedef unsigned long long u64;

// Hillis and Steele, in place: log2(blockDim.x) rounds. Shared memory: 8 bytes a thread.
extern "C" __global__ void scan_blocks(const unsigned *__restrict__ in, u64 *__restrict__ out,
                                       u64 *__restrict__ totals, int n) {
  extern __shared__ u64 buffer[];
  const int t = threadIdx.x;
  const int i = blockIdx.x * blockDim.x + t;

  buffer[t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int distance = 1; distance < blockDim.x; distance <<= 1) {
    const u64 before = t >= distance ? buffer[t - distance] : 0;
    __syncthreads();
    buffer[t] += before;
    __syncthreads();
  }

  if (i < n) out[i] = buffer[t];
  if (t == blockDim.x - 1) totals[blockIdx.x] = buffer[t];
}

// Blelloch: exclusive scan of count totals, in place, by one block with one thread for every two elements.
extern "C" __global__ void scan_totals(u64 *totals, int count) {
  extern __shared__ u64 tree[];
  const int t = threadIdx.x;
  const int size = 2 * blockDim.x;  // a power of two, at least count

  for (int i = t; i < size; i += blockDim.x) tree[i] = i < count ? totals[i] : 0;

  int stride = 1;
  for (int pairs = size / 2; pairs > 0; pairs /= 2, stride *= 2) {
    __syncthreads();
    if (t < pairs) tree[stride * (2 * t + 2) - 1] += tree[stride * (2 * t + 1) - 1];
  }
  if (t == 0) tree[size - 1] = 0;
  for (int pairs = 1; pairs < size; pairs *= 2) {
    stride /= 2;
    __syncthreads();
    if (t < pairs) {
      const int left = stride * (2 * t + 1) - 1;
      const int right = stride * (2 * t + 2) - 1;
      const u64 kept = tree[left];
      tree[left] = tree[right];
      tree[right] += kept;
    }
  }
  __syncthreads();

  for (int i = t; i < count; i += blockDim.x) totals[i] = tree[i];
}

extern "C" __global__ void add_totals(u64 *__restrict__ out, const u64 *__restrict__ totals, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += totals[blockIdx.x];
}
