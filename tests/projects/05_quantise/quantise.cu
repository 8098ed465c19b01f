// Rows of fp32 to int8 with one scale a row: scale = max |x| / 127, q = x / scale to the nearest, ties to even.
// One block a row; the second read of the row comes from L1 or L2. Bound by DRAM: 5 bytes an element.
// nvcc -cubin -arch=sm_90 quantise.cu

constexpr int BLOCK = 128;

extern "C" __global__ void __launch_bounds__(BLOCK)
quantise(const float* __restrict__ x, signed char* __restrict__ q, float* __restrict__ scale, int N) {
    __shared__ float warps[BLOCK / 32];
    x += static_cast<long long>(blockIdx.x) * N;
    q += static_cast<long long>(blockIdx.x) * N;

    float most = 0.0f;
    for (int i = threadIdx.x; i < N; i += BLOCK) {
        most = fmaxf(most, fabsf(x[i]));
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = most;
    }
    __syncthreads();
    for (int warp = 0; warp < BLOCK / 32; ++warp) {
        most = fmaxf(most, warps[warp]);
    }

    const float step = most / 127.0f;
    const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
    for (int i = threadIdx.x; i < N; i += BLOCK) {
        q[i] = static_cast<signed char>(__float2int_rn(x[i] * inverse));
    }
    if (threadIdx.x == 0) {
        scale[blockIdx.x] = step;
    }
}
