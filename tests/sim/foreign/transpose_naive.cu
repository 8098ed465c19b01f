// Hermitian transpose of a complex matrix (real and imaginary part interleaved), one thread an element.
// The simple form: reads run along rows, writes stride by a whole row of the result.

extern "C" __global__ void transpose_conjugate(const float2 *in, float2 *out, int rows, int cols) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;

  const float2 z = in[row * cols + col];
  out[col * rows + row] = make_float2(z.x, -z.y);
}
