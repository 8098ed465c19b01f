// A row over THREADS threads with VECTORS vectors each, or over a cluster of CLUSTER such blocks, and its reductions
// with one barrier each.
//
// All of these come from the declaration. FULL is the number of vectors that every thread has: only those above it
// are held against N. In reduce.cuh warp 0 reduces the partial results of all warps and hands the result back, which
// takes a second barrier; here every warp reduces all of them itself.
#pragma once

#include "reduce.cuh"
#include "vector.cuh"

__host__ __device__ constexpr int power_of_two(int least) { return least <= 1 ? 1 : 2 * power_of_two((least + 1) / 2); }

constexpr int REGISTERS = 65536 / (THREADS * BLOCKS);  // of an SM (sm_80 and newer), for each thread
constexpr int ROW_WARPS = THREADS / WARP;
constexpr int PARTIALS = ROW_WARPS * CLUSTER;  // one for each warp of the row
constexpr int PADDED = power_of_two(PARTIALS);  // those past the partials hold the identity

#if CLUSTER > 1
#define ROW_KERNEL __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, BLOCKS)
#else
#define ROW_KERNEL __launch_bounds__(THREADS, BLOCKS)
#endif

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// Arrival and wait are apart, so that loads are on their way in between.
__device__ __forceinline__ void cluster_arrive() {
    if constexpr (CLUSTER > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
    if constexpr (CLUSTER > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where this thread stands: its row, and the number of its k-th vector in it.
struct Position {
    long long row;
    int lane;
    int warp;
    int rank;

    __device__ __forceinline__ Position()
        : row(blockIdx.x / CLUSTER), lane(threadIdx.x % WARP), warp(threadIdx.x / WARP), rank(blockIdx.x % CLUSTER) {}

    __device__ __forceinline__ int vector(int k) const {
        return (k * CLUSTER + rank) * THREADS + static_cast<int>(threadIdx.x);
    }
};

// Publishes the value of each warp to every block of the row, where all can read it after row_barrier(). Slot is
// volatile float in a build with volatile shared arrays.
template <typename Slot>
__device__ __forceinline__ void publish(Slot* partial, const Position& at, float value) {
    if constexpr (CLUSTER == 1) {
        if (at.lane == 0) partial[at.warp] = value;
    } else if (at.lane < CLUSTER) {  // all lanes hold the value: one for each block
        unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(const_cast<float*>(partial)));
        unsigned there;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(at.lane));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + 4 * (at.rank * ROW_WARPS + at.warp)), "f"(value)
                     : "memory");
    }
}

// Pads the partials with the identity.
template <typename Slot>
__device__ __forceinline__ void pad_partials(Slot* partial, float identity) {
    int i = PARTIALS + static_cast<int>(threadIdx.x);
    if (PARTIALS < PADDED && i < PADDED) partial[i] = identity;  // the first condition spares code
}

__device__ __forceinline__ void row_barrier() {
    if constexpr (CLUSTER == 1) {
        __syncthreads();  // orders the partials of all warps before every thread reads them
    } else {
        cluster_arrive();  // the same for those of the other blocks. Nobody writes into another block's memory after
        cluster_wait();    // it, so that a block may end while others still run
    }
}

struct Sum {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Maximum {
    static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

// Reduces value(0) to value(COUNT - 1) in this thread, as a tree; COUNT is a power of two.
template <typename Op, int COUNT, typename Value>
__device__ __forceinline__ float in_thread(Value value) {
    if constexpr (COUNT == 1) {
        return value(0);
    } else {
        constexpr int HALF = COUNT / 2;
        return Op::of(in_thread<Op, HALF>(value), in_thread<Op, HALF>([&](int i) { return value(HALF + i); }));
    }
}

// Partials that a lane takes at a time: a wide load and a tree of operations take less time than the shuffles that they
// replace, but they need registers, and long rows have something else to do meanwhile.
constexpr int WIDE = 8;
constexpr int NARROW = PADDED <= WARP ? 1 : 2;

// Reduces value(i) over all partials, padded, for every lane, which takes EACH that lie side by side at a time.
template <typename Op, int EACH, typename Value>
__device__ __forceinline__ float reduce_partials(int lane, Value value) {
    constexpr int OWN = PADDED < EACH ? PADDED : EACH;
    constexpr int LANES = PADDED / OWN < WARP ? PADDED / OWN : WARP;  // that take different ones
    int first = lane % LANES * OWN;
    float v = in_thread<Op, OWN>([&](int i) { return value(first + i); });
#pragma unroll
    for (int round = LANES * OWN; round < PADDED; round += LANES * OWN) {
        v = Op::of(v, in_thread<Op, OWN>([&](int i) { return value(round + first + i); }));
    }
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) v = Op::of(v, __shfl_xor_sync(ALL_LANES, v, offset));
    return v;
}

// Sum over the row, for every thread. Called once a launch; where CLUSTER > 1 after one cluster_arrive().
template <int EACH>
__device__ __forceinline__ float row_sum(float v, const Position& at) {
    __shared__ __align__(16) float partial[PADDED];  // read in loads of 16 bytes
    v = warp_sum(v);
    pad_partials(partial, 0.0f);
    cluster_wait();  // all blocks of the cluster run, and have shared memory to write into
    publish(partial, at, v);
    row_barrier();
    return reduce_partials<Sum, EACH>(at.lane, [&](int i) { return partial[i]; });
}

// Maximum and sum of exponentials over the row, from those of each warp, for every thread. Called as row_sum().
template <int EACH>
__device__ __forceinline__ MaxSum row_merge(MaxSum v, const Position& at) {
    __shared__ __align__(16) float maximum[PADDED];
    __shared__ float sum[PADDED];
    pad_partials(maximum, EMPTY.m);
    pad_partials(sum, EMPTY.s);
    cluster_wait();  // as in row_sum()
    publish(maximum, at, v.m);
    publish(sum, at, v.s);
    row_barrier();
    float m = reduce_partials<Maximum, EACH>(at.lane, [&](int i) { return maximum[i]; });
    // As few as can be, each of which takes an exponential.
    float s = reduce_partials<Sum, NARROW>(at.lane, [&](int i) { return sum[i] * __expf(maximum[i] - m); });
    return {m, s};
}
