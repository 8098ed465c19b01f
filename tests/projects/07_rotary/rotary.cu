// Rotary embedding in place: the pair (x[d], x[d + D/2]) of each head is turned by the angle of its position.
// One thread a pair, blocks go over all of them. Bound by DRAM: 8 bytes an element.
// nvcc -cubin -arch=sm_90 rotary.cu

extern "C" __global__ void __launch_bounds__(256)
rotary(float* x, const float* __restrict__ cosine, const float* __restrict__ sine, int B, int S, int H, int D) {
    const int half = D / 2;
    const long long pair = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (pair >= static_cast<long long>(B) * S * H * half) {
        return;
    }
    const int d = static_cast<int>(pair % half);
    const long long head = pair / half;  // (b * S + s) * H + h
    const int s = static_cast<int>(head / H % S);
    float* at = x + head * D + d;
    const float c = cosine[static_cast<long long>(s) * half + d];
    const float n = sine[static_cast<long long>(s) * half + d];
    const float first = at[0], second = at[half];
    at[0] = first * c - second * n;
    at[half] = second * c + first * n;
}
