// Cross-entropy backward in place: logits = (softmax(logits) - one_hot(label)) * scale, scale 1 / M for a mean loss.
// One block a row, maximum and sum in one pass; the second read comes from L2 while a row fits. Bound by DRAM.
// nvcc -cubin -arch=sm_90 cross_entropy.cu

constexpr int BLOCK = 256;

struct Partial {
    float most, sum;  // sum of exp(x - most)
};

__device__ Partial joined(Partial a, Partial b) {
    const float most = fmaxf(a.most, b.most);
    return {most, a.sum * expf(a.most - most) + b.sum * expf(b.most - most)};
}

extern "C" __global__ void __launch_bounds__(BLOCK)
cross_entropy(float* logits, const long long* __restrict__ labels, float scale, int V) {
    __shared__ Partial warps[BLOCK / 32];
    logits += static_cast<long long>(blockIdx.x) * V;
    Partial mine = {-3.4e38f, 0.0f};  // exp of it, whatever the maximum, is 0
    for (int i = threadIdx.x; i < V; i += BLOCK) {
        mine = joined(mine, {logits[i], 1.0f});
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        mine = joined(mine, {__shfl_xor_sync(0xffffffffu, mine.most, offset),
                             __shfl_xor_sync(0xffffffffu, mine.sum, offset)});
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = mine;
    }
    __syncthreads();
    mine = warps[0];
    for (int warp = 1; warp < BLOCK / 32; ++warp) {
        mine = joined(mine, warps[warp]);
    }

    const long long label = labels[blockIdx.x];
    for (int i = threadIdx.x; i < V; i += BLOCK) {
        const float share = expf(logits[i] - mine.most) / mine.sum;
        logits[i] = (share - (i == label ? 1.0f : 0.0f)) * scale;
    }
}
