// One query a sequence against its key/value cache, as in decoding: the cache is split over blocks (split-K), and a
// second kernel merges their partial results. Sequences differ in length; a split that lies wholly behind the end of
// its sequence only says so (a sum of 0), and its partial output is neither written nor read.
#include <math.h>

constexpr int D = 64;  // head size: two values a lane
constexpr int WARPS = 2;

// grid (splits, heads, batch), block WARPS * 32. Cache layout: (batch, heads, capacity, D).
extern "C" __global__ void decode_partial(
    const float* __restrict__ q,
    const float* __restrict__ k_cache,
    const float* __restrict__ v_cache,
    const int* __restrict__ lengths,
    float* __restrict__ partial_out,
    float2* __restrict__ partial_max_sum,
    int capacity,
    int chunk) {
    __shared__ float2 outs[WARPS][32];
    __shared__ float2 stats[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int sequence_head = blockIdx.z * gridDim.y + blockIdx.y;
    const int slot = sequence_head * gridDim.x + blockIdx.x;
    const int begin = blockIdx.x * chunk, end = min(begin + chunk, lengths[blockIdx.z]);
    if (begin >= end) {
        if (threadIdx.x == 0) partial_max_sum[slot] = make_float2(-INFINITY, 0.0f);
        return;
    }

    const float2 query = reinterpret_cast<const float2*>(q + sequence_head * D)[lane];
    const size_t cache = static_cast<size_t>(sequence_head) * capacity * D;
    float m = -INFINITY, l = 0.0f;
    float2 o = make_float2(0.0f, 0.0f);
    for (int j = begin + warp; j < end; j += WARPS) {
        float2 key = reinterpret_cast<const float2*>(k_cache + cache + j * D)[lane];
        float score = query.x * key.x + query.y * key.y;
        for (int offset = 16; offset > 0; offset >>= 1) score += __shfl_xor_sync(0xffffffffu, score, offset);
        score *= rsqrtf(D);
        float new_m = fmaxf(m, score);
        float correction = expf(m - new_m), p = expf(score - new_m);
        float2 value = reinterpret_cast<const float2*>(v_cache + cache + j * D)[lane];
        o.x = o.x * correction + p * value.x;
        o.y = o.y * correction + p * value.y;
        l = l * correction + p;
        m = new_m;
    }
    outs[warp][lane] = o;
    if (lane == 0) stats[warp] = make_float2(m, l);
    __syncthreads();
    if (warp != 0) return;

    float top = stats[0].x;  // the first warp has had a key, the second perhaps none: its weight is exp(-inf)
    for (int w = 1; w < WARPS; ++w) top = fmaxf(top, stats[w].x);
    float2 merged = make_float2(0.0f, 0.0f);
    float sum = 0.0f;
    for (int w = 0; w < WARPS; ++w) {
        float weight = expf(stats[w].x - top);
        merged.x += weight * outs[w][lane].x;
        merged.y += weight * outs[w][lane].y;
        sum += weight * stats[w].y;
    }
    reinterpret_cast<float2*>(partial_out + slot * D)[lane] = merged;
    if (lane == 0) partial_max_sum[slot] = make_float2(top, sum);
}

// grid (heads, batch), block D.
extern "C" __global__ void decode_merge(
    const float* __restrict__ partial_out, const float2* __restrict__ partial_max_sum, float* out, int splits) {
    const int sequence_head = blockIdx.y * gridDim.x + blockIdx.x;
    float top = -INFINITY;
    for (int s = 0; s < splits; ++s) top = fmaxf(top, partial_max_sum[sequence_head * splits + s].x);
    float acc = 0.0f, sum = 0.0f;
    for (int s = 0; s < splits; ++s) {
        const int slot = sequence_head * splits + s;
        float2 max_sum = partial_max_sum[slot];
        if (max_sum.y == 0.0f) continue;
        float weight = expf(max_sum.x - top);
        acc += weight * partial_out[slot * D + threadIdx.x];
        sum += weight * max_sum.y;
    }
    out[sequence_head * D + threadIdx.x] = acc / sum;
}
