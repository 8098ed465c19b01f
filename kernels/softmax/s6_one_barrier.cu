// s6: s5 with one barrier instead of four. Exponentials are taken around the maximum of the warp, which needs none;
// the pairs of all warps meet behind one barrier, and a last factor moves each warp's to the maximum of the row.
// Any N up to 8192, in vectors as wide as N allows, and 16-bit types. The bytes moved stay at 8N a row.
// Why it should be faster: a row waits for its slowest warp once, and for fewer shuffles after it (row.cuh); most where
// few rows leave little else to do.
// Limits: N <= 8192; arrays aligned to 16 bytes. 16-bit results are rounded once, at the end.
// Bound by: DRAM; with few rows by the launch and one access.
#include "softmax.cuh"

extern "C" __global__ void ROW_KERNEL
sm_s6(const Element* __restrict__ x, Element* __restrict__ y, int N) {
    softmax_row<DEFAULT, DEFAULT>(x, y, N);
}
