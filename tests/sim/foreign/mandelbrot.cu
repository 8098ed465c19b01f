// Iterations until z = z^2 + c leaves the circle of radius 2, for every pixel of an image, in double precision.
// Every product and sum is rounded by itself, so that the counts do not depend on what the compiler contracts.

extern "C" __global__ void mandelbrot(int *__restrict__ counts, int width, int height, double left, double top,
                                      double step, int limit) {
  const int px = blockIdx.x * blockDim.x + threadIdx.x;
  const int py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height) return;

  const double cx = __dadd_rn(left, __dmul_rn(px, step));
  const double cy = __dsub_rn(top, __dmul_rn(py, step));
  double x = 0.0, y = 0.0;
  int count = 0;
  while (count < limit) {
    const double xx = __dmul_rn(x, x);
    const double yy = __dmul_rn(y, y);
    if (__dadd_rn(xx, yy) > 4.0) break;
    y = __dadd_rn(__dmul_rn(2.0, __dmul_rn(x, y)), cy);
    x = __dadd_rn(__dsub_rn(xx, yy), cx);
    ++count;
  }
  counts[py * width + px] = count;
}
