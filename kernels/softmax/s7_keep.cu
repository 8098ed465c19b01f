// s7: s6 with eviction priorities: lines of y, and beyond four times the L2 cache those of x too, are the last to leave
// it. The ledger stays at 8N a row.
// Why it should be faster: what is left of y in the cache at the end of the launch has not been written to DRAM. Rows
// are still read once. It serves this launch: the next one finds lines that it may not need.
// Limits: as s6. Where x and y take three quarters of the L2 cache or less, nothing is marked: it is s6.
// Bound by: DRAM.
#include "softmax.cuh"

extern "C" __global__ void ROW_KERNEL
sm_s7(const Element* __restrict__ x, Element* __restrict__ y, int N) {
    softmax_row<KEEP_X, KEEP_Y>(x, y, N);
}
