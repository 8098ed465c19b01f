// Symmetric int8 quantisation by rows, one block a row, and back. The row's largest magnitude sets the scale; values
// are read as float4 and written as char4. Columns are a multiple of 4.
constexpr int THREADS = 96;

extern "C" __global__ void __launch_bounds__(THREADS)
quantise(const float4* __restrict__ x, char4* __restrict__ q, float* __restrict__ scales, int quads) {
    __shared__ float warp_max[32];
    const float4* row = x + static_cast<size_t>(blockIdx.x) * quads;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    float top = 0.0f;
    for (int i = threadIdx.x; i < quads; i += THREADS) {
        float4 v = row[i];
        top = fmaxf(top, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));
    if (lane == 0) warp_max[warp] = top;
    __syncthreads();
    top = lane < THREADS / 32 ? warp_max[lane] : 0.0f;
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));

    const float inverse = top > 0.0f ? 127.0f / top : 0.0f;
    for (int i = threadIdx.x; i < quads; i += THREADS) {
        float4 v = row[i];
        q[static_cast<size_t>(blockIdx.x) * quads + i] = make_char4(
            __float2int_rn(v.x * inverse),
            __float2int_rn(v.y * inverse),
            __float2int_rn(v.z * inverse),
            __float2int_rn(v.w * inverse));
    }
    if (threadIdx.x == 0) scales[blockIdx.x] = top / 127.0f;
}

extern "C" __global__ void
dequantise(const char4* __restrict__ q, const float* __restrict__ scales, float4* __restrict__ x, int rows, int quads) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * quads) return;
    const float scale = scales[i / quads];
    const char4 v = q[i];
    x[i] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}
