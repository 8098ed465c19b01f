// Causal attention in one pass, in the manner of FlashAttention: a block takes 16 queries of one head and walks over
// the keys in tiles of 32, with a running maximum and sum for each query and no score matrix in global memory.
// Eight threads share a query: four keys of each tile and four of the 32 output columns a thread.
#include <math.h>

constexpr int D = 32;        // head size
constexpr int QUERIES = 16;  // a block
constexpr int KEYS = 32;     // a tile
constexpr int TEAM = 8;      // threads of one query, neighbours in a warp
constexpr int THREADS = QUERIES * TEAM;

__device__ __forceinline__ float team_max(float v) {
    for (int offset = TEAM / 2; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset, TEAM));
    return v;
}

__device__ __forceinline__ float team_sum(float v) {
    for (int offset = TEAM / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset, TEAM);
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS) flash_attention(
    const float* __restrict__ q,
    const float* __restrict__ k,
    const float* __restrict__ v,
    float* __restrict__ out,
    int length,
    float scale) {
    __shared__ float q_tile[QUERIES][D];
    __shared__ float k_tile[KEYS][D + 1];
    __shared__ float v_tile[KEYS][D];
    __shared__ float weights[QUERIES][KEYS];
    const size_t head = static_cast<size_t>(blockIdx.y) * length * D;
    const int first = blockIdx.x * QUERIES;
    const int r = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    const int query = first + r;

    for (int e = threadIdx.x; e < QUERIES * D; e += THREADS)
        q_tile[e / D][e % D] = first + e / D < length ? q[head + first * D + e] * scale : 0.0f;

    float running_max = -INFINITY, running_sum = 0.0f;
    float acc[D / TEAM] = {};
    const int end = min(length, first + QUERIES);  // no query of this block sees a key beyond
    for (int start = 0; start < end; start += KEYS) {
        for (int e = threadIdx.x; e < KEYS * D; e += THREADS) {
            bool inside = start + e / D < length;
            k_tile[e / D][e % D] = inside ? k[head + start * D + e] : 0.0f;
            v_tile[e / D][e % D] = inside ? v[head + start * D + e] : 0.0f;
        }
        __syncthreads();

        float score[KEYS / TEAM], tile_max = -INFINITY;
#pragma unroll
        for (int i = 0; i < KEYS / TEAM; ++i) {
            int j = i * TEAM + member;
            float dot = 0.0f;
            for (int d = 0; d < D; ++d) dot = fmaf(q_tile[r][d], k_tile[j][d], dot);
            score[i] = start + j <= query && start + j < length ? dot : -INFINITY;
            tile_max = fmaxf(tile_max, score[i]);
        }
        float new_max = fmaxf(running_max, team_max(tile_max));
        float correction = __expf(running_max - new_max);
        float tile_sum = 0.0f;
#pragma unroll
        for (int i = 0; i < KEYS / TEAM; ++i) {
            float p = __expf(score[i] - new_max);
            weights[r][i * TEAM + member] = p;
            tile_sum += p;
        }
        running_sum = running_sum * correction + team_sum(tile_sum);
        running_max = new_max;
        __syncwarp();  // a row of weights is written and read within one warp
#pragma unroll
        for (int i = 0; i < D / TEAM; ++i) {
            float sum = acc[i] * correction;
            for (int j = 0; j < KEYS; ++j) sum = fmaf(weights[r][j], v_tile[j][i * TEAM + member], sum);
            acc[i] = sum;
        }
        __syncthreads();  // before the tiles are overwritten
    }
    if (query < length)
        for (int i = 0; i < D / TEAM; ++i) out[head + query * D + i * TEAM + member] = acc[i] / running_sum;
}
