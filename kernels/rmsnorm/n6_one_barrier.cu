// n6: n5 with one barrier instead of two, the weight loaded together with x, and as many threads as the shape wants
// (configs/rules.py). Any N up to 8192, in vectors as wide as N allows, and 16-bit types. Bytes moved stay at 8N a row.
// Why it should be faster: a row waits for memory once and not twice, for one barrier, and for fewer shuffles
// after it, none up to eight warps (row.cuh); most where few rows leave little else to hide latency behind.
// Limits: N <= 8192; arrays aligned to 16 bytes. 16-bit results are rounded once, after the weight.
// Bound by: DRAM; with few rows by the launch and one access.
#include "norm.cuh"

extern "C" __global__ void ROW_KERNEL
rms_n6(const Element* __restrict__ x, const Element* __restrict__ w, Element* __restrict__ y, int N, float eps) {
    norm_row<DEFAULT, DEFAULT>(x, w, y, N, eps);
}
