// Weighted histogram with 64-bit counters in global memory, and the largest weight of each bin.
// Samples outside [low, high) and NaN are counted apart, in the element behind the last bin.

extern "C" __global__ void histogram_weighted(const float *__restrict__ samples, const unsigned *__restrict__ weights,
                                              unsigned long long *sums, unsigned *largest, float low, float high,
                                              int bins, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;

  const float x = samples[i];
  const unsigned weight = weights[i];
  int bin = bins;
  if (x >= low && x < high) bin = min(int((x - low) * (float(bins) / (high - low))), bins - 1);

  atomicAdd(&sums[bin], (unsigned long long)weight);
  atomicMax(&largest[bin], weight);
}
