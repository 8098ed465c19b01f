// Finite impulse response filter on integers, out[i] = sum of w[k] * x[i - k] over taps known at run time only, with
// x before its start taken as 0. A block stages its 256 inputs and the 32 before them as int4; a thread makes four
// neighbouring outputs. n is a multiple of 4.
constexpr int THREADS = 64;
constexpr int MAX_TAPS = 32;
constexpr int TILE = THREADS * 4;

extern "C" __global__ void __launch_bounds__(THREADS)
fir(const int* __restrict__ x, const int* __restrict__ w, int* __restrict__ out, int n, int taps) {
    __shared__ __align__(16) int tile[MAX_TAPS + TILE];
    const int first = blockIdx.x * TILE - MAX_TAPS;
    for (int i = threadIdx.x; i < (MAX_TAPS + TILE) / 4; i += THREADS) {
        const int at = first + i * 4;
        int4 quad = make_int4(0, 0, 0, 0);
        if (at >= 0 && at < n) quad = __ldg(reinterpret_cast<const int4*>(x + at));
        reinterpret_cast<int4*>(tile)[i] = quad;
    }
    __syncthreads();

    const int at = blockIdx.x * TILE + threadIdx.x * 4;
    if (at >= n) return;
    const int* here = tile + MAX_TAPS + threadIdx.x * 4;
    int4 sum = make_int4(0, 0, 0, 0);
    for (int k = 0; k < taps; ++k) {
        const int weight = w[k];
        sum.x += weight * here[0 - k];
        sum.y += weight * here[1 - k];
        sum.z += weight * here[2 - k];
        sum.w += weight * here[3 - k];
    }
    *reinterpret_cast<int4*>(out + at) = sum;
}
