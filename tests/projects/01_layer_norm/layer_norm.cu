// Layer norm forward, one block a row: y = (x - mean) * rstd * w + b, and mean and rstd for the backward pass.
// The row is read three times, from DRAM once: 256 threads have it in L1 or L2 by then. Bound by DRAM.
// nvcc -cubin -arch=sm_90 layer_norm.cu

constexpr int BLOCK = 256;

// The sum over the block, in every thread. The barrier at its end lets the next call use the words again.
__device__ float block_sum(float value) {
    __shared__ float warps[BLOCK / 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < BLOCK / 32; ++warp) {
        total += warps[warp];
    }
    __syncthreads();
    return total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
layer_norm(const float4* __restrict__ x, const float4* __restrict__ w, const float4* __restrict__ b,
           float4* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int N, float eps) {
    const int vectors = N / 4;
    x += static_cast<long long>(blockIdx.x) * vectors;
    y += static_cast<long long>(blockIdx.x) * vectors;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < vectors; i += BLOCK) {
        const float4 v = x[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    const float m = block_sum(sum) / N;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < vectors; i += BLOCK) {
        const float4 v = x[i];
        const float dx = v.x - m, dy = v.y - m, dz = v.z - m, dw = v.w - m;
        squares += (dx * dx + dy * dy) + (dz * dz + dw * dw);
    }
    const float r = rsqrtf(block_sum(squares) / N + eps);

    for (int i = threadIdx.x; i < vectors; i += BLOCK) {
        const float4 v = x[i], scale = w[i], shift = b[i];
        y[i] = make_float4((v.x - m) * r * scale.x + shift.x, (v.y - m) * r * scale.y + shift.y,
                           (v.z - m) * r * scale.z + shift.z, (v.w - m) * r * scale.w + shift.w);
    }
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = r;
    }
}
