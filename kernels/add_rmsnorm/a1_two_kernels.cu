// a1: the baseline of the residual block: one launch adds, h = x + r, and the best RMSNorm reads h again.
// Bytes moved: 20N a row in float32: x, r and h once each, then h and y.
// Limits: those of the RMSNorm; arrays aligned to 16 bytes. h is rounded to its type, and the norm is that of the
// rounded h, as where a model adds in its own type.
// Bound by: DRAM, twice.
#include "../common/vector.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
add_a1(const Element* __restrict__ x, const Element* __restrict__ r, Element* __restrict__ h, int N) {
    long long offset = static_cast<long long>(blockIdx.x) * N;
    int vectors = N / WIDTH;
#pragma unroll 4
    for (int i = threadIdx.x; i < vectors; i += THREADS) {
        float a[WIDTH], b[WIDTH];
        unpack(load(x + offset + i * WIDTH), a);
        unpack(load(r + offset + i * WIDTH), b);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) a[j] += b[j];
        store(h + offset + i * WIDTH, pack(a));
    }
}
