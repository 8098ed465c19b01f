// n7: n6 that also says what becomes of its cache lines (spreads.py), by the size of x and y against the L2 cache. Up
// to three quarters of it nothing, and it is n6. Up to all of it x, which is read once, is kept out of L1. Beyond, y is
// the last to be evicted from L2; where x alone is over three times L2, x too, which was found by measuring; over
// twelve times x alone, for next to nothing of y could stay. The ledger stays at 8N a row.
// Why it should be faster: what is left of y in the cache at the end of the launch has not been written to DRAM. In
// float32 it is faster beyond L2, but not for that: by ncu's count DRAM writes no less than in n6. It serves this
// launch: the next one finds lines that it may not need.
// Limits: as n6. Bound by: DRAM.
#include "norm.cuh"

extern "C" __global__ void ROW_KERNEL
rms_n7(const Element* __restrict__ x, const Element* __restrict__ w, Element* __restrict__ y, int N, float eps) {
    norm_row<X_LINES, Y_LINES>(x, w, y, N, eps);
}
