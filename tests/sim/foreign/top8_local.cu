// The eight largest values of each row with their columns, largest first, ties in favour of the earlier column: one
// thread a row, by insertion into two small arrays that it indexes at run time, so they live in local memory.
// x is stored by columns, so that neighbouring threads read neighbouring values.
constexpr int K = 8;

extern "C" __global__ void
top8(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ columns_of, int rows, int columns) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float best[K];
    int where[K];
    int filled = 0;
    for (int c = 0; c < columns; ++c) {
        const float v = x[static_cast<size_t>(c) * rows + row];
        if (filled == K && v <= best[K - 1]) continue;
        int p = filled < K ? filled++ : K - 1;
        while (p > 0 && best[p - 1] < v) {
            best[p] = best[p - 1];
            where[p] = where[p - 1];
            --p;
        }
        best[p] = v;
        where[p] = c;
    }
    for (int p = 0; p < K; ++p) {
        values[row * K + p] = p < filled ? best[p] : 0.0f;
        columns_of[row * K + p] = p < filled ? where[p] : -1;
    }
}
