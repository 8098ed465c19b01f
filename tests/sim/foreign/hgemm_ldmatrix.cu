// C = A B in half precision with float32 accumulation: a 32x32 tile of C a block, a 16x16 quarter of it a warp.
// Fragments come out of shared memory by ldmatrix, .x4 for A and .x2.trans for B, both stored row by row. Rows are
// padded by 16 bytes, so that the eight rows of one matrix lie in different banks. Any M, N and K: edges are zeros.
#include <cuda_fp16.h>
#include <stdint.h>

constexpr int BM = 32, BN = 32, BK = 16, THREADS = 128;
constexpr int LDA = BK + 8;
constexpr int LDB = BN + 8;

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void load_x4(uint32_t (&r)[4], const half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_x2_transposed(uint32_t (&r)[2], const half* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
hgemm(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(16) half a_tile[BM * LDA];
    __shared__ __align__(16) half b_tile[BK * LDB];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int warp_row = warp / 2 * 16, warp_col = warp % 2 * 16;
    const half zero = __float2half(0.0f);
    float c[2][4] = {};

    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = tid; e < BM * BK; e += THREADS) {
            int r = e / BK, k = e % BK;
            a_tile[r * LDA + k] = row0 + r < M && k0 + k < K ? A[(row0 + r) * K + k0 + k] : zero;
        }
        for (int e = tid; e < BK * BN; e += THREADS) {
            int k = e / BN, n = e % BN;
            b_tile[k * LDB + n] = k0 + k < K && col0 + n < N ? B[(k0 + k) * N + col0 + n] : zero;
        }
        __syncthreads();
        uint32_t a[4];
        load_x4(a, &a_tile[(warp_row + lane % 16) * LDA + lane / 16 * 8]);
#pragma unroll
        for (int half_tile = 0; half_tile < 2; ++half_tile) {
            uint32_t b[2];
            load_x2_transposed(b, &b_tile[lane % 16 * LDB + warp_col + half_tile * 8]);
            mma(c[half_tile], a, b);
        }
        __syncthreads();
    }

#pragma unroll
    for (int half_tile = 0; half_tile < 2; ++half_tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            int r = row0 + warp_row + lane / 4 + i / 2 * 8;
            int n = col0 + warp_col + half_tile * 8 + lane % 4 * 2 + i % 2;
            if (r < M && n < N) C[r * N + n] = __float2half_rn(c[half_tile][i]);
        }
    }
}
