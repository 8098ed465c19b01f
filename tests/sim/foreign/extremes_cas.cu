// Maximum of all values (float32) and the product of 1 + x / 1000 (float64) by compare-and-swap, on 32 and 64 bits:
// neither has an atomic instruction of its own. Warps reduce first, and the first lane of each goes to memory.
__device__ float atomic_max(float* address, float value) {
    int* bits = reinterpret_cast<int*>(address);
    int seen = *reinterpret_cast<volatile int*>(bits);
    while (__int_as_float(seen) < value) {
        const int assumed = seen;
        seen = atomicCAS(bits, assumed, __float_as_int(value));
        if (seen == assumed) break;
    }
    return __int_as_float(seen);
}

__device__ double atomic_multiply(double* address, double factor) {
    unsigned long long* bits = reinterpret_cast<unsigned long long*>(address);
    unsigned long long old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __double_as_longlong(factor * __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

extern "C" __global__ void extremes(const float* __restrict__ x, float* maximum, double* product, int n) {
    float top = -__int_as_float(0x7f800000);
    double factor = 1.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        top = fmaxf(top, x[i]);
        factor *= 1.0 + 0.001 * x[i];
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        top = fmaxf(top, __shfl_down_sync(0xffffffffu, top, offset));
        factor *= __shfl_down_sync(0xffffffffu, factor, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomic_max(maximum, top);
        atomic_multiply(product, factor);
    }
}
