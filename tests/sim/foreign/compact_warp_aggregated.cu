// Stream compaction with one atomic a warp. compact_above: the lanes that keep a value find each other by __activemask,
// and the first of them reserves places for all. compact_even: the same by ballot, with all lanes in step. The order
// of the output is that of the warps' arrival.
__device__ __forceinline__ int lane_id() { return threadIdx.x & 31; }

__device__ __forceinline__ unsigned lanes_below() {
    unsigned mask;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    return mask;
}

extern "C" __global__ void compact_above(const int* __restrict__ in, int* out, int* count, int n, int threshold) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const int value = in[i];
        if (value > threshold) {
            const unsigned active = __activemask();
            const int leader = __ffs(active) - 1;
            int base = 0;
            if (lane_id() == leader) base = atomicAdd(count, __popc(active));
            base = __shfl_sync(active, base, leader);
            out[base + __popc(active & lanes_below())] = value;
        }
    }
}

extern "C" __global__ void compact_even(const int* __restrict__ in, int* out, int* count, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = i < n ? in[i] : 1;
    const bool keep = value % 2 == 0;
    const unsigned kept = __ballot_sync(0xffffffffu, keep);
    if (!__any_sync(0xffffffffu, keep)) return;
    int base = 0;
    if (lane_id() == 0) base = atomicAdd(count, __popc(kept));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (keep) out[base + __popc(kept & lanes_below())] = value;
}
