// n7: n6 with a cache policy for x and y (configs/rules.py), by their size against the L2 cache. Up to three quarters
// of it the default, and it is n6. Up to all of it x, which is read once, is not allocated in L1. Beyond, y is evicted
// last from L2; where x alone is over three times L2, x too, which was found by measuring; over twelve times x alone,
// for next to nothing of y could stay. The bytes moved stay at 8N a row.
// Why it should be faster: what is left of y in the cache at the end of the launch has not been written to DRAM. In
// float32 it is faster beyond L2, but not for that: by ncu's count DRAM writes no less than in n6. It serves this
// launch: the next one finds lines that it may not need.
// Limits: as n6. Bound by: DRAM.
#include "norm.cuh"

extern "C" __global__ void ROW_KERNEL
rms_n7(const Element* __restrict__ x, const Element* __restrict__ w, Element* __restrict__ y, int N, float eps) {
    norm_row<X_CACHE, Y_CACHE>(x, w, y, N, eps);
}
