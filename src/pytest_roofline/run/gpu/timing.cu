// What the timer queues around a measurement.

// Keeps one SM busy for about `ns` nanoseconds and touches no memory, so that the host can queue what is to be
// timed while the device is not yet there, and the caches stay as they are.
extern "C" __global__ void roofline_block(long long ns) {
    long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < ns);
}

// Reads a buffer of several times the L2: whatever was there is evicted, dirty lines are written back, and only
// clean lines are left. A flush that wrote would leave the timed kernel to pay for the write-back.
extern "C" __global__ void roofline_flush(const float4* __restrict__ buffer, long long count, float* never) {
    float sum = 0.0f;
    long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
        float4 v = buffer[i];
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 1.0f) *never = sum;  // the buffer is NaN: never true, but the compiler can't drop the reads
}
