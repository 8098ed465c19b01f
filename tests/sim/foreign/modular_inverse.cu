// Inverse of each number modulo m by the extended Euclidean algorithm, 0 where there is none. One step of it is a
// function of its own, not inlined, that takes and returns a struct by value; the number of steps differs by thread.
struct Euclid {
    long long x0, x1;
    int a, b;
};

__device__ __noinline__ Euclid step(Euclid s) {
    Euclid next;
    const int quotient = s.a / s.b;
    next.a = s.b;
    next.b = s.a - quotient * s.b;
    next.x0 = s.x1;
    next.x1 = s.x0 - quotient * s.x1;
    return next;
}

extern "C" __global__ void
modular_inverse(const int* __restrict__ numbers, int* __restrict__ inverses, int* __restrict__ steps, int n, int m) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Euclid s = {1, 0, numbers[i], m};
    int count = 0;
    while (s.b != 0) {
        s = step(s);
        ++count;
    }
    long long inverse = s.x0 % m;
    if (inverse < 0) inverse += m;
    inverses[i] = s.a == 1 ? static_cast<int>(inverse) : 0;
    steps[i] = count;
}
