// s8: a long row waits in shared memory, where asynchronous copies bring it without passing through registers, the
// last REGISTER_VECTORS vectors of a thread in registers; and a row that is too long for one block, or one of too few
// rows for the GPU, is split over a cluster of blocks that exchange maxima and sums through distributed shared memory.
// A vocabulary of 152064 is read once: the bytes moved stay at 8N a row, where s2 has 12N.
// Where x and y take over three quarters of L2, x stays in it, which was found by measuring, and y as in s7.
// Limits: N <= 524288; arrays aligned to 16 bytes; clusters need sm_90.
// Bound by: DRAM; 16-bit rows take a second exponential instead of room for floats in shared memory.
#include "long.cuh"

extern "C" __global__ void ROW_KERNEL
sm_s8(const Element* __restrict__ x, Element* __restrict__ y, int N) {
    cluster_arrive();  // this block runs: others may write into its shared memory once all have arrived
    softmax_long_row(x, y, N);
}
