// n7: n6 with a say in what the caches keep. Lines of y are the last to leave L2, beyond three times the L2 cache those
// of x too, and at last those of x alone. Where x and y just fit L2, x has no room in L1. The ledger stays at 8N a row.
// Why it should be faster: what is left of y in the cache at the end of the launch has not been written to DRAM. Rows
// are still read once. It serves this launch: the next one finds lines that it may not need.
// Limits: as n6. Where x and y take three quarters of the L2 cache or less, nothing is asked for: it is n6.
// Bound by: DRAM.
#include "norm.cuh"

extern "C" __global__ void ROW_KERNEL
rms_n7(const Element* __restrict__ x, const Element* __restrict__ w, Element* __restrict__ y, int N, float eps) {
    norm_row<X_LINES, Y_LINES>(x, w, y, N, eps);
}
