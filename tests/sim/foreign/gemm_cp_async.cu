// C = A B in float32 with a two-stage pipeline: while one pair of tiles is multiplied, cp.async brings the next one in,
// 16 bytes a thread and operand. Rows and columns beyond the matrices are filled with zeros by the copy itself
// (source size 0). N and K are multiples of 4, so that each 16 bytes lie inside or outside.
#include <stdint.h>

constexpr int BM = 32, BN = 32, BK = 16, THREADS = 128;

__device__ __forceinline__ void copy_16(float* to, const float* from, bool inside) {
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm_cp_async(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(16) float a_tile[2][BM][BK];
    __shared__ __align__(16) float b_tile[2][BK][BN];
    const int tid = threadIdx.x;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

    auto load = [&](int tile, int stage) {
        int ar = tid / (BK / 4), ak = tid % (BK / 4) * 4;
        int br = tid / (BN / 4), bn = tid % (BN / 4) * 4;
        int k0 = tile * BK;
        bool a_inside = row0 + ar < M && k0 + ak < K;
        bool b_inside = k0 + br < K && col0 + bn < N;
        copy_16(&a_tile[stage][ar][ak], a_inside ? &A[(row0 + ar) * K + k0 + ak] : A, a_inside);
        copy_16(&b_tile[stage][br][bn], b_inside ? &B[(k0 + br) * N + col0 + bn] : B, b_inside);
    };

    const int tiles = (K + BK - 1) / BK;
    const int r = tid / 8 * 2, n = tid % 8 * 4;  // two rows of four columns
    float4 acc[2] = {};
    load(0, 0);
    commit();
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) load(t + 1, (t + 1) & 1);
        commit();   // empty in the last round, so that the count below holds
        wait<1>();  // all but the newest group have landed
        __syncthreads();
        const int stage = t & 1;
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            float4 b = *reinterpret_cast<const float4*>(&b_tile[stage][kk][n]);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float a = a_tile[stage][r + i][kk];
                acc[i].x = fmaf(a, b.x, acc[i].x);
                acc[i].y = fmaf(a, b.y, acc[i].y);
                acc[i].z = fmaf(a, b.z, acc[i].z);
                acc[i].w = fmaf(a, b.w, acc[i].w);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        if (row0 + r + i < M && col0 + n < N) *reinterpret_cast<float4*>(&C[(row0 + r + i) * N + col0 + n]) = acc[i];
}
