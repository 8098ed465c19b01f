// s7: s6 with a say in what the caches keep. Lines of y are the last to leave L2, beyond three times the L2 cache those
// of x too, and at last those of x alone. Where x and y just fit L2, x has no room in L1. The ledger stays at 8N a row.
// Why it should be faster: what is left of y in the cache at the end of the launch has not been written to DRAM. Rows
// are still read once. It serves this launch: the next one finds lines that it may not need.
// Limits: as s6. Where x and y take three quarters of the L2 cache or less, nothing is asked for: it is s6.
// Bound by: DRAM.
#include "softmax.cuh"

extern "C" __global__ void ROW_KERNEL
sm_s7(const Element* __restrict__ x, Element* __restrict__ y, int N) {
    softmax_row<X_LINES, Y_LINES>(x, y, N);
}
