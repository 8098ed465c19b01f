// Elements of a row in vectors of WIDTH: float32, float16 or bfloat16 in memory, float in arithmetic.
//
// ELEMENT and WIDTH come from the declaration, which takes the widest vector up to 16 bytes that divides N, so that
// every row begins at a multiple of it. A vector is held as it lies in memory, in 32-bit words: a 16-bit row needs
// half the registers. A result is rounded once, to nearest even, when its vector is packed.
#pragma once

struct float32 {
    float raw;
};
struct float16 {
    unsigned short raw;
};
struct bfloat16 {
    unsigned short raw;
};

using Element = ELEMENT;

constexpr int VECTOR_BYTES = WIDTH * sizeof(Element);
constexpr int WORDS = (VECTOR_BYTES + 3) / 4;  // a single 16-bit element is the low half of one

struct alignas(4 * WORDS) Vector {
    unsigned word[WORDS];
};

// The two elements of a word; the low half is the first.
__device__ __forceinline__ float2 halves(unsigned word, bfloat16) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

__device__ __forceinline__ float2 halves(unsigned word, float16) {
    float2 v;
    asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi; }"
        : "=f"(v.x), "=f"(v.y)
        : "r"(word));
    return v;
}

__device__ __forceinline__ unsigned word_of(float lo, float hi, bfloat16) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
    return word;
}

__device__ __forceinline__ unsigned word_of(float lo, float hi, float16) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(hi), "f"(lo));
    return word;
}

template <typename E = Element>
__device__ __forceinline__ void unpack(const Vector& v, float (&to)[WIDTH]) {
    if constexpr (sizeof(E) == 4) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) to[j] = __uint_as_float(v.word[j]);
    } else {
#pragma unroll
        for (int j = 0; j < WIDTH; j += 2) {
            float2 pair = halves(v.word[j / 2], E());
            to[j] = pair.x;
            if (j + 1 < WIDTH) to[j + 1] = pair.y;
        }
    }
}

template <typename E = Element>
__device__ __forceinline__ Vector pack(const float (&from)[WIDTH]) {
    Vector v;
    if constexpr (sizeof(E) == 4) {
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) v.word[j] = __float_as_uint(from[j]);
    } else {
#pragma unroll
        for (int j = 0; j < WIDTH; j += 2) v.word[j / 2] = word_of(from[j], j + 1 < WIDTH ? from[j + 1] : 0.0f, E());
    }
    return v;
}

// WIDTH times the same value.
__device__ __forceinline__ Vector filled(float value) {
    float all[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) all[j] = value;
    return pack(all);
}

// Cache policy of an access. Accesses of less than 16 bytes are DEFAULT, whatever is asked.
enum CachePolicy {
    DEFAULT,  // no hint
    EVICT_LAST,   // the last to be evicted from L2
    NO_ALLOCATE,   // not kept in L1: loads only
};

__device__ __forceinline__ unsigned long long evict_last() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// One access of VECTOR_BYTES at a multiple of them. The inputs are read-only for the whole launch (.nc).
template <CachePolicy POLICY = DEFAULT>
__device__ __forceinline__ Vector load(const Element* from) {
    Vector v;
    if constexpr (VECTOR_BYTES == 16 && POLICY == NO_ALLOCATE) {
        asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
            : "l"(from));
    } else if constexpr (VECTOR_BYTES == 16 && POLICY == EVICT_LAST) {
        asm("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
            : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
            : "l"(from), "l"(evict_last()));
    } else if constexpr (VECTOR_BYTES == 16) {
        uint4 w = __ldg(reinterpret_cast<const uint4*>(from));
        v.word[0] = w.x, v.word[1] = w.y, v.word[2] = w.z, v.word[3] = w.w;
    } else if constexpr (VECTOR_BYTES == 8) {
        uint2 w = __ldg(reinterpret_cast<const uint2*>(from));
        v.word[0] = w.x, v.word[1] = w.y;
    } else if constexpr (VECTOR_BYTES == 4) {
        v.word[0] = __ldg(reinterpret_cast<const unsigned*>(from));
    } else {
        v.word[0] = __ldg(reinterpret_cast<const unsigned short*>(from));
    }
    return v;
}

template <CachePolicy POLICY = DEFAULT>
__device__ __forceinline__ void store(Element* to, const Vector& v) {
    static_assert(POLICY != NO_ALLOCATE, "NO_ALLOCATE is for loads");
    if constexpr (VECTOR_BYTES == 16 && POLICY == EVICT_LAST) {
        asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to), "r"(v.word[0]),
                     "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "l"(evict_last())
                     : "memory");
    } else if constexpr (VECTOR_BYTES == 16) {
        *reinterpret_cast<uint4*>(to) = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
    } else if constexpr (VECTOR_BYTES == 8) {
        *reinterpret_cast<uint2*>(to) = make_uint2(v.word[0], v.word[1]);
    } else if constexpr (VECTOR_BYTES == 4) {
        *reinterpret_cast<unsigned*>(to) = v.word[0];
    } else {
        *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(v.word[0]);
    }
}

// Starts one such access from global to shared memory; finish_copies() waits for all of this thread's. A thread
// reads back what it copied itself, so that no barrier is needed. Those of 16 bytes never use L1
// (.cg), so NO_ALLOCATE is DEFAULT here.
template <CachePolicy POLICY = DEFAULT>
__device__ __forceinline__ void start_copy(Vector* to, const Element* from) {
    unsigned there = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (VECTOR_BYTES == 16 && POLICY == EVICT_LAST) {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(there), "l"(from),
                     "l"(evict_last())
                     : "memory");
    } else if constexpr (VECTOR_BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from) : "memory");
    } else if constexpr (VECTOR_BYTES >= 4) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(there), "l"(from), "n"(VECTOR_BYTES) : "memory");
    } else {
        *to = load(from);  // there is no asynchronous copy of 2 bytes
    }
}

__device__ __forceinline__ void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
