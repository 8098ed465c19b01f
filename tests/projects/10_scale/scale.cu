// y = factor * x, for any type and block: a template in a namespace, named by a C++ name expression.
// The block is a constant of the code, so that it must be launched with the same. Bound by DRAM.
// nvcc -cubin -arch=sm_90 scale.cu

namespace ns {

template <int BLOCK, class T>
__global__ void __launch_bounds__(BLOCK) scale(const T* __restrict__ x, T* __restrict__ y, T factor, long long N) {
    const long long i = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i < N) {
        y[i] = factor * x[i];
    }
}

}  // namespace ns
