// Median of the 5 x 5 neighbourhood of every pixel of a 16-bit image, edges repeated: an insertion sort of a window
// that each thread keeps in local memory, since its elements are found by an index known at run time only.

constexpr int RADIUS = 2;
constexpr int WINDOW = (2 * RADIUS + 1) * (2 * RADIUS + 1);

__device__ int clamped(int at, int size) { return min(max(at, 0), size - 1); }

extern "C" __global__ void median_filter(const unsigned short *__restrict__ in, unsigned short *__restrict__ out,
                                         int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;

  unsigned short window[WINDOW];
  int count = 0;
  for (int dy = -RADIUS; dy <= RADIUS; ++dy) {
    const unsigned short *row = in + clamped(y + dy, height) * width;
    for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
      const unsigned short pixel = row[clamped(x + dx, width)];
      int at = count++;
      for (; at > 0 && window[at - 1] > pixel; --at) window[at] = window[at - 1];
      window[at] = pixel;
    }
  }
  out[y * width + x] = window[WINDOW / 2];
}
