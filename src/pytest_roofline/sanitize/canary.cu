// Planted defects, one for each of the sanitizer's tools: a clean verdict counts only in a session in which the
// tool has found its own. One block of 64 threads, two warps; `out` has room for 64 floats.
// The shared arrays are volatile so that the optimiser has to keep the racy accesses.

// racecheck: each thread reads the slot that the other warp's thread writes, with no barrier between.
extern "C" __global__ void canary_race(float* out) {
    __shared__ volatile float slot[64];
    slot[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = slot[threadIdx.x ^ 32];
}

// racecheck: the leader of each warp writes the same value to one slot. The result is right all the same.
extern "C" __global__ void canary_same(float* out) {
    __shared__ volatile float slot;
    if (threadIdx.x % 32 == 0) slot = 1.0f;
    __syncthreads();
    out[threadIdx.x] = slot;
}

// memcheck: the last thread writes one past the end of the array.
extern "C" __global__ void canary_oob(float* out) { out[threadIdx.x + 1] = threadIdx.x; }

// initcheck: `in` was allocated and never written.
extern "C" __global__ void canary_uninit(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }

// synccheck: a barrier that half of the first warp reaches.
extern "C" __global__ void canary_barrier(float* out) {
    if (threadIdx.x < 16) __syncthreads();
    out[threadIdx.x] = 1.0f;
}
