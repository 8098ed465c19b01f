// Attention of one new token: o = softmax(q k^T / sqrt(D)) v over the first length[b] positions of a cache.
// One block a head, in tiles of 64 positions: a warp for each score, a thread for each value of the output; the maximum
// so far moves with the tiles. Bound by DRAM: k and v are read once.
// nvcc -cubin -arch=sm_90 decode_attention.cu

constexpr int BLOCK = 128;
constexpr int TILE = 64;

extern "C" __global__ void __launch_bounds__(BLOCK)
decode_attention(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                 const int* __restrict__ length, float* __restrict__ o, int H, int S, int D, float scale) {
    __shared__ float scores[TILE];
    const int b = blockIdx.y, h = blockIdx.x;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long step = static_cast<long long>(H) * D;                     // from one position to the next
    const long long cache = (static_cast<long long>(b) * S * H + h) * D;  // k[b, 0, h]
    const long long head = (static_cast<long long>(b) * H + h) * D;
    const int end = length[b];

    float most = -3.4e38f, sum = 0.0f, value = 0.0f;
    for (int first = 0; first < end; first += TILE) {
        const int count = min(TILE, end - first);
        for (int s = warp; s < count; s += BLOCK / 32) {
            const float* key = k + cache + (first + s) * step;
            float dot = 0.0f;
            for (int d = lane; d < D; d += 32) {
                dot += q[head + d] * key[d];
            }
            for (int offset = 16; offset > 0; offset /= 2) {
                dot += __shfl_xor_sync(0xffffffffu, dot, offset);
            }
            if (lane == 0) {
                scores[s] = dot * scale;
            }
        }
        __syncthreads();  // the scores are there
        float now = most;
        for (int s = 0; s < count; ++s) {
            now = fmaxf(now, scores[s]);
        }
        const float shrink = expf(most - now);
        sum *= shrink;
        value *= shrink;
        for (int s = 0; s < count; ++s) {
            const float weight = expf(scores[s] - now);
            sum += weight;
            if (threadIdx.x < D) {
                value += weight * v[cache + (first + s) * step + threadIdx.x];
            }
        }
        most = now;
        __syncthreads();  // the scores may be overwritten
    }
    if (threadIdx.x < D) {
        o[head + threadIdx.x] = value / sum;
    }
}
