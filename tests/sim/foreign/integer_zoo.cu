// Integer instructions that numeric kernels seldom use: 64-bit division, bit counting and reversal, byte permutation,
// funnel shifts, packed dot products, high products, bit fields, narrowing and float conversions that saturate.
#include <stdint.h>

__device__ __forceinline__ uint32_t rotate_left(uint32_t v, int by) { return __funnelshift_l(v, v, by); }

__device__ __forceinline__ uint32_t clamp_to_byte(int v) {
    uint32_t r;
    asm("{\n.reg .u8 byte;\ncvt.sat.u8.s32 byte, %1;\ncvt.u32.u8 %0, byte;\n}" : "=r"(r) : "r"(v));
    return r;
}

__device__ __forceinline__ uint32_t bit_field(uint32_t v, uint32_t from, uint32_t length) {
    uint32_t r;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(v), "r"(from), "r"(length));
    return r;
}

extern "C" __global__ void divide_64(
    const int64_t* __restrict__ a,
    const int64_t* __restrict__ b,
    int64_t* __restrict__ quotient,
    int64_t* __restrict__ remainder,
    uint64_t* __restrict__ unsigned_remainder,
    uint64_t* __restrict__ high_product,
    int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    quotient[i] = a[i] / b[i];
    remainder[i] = a[i] % b[i];
    unsigned_remainder[i] = static_cast<uint64_t>(a[i]) % static_cast<uint64_t>(b[i]);
    high_product[i] = __umul64hi(a[i], b[i]);
}

extern "C" __global__ void
bit_tricks(const uint32_t* __restrict__ a, const uint32_t* __restrict__ b, uint32_t* __restrict__ out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const uint32_t p = a[i], q = b[i];
    const uint64_t wide = static_cast<uint64_t>(q) << 32 | p;
    uint32_t* row = out + i * 16;
    row[0] = __clz(p);
    row[1] = __popcll(wide);
    row[2] = __brev(p);
    row[3] = __byte_perm(p, q, 0x5036);
    row[4] = __funnelshift_r(p, q, i & 31);
    row[5] = rotate_left(p, q & 31);
    row[6] = __dp4a(static_cast<int>(p), static_cast<int>(q), -5);
    row[7] = __mulhi(static_cast<int>(p), static_cast<int>(q));
    row[8] = clamp_to_byte(static_cast<int>(p) >> (q & 31));
    row[9] = bit_field(p, q & 31, q >> 5 & 15);
    row[10] = __ffsll(wide << 7) + __clzll(wide >> 3);
    row[11] = __usad(p, q, i);
    row[12] = static_cast<uint32_t>(static_cast<int16_t>(p) / (static_cast<int16_t>(q) | 1));
    row[13] = __vabsdiffu4(p, q);
    row[14] = p % (q | 1) ^ p / (q >> 16 | 1);
    row[15] = __dp4a(p, q, 7u);
}

extern "C" __global__ void
convert(const float* __restrict__ x, int* to_int, uint32_t* to_uint, int64_t* to_long, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    to_int[i] = __float2int_rn(x[i]);
    to_uint[i] = __float2uint_rz(x[i]);
    to_long[i] = __float2ll_rd(x[i]);
}
