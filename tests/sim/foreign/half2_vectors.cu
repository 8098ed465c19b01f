// Half precision, two values an instruction. axpy_floor: y = max(a x + y, lowest), the last of an odd count alone.
// complex_multiply: products of complex numbers that are stored as half2 (real, imaginary).
#include <cuda_fp16.h>

extern "C" __global__ void axpy_floor(const half* __restrict__ x, half* __restrict__ y, float a, float lowest, int n) {
    const int pairs = n / 2;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const half2 a2 = __float2half2_rn(a), lowest2 = __float2half2_rn(lowest);
    if (i < pairs) {
        half2 value = __hfma2(a2, reinterpret_cast<const half2*>(x)[i], reinterpret_cast<half2*>(y)[i]);
        reinterpret_cast<half2*>(y)[i] = __hmax2(value, lowest2);
    }
    if (i == 0 && n % 2 != 0) y[n - 1] = __hmax(__hfma(__low2half(a2), x[n - 1], y[n - 1]), __low2half(lowest2));
}

extern "C" __global__ void
complex_multiply(const half2* __restrict__ a, const half2* __restrict__ b, half2* __restrict__ out, int n) {
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        const half2 p = a[i], q = b[i];
        const half2 turned = __halves2half2(__hneg(__high2half(q)), __low2half(q));  // i q
        out[i] = __hfma2(__low2half2(p), q, __hmul2(__high2half2(p), turned));
    }
}
