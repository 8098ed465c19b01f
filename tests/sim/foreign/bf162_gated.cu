// SiLU of an affine map by channel, on bfloat16 pairs: h = x * scale + bias in one packed fused step, then h sigmoid(h)
// in float32, rounded to bfloat16 in pairs. Scales and biases of all channels are staged in shared memory.
#include <cuda_bf16.h>

constexpr int MAX_PAIRS = 256;  // of channels

__device__ __forceinline__ float silu(float v) { return v / (1.0f + expf(-v)); }

extern "C" __global__ void affine_silu(
    const __nv_bfloat162* __restrict__ x,
    const __nv_bfloat162* __restrict__ scale,
    const __nv_bfloat162* __restrict__ bias,
    __nv_bfloat162* __restrict__ y,
    int rows,
    int channel_pairs) {
    __shared__ __nv_bfloat162 scales[MAX_PAIRS];
    __shared__ __nv_bfloat162 biases[MAX_PAIRS];
    for (int c = threadIdx.x; c < channel_pairs; c += blockDim.x) {
        scales[c] = scale[c];
        biases[c] = bias[c];
    }
    __syncthreads();

    const int total = rows * channel_pairs;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += gridDim.x * blockDim.x) {
        const int c = i % channel_pairs;
        float2 h = __bfloat1622float2(__hfma2(x[i], scales[c], biases[c]));
        h.x = silu(h.x);
        h.y = silu(h.y);
        y[i] = __float22bfloat162_rn(h);
    }
}
