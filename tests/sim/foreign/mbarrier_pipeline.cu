// Column sums of a matrix of 96 columns through a pipeline with mbarriers in shared memory: a producer warp stores rows
// into a ring of two buffers, 96 consumer threads add them up. Each buffer has a barrier that the producer's lanes
// complete (full) and one that the consumers complete (empty); both sides wait by parity of the phase. A block takes a
// range of rows and leaves its sums in its own row of the output.
#include <stdint.h>

constexpr int COLUMNS = 96, CONSUMERS = 96, PRODUCERS = 32, STAGES = 2;

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void initialise(uint64_t* barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "TRY:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra DONE;\n"
        "bra TRY;\n"
        "DONE:\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(PRODUCERS + CONSUMERS)
column_sums(const float* __restrict__ x, float* __restrict__ sums, int rows, int rows_per_block) {
    __shared__ float ring[STAGES][COLUMNS];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            initialise(&full[s], PRODUCERS);
            initialise(&empty[s], CONSUMERS);
        }
    }
    __syncthreads();

    const int begin = blockIdx.x * rows_per_block, end = min(rows, begin + rows_per_block);
    if (threadIdx.x < PRODUCERS) {
        for (int i = 0; i < end - begin; ++i) {
            const int stage = i % STAGES, phase = i / STAGES & 1;
            wait(&empty[stage], phase ^ 1);  // at once in the first round: the phase before the first counts as over
            const float* row = x + static_cast<size_t>(begin + i) * COLUMNS;
            for (int c = threadIdx.x; c < COLUMNS; c += PRODUCERS) ring[stage][c] = row[c];
            arrive(&full[stage]);
        }
    } else {
        const int c = threadIdx.x - PRODUCERS;
        float sum = 0.0f;
        for (int i = 0; i < end - begin; ++i) {
            const int stage = i % STAGES, phase = i / STAGES & 1;
            wait(&full[stage], phase);
            sum += ring[stage][c];
            arrive(&empty[stage]);
        }
        sums[blockIdx.x * COLUMNS + c] = sum;
    }
}
