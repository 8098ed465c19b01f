// Warp and block reductions, and the identities they start from.
//
// All of them reduce over one block of BLOCK threads and hand the result to every thread, because every
// thread needs it to scale its own elements. Two stages: a butterfly inside each warp, then warp 0 over the
// partial results of all warps, which cross in shared memory. Each function has its own partials and is
// called once a launch: a second call would need a barrier before it writes them again.
#pragma once

constexpr int WARP = 32;
constexpr int BLOCK = 256;
constexpr int WARPS = BLOCK / WARP;
constexpr unsigned ALL_LANES = 0xffffffffu;

// The identity of max is the lowest finite float, not -INFINITY: merging two empty summaries would compute
// (-inf) - (-inf) = NaN, and one NaN spreads over the whole row.
constexpr float LOWEST = -3.402823466e+38f;  // -FLT_MAX

// Maximum m of some elements and s = sum of exp(x - m) over them.
struct MaxSum {
    float m;
    float s;
};

constexpr MaxSum EMPTY = {LOWEST, 0.0f};

// Associative and commutative, which is what allows a tree. The smaller side is rescaled to the common maximum.
__device__ __forceinline__ MaxSum merge(MaxSum a, MaxSum b) {
    float m = fmaxf(a.m, b.m);
    return {m, a.s * __expf(a.m - m) + b.s * __expf(b.m - m)};
}

// Butterfly (xor), not shfl_down: after five rounds every lane holds the result, not lane 0 alone.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(ALL_LANES, v, offset);
    return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, offset));
    return v;
}

__device__ __forceinline__ MaxSum warp_merge(MaxSum v) {
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        MaxSum other = {__shfl_xor_sync(ALL_LANES, v.m, offset), __shfl_xor_sync(ALL_LANES, v.s, offset)};
        v = merge(v, other);
    }
    return v;
}

__device__ __forceinline__ float block_sum(float v) {
    __shared__ float partial[WARPS];
    int lane = threadIdx.x % WARP;
    int warp = threadIdx.x / WARP;
    v = warp_sum(v);
    if (lane == 0) partial[warp] = v;
    __syncthreads();  // orders each warp's partial before warp 0 reads all of them
    if (warp == 0) {
        v = warp_sum(lane < WARPS ? partial[lane] : 0.0f);
        if (lane < WARPS) partial[lane] = v;  // all lanes hold the total: one slot for each warp
    }
    __syncthreads();  // orders the total before every thread reads its warp's slot
    return partial[warp];
}

__device__ __forceinline__ float block_max(float v) {
    __shared__ float partial[WARPS];
    int lane = threadIdx.x % WARP;
    int warp = threadIdx.x / WARP;
    v = warp_max(v);
    if (lane == 0) partial[warp] = v;
    __syncthreads();  // orders each warp's partial before warp 0 reads all of them
    if (warp == 0) {
        v = warp_max(lane < WARPS ? partial[lane] : LOWEST);
        if (lane < WARPS) partial[lane] = v;  // all lanes hold the maximum: one slot for each warp
    }
    __syncthreads();  // orders the maximum before every thread reads its warp's slot
    return partial[warp];
}

__device__ __forceinline__ MaxSum block_merge(MaxSum v) {
    __shared__ float partial_m[WARPS];
    __shared__ float partial_s[WARPS];
    int lane = threadIdx.x % WARP;
    int warp = threadIdx.x / WARP;
    v = warp_merge(v);
    if (lane == 0) {
        partial_m[warp] = v.m;
        partial_s[warp] = v.s;
    }
    __syncthreads();  // orders each warp's pair before warp 0 reads all of them
    if (warp == 0) {
        v = EMPTY;
        if (lane < WARPS) v = {partial_m[lane], partial_s[lane]};
        v = warp_merge(v);
        if (lane < WARPS) {  // all lanes hold the merged pair: one slot for each warp
            partial_m[lane] = v.m;
            partial_s[lane] = v.s;
        }
    }
    __syncthreads();  // orders the merged pair before every thread reads its warp's slot
    return {partial_m[warp], partial_s[warp]};
}
