// One step of AdamW in place: gradients in bfloat16, weights and moments in float32, and a bfloat16 copy of the
// weights for the next forward pass. correction1 and correction2 are 1 / (1 - beta^step).

#include <cuda_bf16.h>

struct AdamOptions {
  float rate, beta1, beta2, epsilon, decay, correction1, correction2;
};

__device__ __forceinline__ float adam_update(float weight, float gradient, float &m, float &v, const AdamOptions &o) {
  m = fmaf(o.beta1, m, (1.0f - o.beta1) * gradient);
  v = fmaf(o.beta2, v, (1.0f - o.beta2) * gradient * gradient);
  const float direction = m * o.correction1 / (sqrtf(v * o.correction2) + o.epsilon);
  return weight - o.rate * (direction + o.decay * weight);
}

extern "C" __global__ void adamw_step(float *__restrict__ weights, __nv_bfloat16 *__restrict__ weights_low,
                                      const __nv_bfloat16 *__restrict__ gradients, float *__restrict__ moment1,
                                      float *__restrict__ moment2, float rate, float beta1, float beta2, float epsilon,
                                      float decay, float correction1, float correction2, float scale, int n) {
  const AdamOptions options = {rate, beta1, beta2, epsilon, decay, correction1, correction2};
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    const float gradient = __bfloat162float(gradients[i]) * scale;
    float m = moment1[i], v = moment2[i];
    const float weight = adam_update(weights[i], gradient, m, v, options);
    moment1[i] = m;
    moment2[i] = v;
    weights[i] = weight;
    weights_low[i] = __float2bfloat16(weight);
  }
}
