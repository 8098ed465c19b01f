// Double precision by rows, one block a row: the dot product of x and y with the rounding errors of its products (fma)
// and sums (two-sum) carried along, as if in twice the precision; the norm of x; log(sum(exp(x))) by Kahan's sum.
__device__ __forceinline__ void add_kahan(double& sum, double& error, double value) {
    double corrected = value - error;
    double next = sum + corrected;
    error = (next - sum) - corrected;
    sum = next;
}

__device__ __forceinline__ void add_product(double& sum, double& error, double a, double b) {
    double product = __dmul_rn(a, b);  // not contracted: its rounding error is wanted
    double next = sum + product;
    double added = next - sum;
    error += (sum - (next - added)) + (product - added) + fma(a, b, -product);
    sum = next;
}

__device__ double block_sum(double value, double* scratch) {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();  // the next sum reads what this one wrote
    }
    double sum = scratch[0];
    __syncthreads();
    return sum;
}

__device__ double block_max(double value, double* scratch) {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) scratch[threadIdx.x] = fmax(scratch[threadIdx.x], scratch[threadIdx.x + half]);
        __syncthreads();
    }
    double top = scratch[0];
    __syncthreads();
    return top;
}

extern "C" __global__ void row_statistics(
    const double* __restrict__ x,
    const double* __restrict__ y,
    double* __restrict__ dot,
    double* __restrict__ norm,
    double* __restrict__ log_sum_exp,
    int columns) {
    extern __shared__ double scratch[];
    const double* xs = x + static_cast<size_t>(blockIdx.x) * columns;
    const double* ys = y + static_cast<size_t>(blockIdx.x) * columns;

    double sum = 0.0, error = 0.0, squares = 0.0, top = -__longlong_as_double(0x7ff0000000000000LL);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        add_product(sum, error, xs[c], ys[c]);
        squares = fma(xs[c], xs[c], squares);
        top = fmax(top, xs[c]);
    }
    sum = block_sum(sum + error, scratch);
    squares = block_sum(squares, scratch);
    top = block_max(top, scratch);

    double exponentials = 0.0, lost = 0.0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) add_kahan(exponentials, lost, exp(xs[c] - top));
    exponentials = block_sum(exponentials, scratch);
    if (threadIdx.x == 0) {
        dot[blockIdx.x] = sum;
        norm[blockIdx.x] = sqrt(squares);
        log_sum_exp[blockIdx.x] = top + log(exponentials);
    }
}
