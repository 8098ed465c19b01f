// Mean of log(1 + x) of each row, one warp a row. A negative value is reported by printf and counts as 0: debug output
// that has stayed in, on a branch seldom taken.
extern "C" __global__ void mean_log(const float* __restrict__ x, float* __restrict__ means, int rows, int columns) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float total = 0.0f;
    for (int start = 0; start < columns; start += 32) {
        const int c = start + lane;
        float v = c < columns ? x[row * columns + c] : 0.0f;
        if (v < 0.0f) {
            printf("mean_log: x[%d][%d] = %f is negative, taken as 0\n", row, c, v);
            v = 0.0f;
        }
        v = log1pf(v);
        for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
        total += v;
    }
    if (lane == 0) means[row] = total / columns;
}
