// y = A x for a sparse matrix in CSR form, one warp a row; the warps stride over the rows.
// The lanes share a row's elements and add up with shuffles.

extern "C" __global__ void spmv_csr(const int *__restrict__ row_start, const int *__restrict__ columns,
                                    const float *__restrict__ values, const float *__restrict__ x,
                                    float *__restrict__ y, int rows) {
  const int lane = threadIdx.x & 31;
  const int warps = (gridDim.x * blockDim.x) >> 5;

  for (int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; row < rows; row += warps) {
    const int begin = __ldg(&row_start[row]);
    const int end = __ldg(&row_start[row + 1]);

    float sum = 0.0f;
    for (int j = begin + lane; j < end; j += 32) sum = fmaf(values[j], __ldg(&x[columns[j]]), sum);

    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane == 0) y[row] = sum;
  }
}
