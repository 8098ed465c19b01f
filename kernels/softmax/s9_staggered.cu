// s9: s8 with a staggered start of the rows of a short launch. Where all rows are on the GPU at once, all of them are
// read, then all wait, then all are written. Here a group of rows begins when DRAM has had the time to deliver those
// before it, so that the first are written while the last are still read. The bytes moved stay at 8N a row.
// Why it should be faster: reads and writes overlap, and the blocks of a row wait less for each other, since fewer rows
// compete for DRAM. One group is still enough to keep DRAM busy.
// From configs/rules.py: STAGGER_GROUP rows begin together, STAGGER_CYCLES after those before them: the SM cycles that
// DRAM at its peak takes to read a group. Where rows come in waves anyway it is 0 cycles: it is s8.
// Limits: as s8. Bound by: DRAM for the reads and L2 for the writes; a group's exchange and writes are left at the end.
#include "long.cuh"

extern "C" __global__ void ROW_KERNEL
sm_s9(const Element* __restrict__ x, Element* __restrict__ y, int N) {
    cluster_arrive();             // as in s8; before the wait, so that no block waits for the arrival of another
    long long begin = clock64();  // all blocks begin together: rows are staggered only where all fit the GPU
    long long group = Position().row / STAGGER_GROUP;
    while (clock64() - begin < group * STAGGER_CYCLES) {
    }
    softmax_long_row(x, y, N);
}
