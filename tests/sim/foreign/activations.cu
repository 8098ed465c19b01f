// Activation functions, element by element: GELU exact (erf) and by tanh, SiLU, in float32, and SiLU times a gate in
// half precision, two elements a thread. All are grid-stride loops.

#include <cuda_fp16.h>

struct GeluErf {
  __device__ float operator()(float x) const { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
};
struct GeluTanh {
  __device__ float operator()(float x) const {
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  }
};
struct Silu {
  __device__ float operator()(float x) const { return x / (1.0f + expf(-x)); }
};

template <typename F>
__device__ __forceinline__ void map(const float *__restrict__ in, float *__restrict__ out, int n, F function) {
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) out[i] = function(in[i]);
}

extern "C" __global__ void gelu_erf(const float *in, float *out, int n) { map(in, out, n, GeluErf()); }
extern "C" __global__ void gelu_tanh(const float *in, float *out, int n) { map(in, out, n, GeluTanh()); }
extern "C" __global__ void silu(const float *in, float *out, int n) { map(in, out, n, Silu()); }

extern "C" __global__ void silu_gate(const __half2 *__restrict__ in, const __half2 *__restrict__ gate,
                                     __half2 *__restrict__ out, int pairs) {
  const int stride = gridDim.x * blockDim.x;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  while (i < pairs) {
    const float2 x = __half22float2(in[i]);
    out[i] = __hmul2(__floats2half2_rn(Silu()(x.x), Silu()(x.y)), gate[i]);
    i += stride;
  }
}
