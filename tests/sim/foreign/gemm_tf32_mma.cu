// C = alpha A B of float32 matrices on the tensor cores in tf32: operands are rounded to 10 bits of mantissa on their
// way out of shared memory (cvt.rna), products are summed in float32. 32x16 tiles, one 16x8 tile of C for each of
// four warps. Any M, N and K.
#include <stdint.h>

constexpr int BM = 32, BN = 16, BK = 16, THREADS = 128;

__device__ __forceinline__ uint32_t to_tf32(float x) {
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

extern "C" __global__ void
gemm_tf32(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K, float alpha) {
    __shared__ float a_tile[BM][BK + 4];
    __shared__ float b_tile[BK][BN + 8];
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int group = lane >> 2, in_group = lane & 3;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int wm = (warp >> 1) * 16, wn = (warp & 1) * 8;
    float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;

    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = tid; e < BM * BK; e += THREADS) {
            int m = m0 + e / BK, k = k0 + e % BK;
            a_tile[e / BK][e % BK] = m < M && k < K ? A[static_cast<size_t>(m) * K + k] : 0.0f;
        }
        for (int e = tid; e < BK * BN; e += THREADS) {
            int k = k0 + e / BN, n = n0 + e % BN;
            b_tile[e / BN][e % BN] = k < K && n < N ? B[static_cast<size_t>(k) * N + n] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < BK; kk += 8) {
            uint32_t a0 = to_tf32(a_tile[wm + group][kk + in_group]);
            uint32_t a1 = to_tf32(a_tile[wm + group + 8][kk + in_group]);
            uint32_t a2 = to_tf32(a_tile[wm + group][kk + in_group + 4]);
            uint32_t a3 = to_tf32(a_tile[wm + group + 8][kk + in_group + 4]);
            uint32_t b0 = to_tf32(b_tile[kk + in_group][wn + group]);
            uint32_t b1 = to_tf32(b_tile[kk + in_group + 4][wn + group]);
            asm volatile(
                "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                "{%0,%1,%2,%3};"
                : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        }
        __syncthreads();
    }

    const int m = m0 + wm + group, n = n0 + wn + in_group * 2;
    if (m < M && n < N) C[m * N + n] = alpha * c0;
    if (m < M && n + 1 < N) C[m * N + n + 1] = alpha * c1;
    if (m + 8 < M && n < N) C[(m + 8) * N + n] = alpha * c2;
    if (m + 8 < M && n + 1 < N) C[(m + 8) * N + n + 1] = alpha * c3;
}
