// Histogram of an 8-bit image: every block counts in shared memory, then adds its counts to the result.
// Two-dimensional blocks that stride over the image; pitch is the distance between rows in bytes.

#include <stdint.h>

constexpr int BINS = 256;

extern "C" __global__ void histogram_image(const uint8_t *__restrict__ pixels, unsigned *histogram, int width,
                                           int height, int pitch) {
  __shared__ unsigned bins[BINS];
  const int rank = threadIdx.y * blockDim.x + threadIdx.x;
  const int threads = blockDim.x * blockDim.y;

  for (int b = rank; b < BINS; b += threads) bins[b] = 0;
  __syncthreads();

  for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < height; y += gridDim.y * blockDim.y) {
    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += gridDim.x * blockDim.x) {
      atomicAdd(&bins[pixels[y * pitch + x]], 1u);
    }
  }
  __syncthreads();

  for (int b = rank; b < BINS; b += threads) {
    if (bins[b] > 0) atomicAdd(&histogram[b], bins[b]);
  }
}
