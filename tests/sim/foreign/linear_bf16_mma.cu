// Y = X W^T + bias in bfloat16 with float32 accumulation, W stored as (outputs, inputs) like a linear layer's weight.
// A warp makes one 16x8 tile of Y and loads its fragments straight from global memory: both operands are contiguous
// along k, so each register is one 32-bit load. Any number of rows; N a multiple of 8 and K a multiple of 16.
#include <cuda_bf16.h>
#include <stdint.h>

__device__ __forceinline__ uint32_t pair_at(const __nv_bfloat16* p) { return *reinterpret_cast<const uint32_t*>(p); }

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void linear_bf16(
    const __nv_bfloat16* __restrict__ x,
    const __nv_bfloat16* __restrict__ w,
    const float* __restrict__ bias,
    __nv_bfloat16* __restrict__ y,
    int M,
    int N,
    int K) {
    const int lane = threadIdx.x % 32, group = lane / 4, in_group = lane % 4;
    const int first_row = (blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32) * 16;
    if (first_row >= M) return;  // the whole warp
    const int upper = first_row + group, lower = upper + 8;
    const int column = blockIdx.x * 8;

    float acc[4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        const int k = k0 + in_group * 2;
        uint32_t a[4] = {}, b[2];
        if (upper < M) {
            a[0] = pair_at(&x[upper * K + k]);
            a[2] = pair_at(&x[upper * K + k + 8]);
        }
        if (lower < M) {
            a[1] = pair_at(&x[lower * K + k]);
            a[3] = pair_at(&x[lower * K + k + 8]);
        }
        b[0] = pair_at(&w[(column + group) * K + k]);
        b[1] = pair_at(&w[(column + group) * K + k + 8]);
        mma(acc, a, b);
    }

    const int n = column + in_group * 2;
    const float2 shift = make_float2(bias[n], bias[n + 1]);
    if (upper < M)
        *reinterpret_cast<__nv_bfloat162*>(&y[upper * N + n]) =
            __floats2bfloat162_rn(acc[0] + shift.x, acc[1] + shift.y);
    if (lower < M)
        *reinterpret_cast<__nv_bfloat162*>(&y[lower * N + n]) =
            __floats2bfloat162_rn(acc[2] + shift.x, acc[3] + shift.y);
}
