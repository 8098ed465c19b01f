// s9: s8 with the rows of a short launch in turns. Where all rows are on the card at once, all of them are read, then
// all wait, then all are written. Here a turn of rows begins when DRAM has had the time to deliver those before it, so
// that the first are written while the last are still read. The ledger stays at 8N a row.
// Why it should be faster: reads and writes overlap, and the blocks of a row wait less for each other, since fewer rows
// compete for DRAM. One turn is still enough to keep DRAM busy.
// From spreads.py: ROWS_A_TURN rows begin together, TURN_CYCLES after those before them, which are the SM cycles that
// DRAM at its peak takes to read a turn. Where rows come in waves anyway it is 0 cycles: it is s8.
// Limits: as s8. Bound by: DRAM for the reads and L2 for the writes; a turn's exchange and writes are left at the end.
#include "long.cuh"

extern "C" __global__ void ROW_KERNEL
sm_s9(const Element* __restrict__ x, Element* __restrict__ y, int N) {
    cluster_arrive();             // as in s8; before the turn, so that no block waits for the arrival of another
    long long begin = clock64();  // all blocks begin together: there are turns only where all fit the card
    long long turn = Place().row / ROWS_A_TURN;
    while (clock64() - begin < turn * TURN_CYCLES) {
    }
    softmax_long_row(x, y, N);
}
